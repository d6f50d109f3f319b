"""`manage.py simulate`: results in files, a summary on the screen, one line for whatever is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.core.scenario_documents import Document, at, changed, make_document, make_row
from tests.management.files import manage, output_of, put, refused, result_of

CASES = cases("guarantee")


def without_seconds(path: Path) -> str:
    """The result file up to the one field that may differ between two runs."""
    head, seconds, _ = path.read_text().partition('"seconds": ')
    assert seconds
    return head


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_decides_the_shared_cases_as_expected(tmp_path: Path, case: dict[str, Any]) -> None:
    output_of("simulate", put(tmp_path, case["scenario"]), "--output", tmp_path / "R.json")
    result = result_of(tmp_path / "R.json")
    rows = {row["name"]: row for row in result["jobs"]}
    for expected in case["expect"]["jobs"]:
        for field, value in expected.items():
            outcome = rows[expected["name"]][field]
            assert outcome == (value if isinstance(value, str) else pytest.approx(value, abs=1e-9)), field
    assert {row["name"]: row["gain"] for row in result["tenants"]} == pytest.approx(case["expect"]["gains"])
    assert {row["name"]: row["alone"] for row in result["tenants"]} == pytest.approx(case["expect"]["alone"])


def test_writes_the_fields_of_the_format_in_their_order(tmp_path: Path) -> None:
    rows = [make_row("j0"), make_row("j1", tenant="u2", arrival=1.5, ps_mbps=2)]
    output_of("simulate", put(tmp_path, make_document(jobs=rows)), "--output", tmp_path / "R.json")
    result = result_of(tmp_path / "R.json")
    assert list(result) == ["format", "policy", "jobs", "tenants", "metrics", "seconds"]
    assert result["format"] == "result/1"
    assert result["policy"] == {"name": "fifo", "workers": 2, "seed": 1}
    assert list(result["jobs"][0]) == [
        *("name", "state", "reason", "phase", "placement", "start", "end", "workers", "ps", "allocation"),
        *("value", "floor", "cost", "surplus", "paid", "payouts"),
    ]
    assert result["jobs"][1]["allocation"] == [
        {"server": "s1", "slots": [2, 4], "workers": 1, "ps": 1},
        {"server": "s2", "slots": [2, 4], "workers": 1, "ps": 0},
    ]
    assert set(result["seconds"]) == {"total", "deciding"}


def test_writes_the_same_bytes_each_time_but_for_the_seconds(tmp_path: Path) -> None:
    rows = [make_row(f"j{k}", tenant=f"u{1 + k % 2}", arrival=k * 0.7, epochs=1 + k % 5) for k in range(30)]
    policy = {"name": "astraea", "mode": "guarantee"}
    scenario = put(tmp_path, make_document(jobs=rows, policy=policy))
    output_of("simulate", scenario, "--output", tmp_path / "one.json")
    output_of("simulate", scenario, "--output", tmp_path / "two.json")
    assert without_seconds(tmp_path / "one.json") == without_seconds(tmp_path / "two.json")


def test_a_result_names_the_policy_so_fully_that_it_can_be_run_again(tmp_path: Path) -> None:
    rows = [make_row(f"j{k}", tenant=f"u{1 + k % 2}", arrival=k * 0.7) for k in range(20)]
    scenario = make_document(jobs=rows, policy={"name": "astraea", "mode": "guarantee"})
    output_of("simulate", put(tmp_path, scenario), "--output", tmp_path / "one.json")
    replayed = {**scenario, "policy": result_of(tmp_path / "one.json")["policy"]}
    output_of("simulate", put(tmp_path, replayed), "--output", tmp_path / "two.json")
    assert without_seconds(tmp_path / "one.json") == without_seconds(tmp_path / "two.json")


def test_another_policy_begins_with_its_own_defaults(tmp_path: Path) -> None:
    policy = {"name": "astraea", "theta": {"worker": 16, "ps": 16}}
    scenario = put(tmp_path, make_document(policy=policy))
    output_of("simulate", scenario, "--policy", "fifo", "--set", "workers=1", "--output", tmp_path / "R.json")
    assert result_of(tmp_path / "R.json")["policy"] == {"name": "fifo", "workers": 1, "seed": 1}


def test_the_same_policy_keeps_the_fields_of_the_file(tmp_path: Path) -> None:
    scenario = put(tmp_path, make_document())
    output_of("simulate", scenario, "--policy", "fifo", "--set", "seed=5", "--output", tmp_path / "R.json")
    assert result_of(tmp_path / "R.json")["policy"] == {"name": "fifo", "workers": 2, "seed": 5}


def test_sets_fields_inside_fields(tmp_path: Path) -> None:
    scenario = put(tmp_path, make_document(policy={"name": "astraea"}))
    changes = ("--set", "theta.worker=16", "--set", "theta.ps=3.5", "--set", "mode=guarantee", "--set", "clock.first=2")
    output_of("simulate", scenario, *changes, "--set", "clock.cap=8", "--output", tmp_path / "R.json")
    policy = result_of(tmp_path / "R.json")["policy"]
    assert (policy["theta"], policy["mode"]) == ({"worker": 16.0, "ps": 3.5}, "guarantee")
    assert (policy["clock"]["first"], policy["clock"]["cap"]) == (2, 8)


def test_the_instant_lane_has_a_policy_of_its_own(tmp_path: Path) -> None:
    rows = [make_row("slow"), make_row("quick", tenant="u2", lane="instant", ps_mbps=10)]
    clock = {"first": 4, "cap": 4, "restart": False}  # the instant lane sells up to the first boundary
    batch = {"name": "astraea", "mode": "guarantee", "clock": clock}
    policies = {"policy": batch, "instant": {"name": "oasis", "units": "chunks"}}
    scenario = put(tmp_path, make_document(jobs=rows, **policies))
    changes = ("--set", "policy.rounds=1", "--set", "instant.units=worker_slots")
    output_of("simulate", scenario, *changes, "--output", tmp_path / "R.json")
    result = result_of(tmp_path / "R.json")
    assert (result["policy"]["name"], result["instant"]["name"]) == ("astraea", "oasis")
    assert result["instant"]["units"] == "worker_slots"
    assert result["jobs"][0]["phase"] == "own"
    assert result["jobs"][1]["start"] == 0, result["jobs"][1]  # it does not wait for a boundary


def test_a_tenant_alone_has_its_own_cells_and_no_neighbours(tmp_path: Path) -> None:
    rows = [make_row("long", tenant="u2", epochs=10, ps_mbps=10), make_row("short", tenant="u1", ps_mbps=10)]
    scenario = put(tmp_path, make_document(jobs=rows, policy={"name": "fifo", "workers": 2}))
    output_of("simulate", scenario, "--output", tmp_path / "R.json")
    gain, alone = (
        {row["name"]: row[name] for row in result_of(tmp_path / "R.json")["tenants"]} for name in ("gain", "alone")
    )
    assert alone == {"u1": 96.0, "u2": 80.0}
    assert sum(gain.values()) <= sum(alone.values())


def test_nothing_says_what_alone_would_mean_without_cells(tmp_path: Path) -> None:
    document = make_document()
    for server in document["servers"]:
        del server["cells"]
    output_of("simulate", put(tmp_path, document), "--output", tmp_path / "R.json")
    assert [row["alone"] for row in result_of(tmp_path / "R.json")["tenants"]] == [None, None]


def test_runs_a_scenario_without_jobs(tmp_path: Path) -> None:
    assert "awarded" in output_of("simulate", put(tmp_path, make_document(jobs=[])), "--output", tmp_path / "R.json")
    assert result_of(tmp_path / "R.json")["jobs"] == []


# --- the screen -------------------------------------------------------------------------------------------------------


def test_shows_each_job_while_they_are_few(tmp_path: Path) -> None:
    text = output_of("simulate", put(tmp_path, make_document()))
    assert text.startswith("S.json: fifo, 2 servers, 2 tenants, 2 jobs, 32 slots\n")
    assert any(line.split()[:3] == ["j1", "u2", "awarded"] for line in text.splitlines())
    assert "fairness variance" in text


def test_counts_reasons_where_jobs_are_many(tmp_path: Path) -> None:
    rows = [make_row(f"j{k}", epochs=64) for k in range(60)]
    text = output_of("simulate", put(tmp_path, make_document(jobs=rows)))
    assert "j59" not in text
    assert any(line.split()[0] == "waiting" and line.split()[-1].isdigit() for line in text.splitlines() if line)


# --- many files -------------------------------------------------------------------------------------------------------


def test_runs_many_files_into_a_folder(tmp_path: Path) -> None:
    paths = [put(tmp_path, make_document(jobs=[make_row(epochs=k)]), f"{k}.json") for k in (1, 2, 3)]
    text = output_of("simulate", *paths, "--output", tmp_path / "results")
    assert [line.split(":")[0] for line in text.splitlines()] == ["1.json", "2.json", "3.json"]
    ends = [result_of(tmp_path / "results" / f"{k}.json")["jobs"][0]["end"] for k in (1, 2, 3)]
    assert ends == [1, 2, 3]


def test_a_wrong_file_among_many_gets_its_line_and_the_others_their_results(tmp_path: Path) -> None:
    good, bad = put(tmp_path, make_document(), "good.json"), put(tmp_path, "{}", "bad.json")
    line = refused("simulate", good, bad, "--output", tmp_path / "results")
    assert line == f'{bad}: format: must be "scenario/1"; it is missing'
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["good.json"]


def test_refuses_to_give_two_results_one_name(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, two = put(tmp_path, make_document()), put(tmp_path / "other", make_document())
    assert "have the same name" in refused("simulate", one, two, "--output", tmp_path / "results")
    assert not (tmp_path / "results").exists()


# --- what is refused --------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[str, Callable[[], Document | str]]] = {
    "not a number": (
        'jobs[0].arrival: must be a number, not "soon"',
        lambda: changed(at("jobs", 0, "arrival")("soon")),
    ),
    "NaN": (
        "jobs[0].arrival: must be a finite number, not NaN",
        lambda: changed(at("jobs", 0, "arrival")(float("nan"))),
    ),
    "infinity": (
        "slot_seconds: must be a finite number, not Infinity",
        lambda: changed(at("slot_seconds")(float("inf"))),
    ),
    "negative": ("jobs[0].chunks: must be a positive integer, not -1", lambda: changed(at("jobs", 0, "chunks")(-1))),
    "zero capacity": (
        "servers[0].capacity: must be above 0 for at least one resource",
        lambda: changed(at("servers", 0, "capacity")({"worker": 0, "ps": 0})),
    ),
    "unknown tenant": ('jobs[0].tenant: unknown tenant "nobody"', lambda: changed(at("jobs", 0, "tenant")("nobody"))),
    "cells above capacity": (
        "servers[0].cells: cells of worker sum to 3, above the capacity of 2",
        lambda: changed(at("servers", 0, "cells")({"u1": {"worker": 3}})),
    ),
    "duplicate names": (
        'jobs[1].name: "j0" is already the name of jobs[0]',
        lambda: changed(at("jobs", 1, "name")("j0")),
    ),
    "quota unlike the cells' sum": (
        "tenants[0].quota.worker: is 1, but the cells sum to 2",
        lambda: changed(at("tenants", 0, "quota")({"worker": 1})),
    ),
    "a billion slots": ("slots: must be at most 1,000,000, not 1000000000", lambda: changed(at("slots")(10**9))),
    "not JSON": ("line 1, column 2: not JSON (expecting property name enclosed in double quotes)", lambda: "{"),
    "empty": ("scenario: is empty", lambda: ""),
    "unknown field": (
        'jobs[0].epoch: unknown field; did you mean "epochs"?',
        lambda: changed(at("jobs", 0, "epoch")(1)),
    ),
    "unknown policy": ('policy.name: unknown policy "nope"', lambda: changed(at("policy")({"name": "nope"}))),
    "unknown field of the policy": ("policy.wrkers: unknown field", lambda: changed(at("policy", "wrkers")(1))),
    "guarantee without cells": (
        "policy.floor: the guarantee needs home cells",
        lambda: changed(
            lambda d: (
                [s.pop("cells") for s in d["servers"]] and d.update(policy={"name": "astraea", "mode": "guarantee"})
            )
        ),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_scenario_gets_one_line_and_no_result(tmp_path: Path, what: str) -> None:
    line, document = WRONG[what]
    path = put(tmp_path, document())
    refusal = refused("simulate", path, "--output", tmp_path / "R.json")
    assert refusal.startswith(f"{path}: {line}")
    assert "\n" not in refusal
    assert not (tmp_path / "R.json").exists()


def test_a_wrong_scenario_leaves_an_older_result_alone(tmp_path: Path) -> None:
    (tmp_path / "R.json").write_text("older")
    refused("simulate", put(tmp_path, "{}"), "--output", tmp_path / "R.json")
    assert (tmp_path / "R.json").read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["R.json", "S.json"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--policy", "fifoo"], '--policy: unknown policy "fifoo"; did you mean "fifo"?; there are '),
        (["--set", "workers"], "--set workers: must be KEY=VALUE"),
        (["--set", "=3"], "--set =3: must be KEY=VALUE"),
        (["--set", "workers=NaN"], "--set workers=NaN: must be a finite number, not NaN"),
        (["--set", "workers=[1"], "--set workers=[1: not JSON"),
        (["--set", "workers.x=1"], "--set workers.x: workers is 2 and has no fields"),
        (["--set", "workers=many"], "policy.workers: must be a positive integer"),
        (["--set", "instant.units=chunks"], "--set instant: "),
        (["--set", "name=nope"], "policy.name: unknown policy"),
    ],
)
def test_a_wrong_option_gets_one_line(tmp_path: Path, arguments: list[str], line: str) -> None:
    path = put(tmp_path, make_document())
    refusal = refused("simulate", path, *arguments)
    assert refusal.removeprefix(f"{path}: ").startswith(line)
    assert "\n" not in refusal


def test_a_missing_file_gets_one_line(tmp_path: Path) -> None:
    assert (
        refused("simulate", tmp_path / "no.json")
        == f"{tmp_path / 'no.json'}: cannot be read (no such file or directory)"
    )


def test_a_folder_is_no_scenario(tmp_path: Path) -> None:
    assert refused("simulate", tmp_path) == f"{tmp_path}: cannot be read (is a directory)"


def test_a_place_that_cannot_be_written_gets_one_line(tmp_path: Path) -> None:
    target = tmp_path / "no" / "R.json"
    assert refused("simulate", put(tmp_path, make_document()), "--output", target).startswith(
        f"{target}: cannot be written"
    )


def test_a_place_that_cannot_be_written_is_told_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    monkeypatch.setattr("scheduling.management.commands.simulate.run", lambda *arguments: ran.append(arguments))
    refused("simulate", put(tmp_path, make_document()), "--output", tmp_path / "no" / "R.json")
    assert not ran


def test_says_in_what_it_counts(tmp_path: Path) -> None:
    text = output_of("simulate", put(tmp_path, make_document()))
    assert text.splitlines()[-1].startswith("Amounts in credits, times in slots of 3,600 s from 0;")


def test_never_overwrites_the_scenario(tmp_path: Path) -> None:
    path = put(tmp_path, make_document())
    before = path.read_text()
    assert "would overwrite the scenario" in refused("simulate", path, "--output", path)
    assert "would overwrite the scenario" in refused("simulate", path, "--output", tmp_path)
    assert path.read_text() == before


# --- for real ---------------------------------------------------------------------------------------------------------


def test_runs_on_a_machine_where_nothing_is_set_up(tmp_path: Path) -> None:
    done = manage("simulate", put(tmp_path, make_document()), "--output", tmp_path / "R.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("S.json: fifo")
    assert result_of(tmp_path / "R.json")["metrics"]["awarded"] == 2


def test_a_table_that_cannot_be_written_gets_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = manage("simulate", put(tmp_path, make_document()), into=full)
    assert (done.returncode, done.stderr) == (2, "the output cannot be written (no space left on device)\n")


def test_a_reader_that_goes_ends_the_command_without_a_word(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = manage("simulate", put(tmp_path, make_document()), into=pipe)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_ends_with_status_2_and_one_line(tmp_path: Path) -> None:
    path = put(tmp_path, changed(at("jobs", 0, "chunks")(0)))
    done = manage("simulate", path, "--output", tmp_path / "R.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{path}: jobs[0].chunks: must be a positive integer, not 0\n"
    assert not (tmp_path / "R.json").exists()
