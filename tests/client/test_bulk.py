"""`bourse jobs submit FILE --bulk`: a job on each line, in as few calls as can be, and refusals by the line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bourse_client.command.session import Session
from tests.client.conftest import Bourse
from tests.client.pace import Hours
from tests.client.stub import Answer, bad, dropped, good, stub_server

OPTIONS = {"token": "t", "tenant": "lumen"}
SPEC = {"epochs": 1, "chunks": 4}


def lines(tmp_path: Path, *jobs: Any) -> Path:
    file = tmp_path / "rates.jsonl"
    file.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in jobs))
    return file


def reply(first: int, count: int) -> Answer:
    rows = [{"id": first + place, "name": "x", "state": "queued"} for place in range(count)]
    return good({"pool": "main", "results": rows}, status=201)


def test_each_line_is_a_job_in_one_call(bourse: Bourse, tmp_path: Path) -> None:
    hours = {"name": "h", "hours": {"hours": 1}, "worth": {"credits": "5", "within_seconds": 9}, "lane": "batch"}
    file = lines(tmp_path, SPEC | {"after": [7]}, "", {"name": "b", "spec": SPEC, "pool": "main"}, hours)
    with stub_server(reply(88, 3)) as stub:
        ended = bourse("jobs", "submit", file, "--bulk", "--key", "k1", url=stub.address, **OPTIONS)
    assert ended.status == 0, ended.err
    assert ended.out == "3 jobs: 88 to 90, in main\n"
    (call,) = stub.calls
    assert (call.path, call.key) == ("/api/v1/tenants/lumen/jobs/bulk/", "k1")
    del hours["lane"]
    jobs = [{"name": "rates-1", "after": [7], "spec": SPEC}, {"name": "b", "spec": SPEC}, hours]
    assert json.loads(call.body) == {"pool": "main", "jobs": jobs}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rates.jsonl", '{"epochs": 1}\n'),
        ("RATES.JSONL", "\n"),
        ("rates.txt", '{"epochs": 1}\n\n{"epochs": 2}\n{"epo'),
        ("-", '{"epochs": 1}\n{"epochs": 2}\n'),
    ],
)
@pytest.mark.parametrize("words", [(), ("--worth", "5"), ("--count", "2")])
def test_a_file_of_many_jobs_is_led_to_bulk(
    bourse: Bourse, tmp_path: Path, name: str, text: str, words: tuple[str, ...]
) -> None:
    file: Path | str = name
    if name != "-":
        file = tmp_path / name
        file.write_text(text)
    ended = bourse("jobs", "submit", file, *words, stdin=text, url="http://127.0.0.1:9", **OPTIONS)
    assert ended.status == 2
    assert ended.err.endswith(f"{name}: a file with a job on each line, as JSON, is submitted with --bulk.\n")


def test_a_file_of_many_jobs_has_no_quote(bourse: Bourse, tmp_path: Path) -> None:
    file = lines(tmp_path, SPEC, SPEC)
    ended = bourse("quote", file, url="http://127.0.0.1:9", **OPTIONS)
    assert ended.status == 2
    assert f"this file has one on each line: `bourse jobs submit {file} --bulk` submits them." in ended.err


@pytest.mark.parametrize("text", ['{"epochs": 1,\n"chunks": 4}\n', '{"epochs": 1, "chunks": 4}\n\n'])
def test_a_file_of_one_job_is_not_led_to_bulk(bourse: Bourse, text: str) -> None:
    ended = bourse("jobs", "submit", "-", "--worth", "5", stdin=text, url="http://127.0.0.1:9", **OPTIONS)
    assert ended.status == 2
    assert "--bulk" not in ended.err


def test_a_line_that_is_nested_too_deeply_is_named(bourse: Bourse, tmp_path: Path) -> None:
    file = lines(tmp_path, SPEC, "[" * 100_000)
    ended = bourse("jobs", "submit", file, "--bulk", url="http://127.0.0.1:9", **OPTIONS)
    assert ended.status == 2
    assert "line 2: this is not JSON." in ended.err


def test_mark_of_byte_order_before_a_file_is_no_part_of_it(bourse: Bourse, tmp_path: Path) -> None:
    file = tmp_path / "rates.jsonl"
    file.write_text(json.dumps(SPEC), encoding="utf-8-sig")
    with stub_server(reply(1, 1)) as stub:
        ended = bourse("jobs", "submit", file, "--bulk", "--pool", "main", url=stub.address, **OPTIONS)
    assert ended.status == 0, ended.err
    assert [job["spec"] for job in json.loads(stub.calls[0].body)["jobs"]] == [SPEC]


def test_only_the_end_of_a_line_ends_a_line(bourse: Bourse, tmp_path: Path) -> None:
    file = tmp_path / "rates.jsonl"
    file.write_text(json.dumps(SPEC | {"name": "a\u2028b"}, ensure_ascii=False) + "\r\n", encoding="utf-8")
    with stub_server(reply(1, 1)) as stub:
        ended = bourse("jobs", "submit", file, "--bulk", "--pool", "main", url=stub.address, **OPTIONS)
    assert ended.status == 0, ended.err
    assert [job["name"] for job in json.loads(stub.calls[0].body)["jobs"]] == ["a\u2028b"]


@pytest.mark.parametrize("length", [195, 200])
def test_long_keys_that_begin_alike_stay_apart_in_several_calls(bourse: Bourse, tmp_path: Path, length: int) -> None:
    file = lines(tmp_path, *[SPEC] * 1_001)
    keys = []
    for end in "ab":
        with stub_server(reply(1, 1_000), reply(1_001, 1)) as stub:
            words = ("jobs", "submit", file, "--bulk", "--pool", "main", "--key", "k" * (length - 1) + end)
            assert bourse(*words, url=stub.address, **OPTIONS).status == 0
        keys += [call.key for call in stub.calls]
    assert len(set(keys)) == 4
    assert max(len(key or "") for key in keys) <= 200


def test_a_long_file_takes_several_calls_and_each_has_a_key_of_its_own(bourse: Bourse, tmp_path: Path) -> None:
    file = lines(tmp_path, *([SPEC] * 2500))
    with stub_server(reply(1, 1000), reply(1001, 1000), reply(2001, 500)) as stub:
        words = ("jobs", "submit", file, "--bulk", "--pool", "main", "--key", "k", "--json")
        ended = bourse(*words, url=stub.address, **OPTIONS)
    assert ended.status == 0, ended.err
    assert [len(json.loads(call.body)["jobs"]) for call in stub.calls] == [1000, 1000, 500]
    assert [call.key for call in stub.calls] == ["k-0", "k-1", "k-2"]
    assert [job["id"] for job in json.loads(ended.out)] == [*range(1, 2501)]


def test_large_jobs_go_in_calls_that_the_interface_takes(bourse: Bourse, tmp_path: Path) -> None:
    long, many = SPEC | {"note": "x" * 400_000}, SPEC | {"many": [1] * 30_000}
    file = lines(tmp_path, *([long] * 5), many, many, SPEC)
    with stub_server(reply(1, 2)) as stub:
        ended = bourse("jobs", "submit", file, "--bulk", "--pool", "main", url=stub.address, **OPTIONS)
    assert ended.status == 0, ended.err
    assert [len(json.loads(call.body)["jobs"]) for call in stub.calls] == [2, 2, 2, 2]
    assert all(len(call.body) < 1 << 20 for call in stub.calls)


def test_refusal_names_the_lines_and_what_is_submitted_before_them(bourse: Bourse, tmp_path: Path) -> None:
    errors = [
        {"field": "jobs[0].chunks", "code": "invalid_job", "detail": "chunks: must be a positive integer, not 0."},
        {"field": "jobs[2]", "code": "larger_than_window", "detail": "Needs 50 slots; the longest interval has 8."},
        {"field": "jobs[3].name", "code": "required", "detail": "This field is required."},
    ]
    detail = "jobs[0]: chunks: must be a positive integer, not 0. 3 of the 4 jobs cannot be taken, so none is."
    figures = [{"index": 2, "code": "larger_than_window", "numbers": {"needs_slots": 50}}]
    numbers = {"jobs": 4, "refused": 3, "figures": figures}
    refused = bad(422, "jobs_refused", detail, numbers=numbers, errors=errors)
    file = lines(tmp_path, *([SPEC] * 1000), "", *([SPEC] * 4))
    with stub_server(reply(1, 1000), refused) as stub:
        ended = bourse("jobs", "submit", file, "--bulk", "--pool", "main", url=stub.address, **OPTIONS)
    assert ended.status == 1
    assert ended.err.splitlines() == [
        "Submitted: lines 1 to 1000. Of the rest, nothing.",
        "bourse: Line 1002: chunks: must be a positive integer, not 0. 3 of the 4 jobs cannot be taken, so none is.",
        "  line 1002: chunks: must be a positive integer, not 0.",
        "  line 1004: Needs 50 slots; the longest interval has 8.",
        "  line 1005: name: This field is required.",
        "  code jobs_refused: jobs 4, refused 3",
    ]


@pytest.mark.parametrize("trouble", [dropped, bad(503, "busy"), bad(500, "internal_error")])
@pytest.mark.parametrize("words", [(), ("--key", "k")])
def test_the_key_that_is_named_for_a_lost_answer_submits_each_line_once(
    bourse: Bourse, tmp_path: Path, words: tuple[str, ...], trouble: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "pace", Hours().pace())
    file = lines(tmp_path, *([SPEC] * 2500))
    command = ("jobs", "submit", file, "--bulk", "--pool", "main")
    with stub_server(reply(1, 1000), trouble) as stub:
        ended = bourse(*command, *words, url=stub.address, **OPTIONS)
        first = {call.key: call.body for call in stub.calls}
    assert (ended.status, len(first)) == (3, 2), ended.err
    assert ended.err.startswith("Submitted: lines 1 to 1000. Of lines 1001 to 2000 it is not known; the rest was not")
    named = re.search("--key (.+)$", ended.err)
    assert named, ended.err
    with stub_server(reply(1, 1000), reply(1001, 1000), reply(2001, 500)) as stub:
        ended = bourse(*command, "--key", named[1], url=stub.address, **OPTIONS)
        again = {call.key: call.body for call in stub.calls}
    assert (ended.status, len(again)) == (0, 3), ended.err
    assert first.items() <= again.items()


@pytest.mark.parametrize(
    ("jobs", "words", "begins"),
    [
        ((), (), "write a job on each line"),
        (("",), (), "write a job on each line"),
        ((SPEC, "{"), (), "line 2: this is not JSON"),
        ((SPEC, '{"epochs": NaN}'), (), "line 2: this is not JSON"),
        ((SPEC, '{"epochs": 1e999}'), (), "line 2: this is not JSON"),
        ((SPEC, '{"epochs": 1, "value": {"base": 1, "base": 2}}'), (), "line 2: 'base' stands there twice."),
        (("[1]",), (), "line 1: write the fields of one job"),
        ((SPEC | {"lane": "instant"},), (), "line 1: lane: jobs in bulk wait"),
        (({"spec": SPEC, "script": "x"},), (), "line 1: script: beside `spec` or `hours` only"),
        ((SPEC | {"pool": "a"}, SPEC | {"pool": "b"}), (), "the jobs of one file go to one pool, not to a, b"),
        ((SPEC,), ("--count", "3"), "Beside --bulk only --pool, --name and --key"),
        ((SPEC,), ("--lane", "instant"), "Beside --bulk only --pool, --name and --key"),
        ((SPEC,), ("--timeout", "3"), "Beside --bulk only --pool, --name and --key"),
        ((SPEC,), ("--every", "3"), "Beside --bulk only --pool, --name and --key"),
        ((SPEC,), ("--divisible",), "Beside --bulk only --pool, --name and --key"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_is_sent(
    bourse: Bourse, tmp_path: Path, jobs: tuple[Any, ...], words: tuple[str, ...], begins: str
) -> None:
    with stub_server(reply(1, 1)) as stub:
        ended = bourse("jobs", "submit", lines(tmp_path, *jobs), "--bulk", *words, url=stub.address, **OPTIONS)
    assert (ended.status, len(stub.calls)) == (2, 0)
    assert begins in ended.err
