"""Slurm's batch scripts: what each line means here, what is refused with its line, and what a whole script asks for."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest

from scheduling.programs import hours
from scheduling.programs.sbatch import IGNORED, NOT_KEPT, UNDERSTOOD, LineRefusal, Script, read
from scheduling.programs.sbatch.options import IGNORED as IGNORED_OPTIONS
from scheduling.programs.sbatch.options import NOT_KEPT as NOT_KEPT_OPTIONS
from scheduling.programs.sbatch.options import OPTION_NAMES, REFUSED, SHORTS, SUPPORTED
from scheduling.programs.sbatch.request import ScriptRequest, ask
from scheduling.programs.sbatch.values import Export, Gpus, Nodes, When

STEADY = {"kind": "linear", "slope": -1, "base": 1000}
POOL = ("cpu", "gpu", "memory")


def script(*lines: str, body: str = "srun python train.py") -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "", body, ""])


def script_of(*lines: str) -> Script:
    answer = read(script(*lines))
    assert isinstance(answer, Script), answer
    return answer


def refused(*lines: str) -> tuple[LineRefusal, ...]:
    refusals = read(script(*lines))
    assert isinstance(refusals, tuple), refusals
    return refusals


# ---- the options

VALUES: list[tuple[str, str, Any]] = [
    ("--job-name=train", "job_name", "train"),
    ('--job-name="a long name"', "job_name", "a long name"),
    ("-J train", "job_name", "train"),
    ("-Jtrain", "job_name", "train"),
    ("--nodes=2", "nodes", Nodes(2, 2)),
    ("-N 2-4", "nodes", Nodes(2, 4)),
    ("--ntasks 8", "ntasks", 8),
    ("-n8", "ntasks", 8),
    ("--ntasks-per-node=4", "ntasks_per_node", 4),
    ("--gpus=8", "gpus", Gpus(8)),
    ("-G a100:8", "gpus", Gpus(8, "a100")),
    ("--gres=gpu", "gres", Gpus(1)),
    ("--gres=gpu:2", "gres", Gpus(2)),
    ("--gres=gpu:h100", "gres", Gpus(1, "h100")),
    ("--gres=gpu:a100:4", "gres", Gpus(4, "a100")),
    ("--gpus-per-node=4", "gpus_per_node", Gpus(4)),
    ("--gpus-per-task=1", "gpus_per_task", Gpus(1)),
    ("-c 16", "cpus_per_task", 16),
    ("--mem=16G", "mem", 16_384),
    ("--mem=512", "mem", 512),
    ("--mem=1T", "mem", 1024**2),
    ("--mem=1025K", "mem", 2),
    ("--mem-per-gpu=40gb", "mem_per_gpu", 40_960),
    ("--time=90", "time", 5400),
    ("--time=90#minutes", "time", 5400),
    ("--job-name=a#b", "job_name", "a"),
    ("--job-name='a#b' # so", "job_name", "a#b"),
    ("--time=90:30", "time", 5430),
    ("-t 6:00:00", "time", 21_600),
    ("--time=1-12", "time", 129_600),
    ("--time=1-12:30", "time", 131_400),
    ("--time=1-12:30:15", "time", 131_415),
    ("--array=0-3", "array", (0, 1, 2, 3)),
    ("--array=5,1-3,2", "array", (1, 2, 3, 5)),
    ("-a 0-20:5", "array", (0, 5, 10, 15, 20)),
    ("--array=0-999", "array", tuple(range(1000))),
    ("--dependency=afterok:12", "dependency", (12,)),
    ("-d afterok:15:12,afterok:3", "dependency", (3, 12, 15)),
    ("--dependency=afterok:A-10:12,afterok:A-9:A-010", "dependency", (12, "A-9", "A-10")),
    ("--chdir=/data/me", "chdir", "/data/me"),
    ("--output=logs/%x-%A_%4a.out", "output", "logs/%x-%A_%4a.out"),
    ("--export=NONE", "export", Export(everything=False)),
    ("--export=ALL,SEED=3,B=x=y", "export", Export(True, (("B", "x=y"), ("SEED", "3")))),
    ("-C a100&nvlink", "constraint", ("a100", "nvlink")),
    ("-w n1,n[03-05,8],gpu-2", "nodelist", ("n1", "n03", "n04", "n05", "n8", "gpu-2")),
    ("--exclude=n7", "exclude", ("n7",)),
    ("--begin=now+2hours", "begin", When(7200)),
    ("-b 2028-02-29T08:00", "begin", When(at="2028-02-29T08:00:00")),
    ("--deadline=2026-12-01", "deadline", When(at="2026-12-01T00:00:00")),
]


@pytest.mark.parametrize(("line", "field", "value"), VALUES, ids=[line for line, _, _ in VALUES])
def test_an_option_is_read_as_slurm_reads_it(line: str, field: str, value: Any) -> None:
    head = script_of(line)
    assert getattr(head.options, field) == value
    assert [(each.number, each.verdict) for each in head.lines[1:]] == [(2, UNDERSTOOD)]
    assert head.place(field) == 2


def test_no_blank_is_needed_before_an_option() -> None:
    """As Slurm has it; what cannot be an option is taken for a comment, where Slurm refuses it."""
    head = read("#!/bin/bash\n#SBATCH--time=7 -n 2\n#SBATCH\t--gpus=2\n#SBATCHED --mem=1\n")
    assert isinstance(head, Script), head
    assert (head.options.time, head.options.ntasks, head.options.gpus, head.options.mem) == (420, 2, Gpus(2), None)
    assert [(line.number, line.verdict) for line in head.lines[-1:]] == [(4, IGNORED)]


def test_every_supported_option_has_a_value_above() -> None:
    assert {field for _, field, _ in VALUES} == {option.field for option in SUPPORTED.values()}
    assert len(SUPPORTED) == 22
    assert set(SHORTS.values()) <= set(OPTION_NAMES)


BAD: list[tuple[str, str]] = [  # a line, and the nearest that is allowed
    ("--nodes=two", "--nodes=2-4"),
    ("--nodes=4-2", "--nodes=2-4"),
    ("--nodes=0", "--nodes=2-4"),
    ("--ntasks=0", "--ntasks=1"),
    ("--ntasks=9999999", "--ntasks=1000000"),
    ("--ntasks", "--ntasks="),
    ("--gpus=a100:2,h100:2", "--gpus=a100:2"),
    ("--gpus=a100:", "--gpus=a100:1"),
    ("--gres=lscratch:10", "--gres=gpu:1"),
    ("--mem=0", "--mem=16G"),
    ("--mem=lots", "--mem=16G"),
    ("--time=0", "--time=24:00:00"),
    ("--time=UNLIMITED", "--time=24:00:00"),
    ("--time=1:2:3:4", "--time=6:00:00"),
    ("--time=6h", "--time=6:00:00"),
    ("--array=0-1000", "--array=0-999"),
    ("--array=1-5000:2", "--array=1-1999:2"),
    ("--array=0-99%4", "--array=0-99"),
    ("--array=a-b", "--array=0-9"),
    ("--dependency=afterany:3", "--dependency=afterok:3"),
    ("--dependency=singleton", "--dependency=afterok:12"),
    ("--dependency=afterok:3?afterok:4", "--dependency=afterok:3,afterok:4"),
    ("--dependency=afterok:x", "--dependency=afterok:12:15"),
    ("--output=%q.out", "--output=%j"),
    ("--export=HOME", "--export=HOME=..."),
    ("--export=BOURSE_JOB=3", "--export=MY_BOURSE_JOB=3"),
    ("--export=1=2", "--export=ALL,NAME=VALUE"),
    ("--export=SEED", "--export=SEED=..."),
    ("--export=ALL,SEED,RATE=2", "--export=ALL,SEED=...,RATE=2"),
    ("--export=NONE,SEED", "--export=SEED=..."),
    ("--export=NONE,SEED=3", "--export=SEED=3"),
    ("--export=NONE,ALL", "--export=ALL"),
    ("--export=NIL", "--export=NONE"),
    ("--export=NIL,SEED=3", "--export=SEED=3"),
    ("--export=ALL,BOURSE_JOB=3,A=1", "--export=ALL,MY_BOURSE_JOB=3,A=1"),
    ("--constraint=a100|h100", "--constraint=a100"),
    ("--constraint=[rack1*2]", "--constraint=rack1"),
    ("--nodelist=n[1", "--nodelist=n[1-4]"),
    ("--nodelist=n[1-5000]", "--nodelist=n[1-4]"),
    ("--begin=16:00", "--begin=now+2hours"),
    ("--begin=2027-02-29", "--begin=2026-12-01T08:00"),
    ("--deadline=tomorrow", "--deadline=now+2hours"),
    ("--exclusive", "--mem="),
    ("--mem-per-cpu=4G", "--mem="),
    ("--signal=B:USR1@60", ""),
    ("--gpu-per-node=4", "--gpus-per-node"),
    ("--nodess=4", "--nodes"),
    ("-Z 3", ""),
    ("nodes=2", "--nodes"),
    ('--job-name="a', ""),
    ("--job-name=", "--job-name="),
]


@pytest.mark.parametrize(("line", "near"), BAD, ids=[line for line, _ in BAD])
def test_what_cannot_be_kept_is_refused_with_its_line_and_what_is_nearest(line: str, near: str) -> None:
    (refusal,) = refused("--time=60", line, "--gpus=1")
    assert (refusal.line, refusal.nearest) == (3, near)
    assert refusal.sentence


def test_all_that_is_wrong_is_told_at_once_in_order_of_the_lines() -> None:
    assert [refusal.line for refusal in refused("--mem=0 --nodes=x", "--gpus=1", "--wrap=ls", "--tme=3")] == [
        2,
        2,
        4,
        5,
    ]


def test_lines_that_change_nothing_and_those_that_cannot_be_kept_are_listed() -> None:
    answer = script_of("--account=physics -p gpu", "--error=%j.err", "--mail-type=END # me", "", "--no-requeue")
    rows = [(line.number, line.option, line.verdict) for line in answer.lines[1:]]
    assert rows == [
        (2, "--account", IGNORED), (2, "-p", IGNORED), (3, "--error", NOT_KEPT), (4, "--mail-type", IGNORED),
        (5, "", IGNORED), (6, "--no-requeue", NOT_KEPT),
    ]  # fmt: skip
    assert all(line.sentence.endswith(".") for line in answer.lines)


def test_no_option_stands_in_two_lists() -> None:
    lists = [set(SUPPORTED), set(IGNORED_OPTIONS), set(NOT_KEPT_OPTIONS), set(REFUSED)]
    assert sum(map(len, lists)) == len(set().union(*lists))


def test_the_last_of_two_counts_and_the_first_is_listed_as_ignored() -> None:
    answer = script_of("--gpus=4", "--time=60", "-G 8")
    assert answer.options.gpus == Gpus(8)
    rows = [(line.number, line.verdict) for line in answer.lines[1:]]
    assert rows == [(2, IGNORED), (3, UNDERSTOOD), (4, UNDERSTOOD)]
    assert "Line 4" in answer.lines[1].sentence


def test_what_stands_behind_the_first_command_is_read_by_nobody_and_that_is_said() -> None:
    text = "#!/bin/bash\n\n# a comment\n#SBATCH --gpus=2\nmodule load x\n"
    text += "#SBATCH --gpus=8\n##SBATCH --mem=3\n# SBATCH -n 3\n"
    answer = read(text)
    assert isinstance(answer, Script)
    assert answer.options.gpus == Gpus(2)
    assert [(line.number, line.verdict) for line in answer.lines[1:]] == [
        (4, UNDERSTOOD), (6, IGNORED), (7, IGNORED), (8, IGNORED),
    ]  # fmt: skip
    assert answer.body == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("echo hello\n", 1),
        ("#!/usr/bin/env python3\nprint()\n", 1),
        ("#!/bin/tcsh\n", 1),
        ("#!/bin/bash\n#SBATCH -n 1\r\n", 2),
        ("#!/bin/bash\necho\n\0\n", 3),
        ("#!/bin/bash\n#SBATCH --job-name=a\x1b[31m\n", 2),
        ("#!/bin/bash\n#SBATCH --job-name=" + "a" * 5000 + "\n", 2),
        ("#!/bin/bash\n" + "x" * 2**20, 1),
    ],
)
def test_what_is_no_script_that_bash_can_run_is_refused_with_its_line(text: str, line: int) -> None:
    refusals = read(text)
    assert isinstance(refusals, tuple)
    assert [refusal.line for refusal in refusals] == [line]


@pytest.mark.parametrize(
    "first",
    ["#!/bin/bash", "#!/bin/sh", "#!/usr/bin/env bash", "#! /bin/bash -l", "#!/bin/bash --login", "#!/bin/bash -e -u"],
)
def test_shells_that_run_it(first: str) -> None:
    assert isinstance(read(f"{first}\n#SBATCH -G 1\nls\n"), Script)


def test_how_a_script_is_started_is_told_of_its_first_line() -> None:
    goes_on, ends = "goes on after a command that fails", "the first command that fails ends it"
    for first, words in (("#!/bin/bash", goes_on), ("#!/bin/bash -eu", ends), ("#!/bin/sh -u -e", ends)):
        answer = read(f"{first}\n#SBATCH -G 1\nls\n")
        assert isinstance(answer, Script)
        assert (answer.lines[0].number, answer.lines[0].verdict) == (1, UNDERSTOOD)
        assert words in answer.lines[0].sentence


def test_reads_two_hundred_lines_in_five_milliseconds() -> None:
    kinds = ["--job-name=a{}", "--gpus={} # GPUs", "-t {}", "--mem={}G", "--account='a {}'", "--export=ALL,A={}"]
    text = script(*(kinds[k % len(kinds)].format(k + 1) for k in range(200)))
    best = min(_seconds(text) for _ in range(50))
    assert best < 0.005, best


def _seconds(text: str) -> float:
    begin = process_time()
    assert isinstance(read(text), Script)
    return process_time() - begin


# ---- what a script asks for


def request_of(*lines: str, pool: tuple[str, ...] = POOL) -> ScriptRequest:
    answer = ask(script_of(*lines), pool)
    assert isinstance(answer, ScriptRequest), answer
    return answer


WORKERS: list[tuple[tuple[str, ...], int, int, dict[str, float], int]] = [  # least, most, of a worker, processes
    (("--gpus=8",), 8, 8, {"gpu": 1}, 1),
    (("--gpus=8", "--nodes=2"), 2, 2, {"gpu": 4}, 1),
    (("--nodes=2", "--gpus-per-node=4", "--ntasks-per-node=4", "-c 8"), 2, 2, {"gpu": 4, "cpu": 32}, 4),
    (("--nodes=2-4", "--gres=gpu:2"), 2, 4, {"gpu": 2}, 1),
    (("--nodes=2", "--ntasks=8", "--gpus-per-task=1"), 2, 2, {"gpu": 4}, 4),
    (("--ntasks=8", "--ntasks-per-node=4", "--gres=gpu:4"), 2, 2, {"gpu": 4}, 4),
    (("--ntasks=4", "--gpus-per-task=2", "--mem-per-gpu=10G"), 4, 4, {"gpu": 2, "memory": 20}, 1),
    (("--ntasks=4", "--gpus=8", "-c 3"), 4, 4, {"gpu": 2, "cpu": 3}, 1),
    (("--gpus=8", "--gpus-per-task=2"), 4, 4, {"gpu": 2}, 1),
    (("--gpus=4", "-c 16"), 1, 1, {"gpu": 4, "cpu": 16}, 1),
    (("--gres=gpu:4", "--mem=64500M"), 1, 1, {"gpu": 4, "memory": 63}, 1),
    (("-n 10", "-c 2"), 10, 10, {"cpu": 2}, 1),
    (("--mem=2G",), 1, 1, {"cpu": 1, "memory": 2}, 1),
    ((), 1, 1, {"cpu": 1}, 1),
]


@pytest.mark.parametrize(
    ("lines", "least", "most", "worker", "processes"), WORKERS, ids=[" ".join(w[0]) for w in WORKERS]
)
def test_workers_of_a_script(
    lines: tuple[str, ...], least: int, most: int, worker: dict[str, float], processes: int
) -> None:
    request = request_of("--time=60", *lines)
    assert (request.job.least, request.job.most, dict(request.job.worker)) == (least, most, worker)
    assert request.processes_per_worker == processes
    assert request.job.seconds == 3600
    assert request.not_kept == ()


def test_the_same_job_in_hours_in_detail_and_by_its_script_is_the_same_to_the_byte() -> None:
    by_script = request_of("--gpus=8", "--time=6:00:00").job
    in_hours = hours.read({"hours": "6", "most": 8, "worker": {"gpu": 1}}, POOL)
    assert isinstance(in_hours, hours.InHours)
    detail = json.loads(
        '{"chunks": 8, "epochs": 1, "max_workers": 8, "min_workers": 8, "minibatch_seconds": 1, "minibatches": 21600,'
        ' "ps_demand": [], "value": {"base": 1000, "kind": "linear", "slope": -1}, "worker_demand": {"gpu": 1}}'
    )
    texts = [hours.to_bytes(hours.specification(request, STEADY)) for request in (by_script, in_hours)]
    assert texts == [hours.to_bytes(detail)] * 2


def test_types_of_gpus_are_the_pools_own_names() -> None:
    pool = ("gpu-a100", "gpu-h100")
    assert dict(request_of("--time=60", "--gpus=h100:2", pool=pool).job.worker) == {"gpu-h100": 1}
    assert dict(request_of("--time=60", "--gpus=3", pool=("worker", "ps")).job.worker) == {"worker": 1}
    refusals = ask(script_of("--time=60", "--gpus=a10:2"), pool)
    assert isinstance(refusals, tuple)
    assert [(refusal.line, refusal.option, refusal.nearest) for refusal in refusals] == [(3, "--gpus", "gpu-a100")]


def test_what_a_pool_does_not_count_is_listed() -> None:
    request = request_of("--time=60", "--gpus=2", "--ntasks=2", "-c 4", "--mem-per-gpu=4G", pool=("gpu",))
    assert dict(request.job.worker) == {"gpu": 1}
    assert [(line.number, line.verdict) for line in request.not_kept] == [(5, NOT_KEPT), (6, NOT_KEPT)]


CROOKED: list[tuple[tuple[str, ...], int, str]] = [  # lines, the refused one, and the nearest
    (("--gpus=8",), 1, "--time=6:00:00"),
    (("--time=60", "--gpus=7", "--nodes=2"), 3, "--gpus=8"),
    (("--time=60", "--gpus=8", "--nodes=2-4"), 4, "--nodes=4"),
    (("--time=60", "--nodes=2-4", "--ntasks=8"), 3, "--nodes=4"),
    (("--time=60", "--nodes=2", "--gpus-per-node=4", "--gpus=9"), 5, "--gpus=10"),
    (("--time=60", "--nodes=2", "--gpus-per-node=4", "--gpus=10"), 5, "--gpus=8"),
    (("--time=60", "--ntasks=3", "--gpus=8"), 4, "--gpus=9"),
    (("--time=60", "--gpus=7", "--gpus-per-task=2"), 3, "--gpus=8"),
    (("--time=60", "--nodes=2", "--ntasks=7"), 4, "--ntasks=8"),
    (("--time=60", "--nodes=2", "--ntasks-per-node=4", "--ntasks=7"), 5, "--ntasks=8"),
    (("--time=60", "--ntasks=4", "--gpus-per-task=2", "--gpus=6"), 5, "--gpus=8"),
    (("--time=60", "--ntasks-per-node=4", "--gpus-per-task=2", "--gres=gpu:4"), 5, "--gres=gpu:8"),
    (("--time=60", "--gres=gpu:4", "--gpus-per-node=2"), 4, "--gpus-per-node="),
    (("--time=60", "--mem=4G", "--mem-per-gpu=2G", "--gpus=1"), 4, "--mem-per-gpu="),
    (("--time=60", "--mem=4G", "--gpus=2"), 3, "--mem-per-gpu="),
    (("--time=60", "--mem=4G", "--ntasks=2"), 3, "--nodes="),
    (("--time=60", "--mem-per-gpu=4G"), 3, "--mem="),
    (("--time=60", "--gpus=a100:2", "--gres=gpu:h100:2"), 4, ""),
    (("--time=60", "--gpus=20000"), 3, ""),
]


@pytest.mark.parametrize(("lines", "line", "near"), CROOKED, ids=[" ".join(case[0]) for case in CROOKED])
def test_lines_that_do_not_go_together_are_refused_with_their_line(
    lines: tuple[str, ...], line: int, near: str
) -> None:
    refusals = ask(script_of(*lines), POOL)
    assert isinstance(refusals, tuple), refusals
    assert [(refusal.line, refusal.nearest) for refusal in refusals] == [(line, near)]
