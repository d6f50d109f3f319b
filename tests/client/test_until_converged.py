"""`--until-converged` and `--in-a-row`: words of the command line go before those of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.client.conftest import Bourse
from tests.client.stub import good, stub_server
from tests.client.test_command import JOB

OPTIONS = {"token": "t", "tenant": "lumen"}


@pytest.mark.parametrize(
    ("file_target", "words", "body_target"),
    [
        (None, ("--until-converged", "1"), {"threshold": 0.01}),
        (None, ("--until-converged", "0.3%", "--in-a-row", "5"), {"threshold": 0.003, "patience": 5}),
        ({"threshold": 0.02, "patience": 4}, ("--in-a-row", "5"), {"threshold": 0.02, "patience": 5}),
        ({"threshold": 0.02, "patience": 4}, ("--until-converged", "1"), {"threshold": 0.01, "patience": 4}),
        ({"threshold": 0.02}, (), {"threshold": 0.02}),
        (None, (), None),
    ],
)
def test_words_go_before_the_file(
    bourse: Bourse, file_target: dict | None, words: tuple[str, ...], body_target: dict | None
) -> None:
    spec = {"epochs": 1} | ({"until_converged": file_target} if file_target else {})
    body = json.dumps({"pool": "main", "name": "n", "lane": "batch", "spec": spec})
    with stub_server(good(JOB, status=201)) as stub:
        ended = bourse("jobs", "submit", "-", *words, stdin=body, url=stub.address, **OPTIONS)
    assert ended.status == 0, ended.err
    assert json.loads(stub.calls[0].body)["spec"].get("until_converged") == body_target


@pytest.mark.parametrize("words", [("--until-converged", "0"), ("--until-converged", "x"), ("--in-a-row", "3")])
def test_what_means_nothing_is_refused_before_anything_is_sent(
    bourse: Bourse, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (job_file := tmp_path / "job.yaml").write_text("epochs: 1\n")
    with stub_server(good(JOB, status=201)) as stub:
        ended = bourse("jobs", "submit", job_file, *words, url=stub.address, **OPTIONS)
    assert (ended.status, len(stub.calls)) == (2, 0)


def test_scripts_do_not_say_it(bourse: Bourse) -> None:
    with stub_server(good(JOB, status=201)) as stub:
        words = ("jobs", "submit", "-", "--pool", "main", "--worth", "5", "--until-converged", "1")
        ended = bourse(*words, stdin="#!/bin/sh\necho\n", url=stub.address, **OPTIONS)
    assert (ended.status, len(stub.calls)) == (2, 0)
    assert "for jobs in YAML" in ended.err
