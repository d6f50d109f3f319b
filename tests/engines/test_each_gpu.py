"""Processes of one worker, one for each of its GPUs, are apart for the market and together for the machine."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduling.engines.base import FAILED, FINISHED, LOST, Gang
from scheduling.engines.launcher import program_crew
from scheduling.engines.launcher.confine import landlock_version
from scheduling.engines.launcher.gpus import Gpu
from scheduling.programs.catalogue import ALL_REDUCE, EACH_GPU
from tests.engines.local import (
    ended,
    engine_in,
    kill,
    lines,
    nobody_is_left,
    possible,
    process_of,
    start,
    story,
    text_of,
    until,
)
from tests.engines.own import archive, own, workers
from tests.patience import PATIENCE

FOUR = tuple(Gpu(f"GPU-{number}", f"nvidia{number}") for number in range(4))
# What NCCL asks before it lets two processes reach each other's GPUs: that they have the same folder for shared memory.
# Then they call each other by a socket without a path.
MEETS = """
import os, socket, sys, time
rank = os.environ["RANK"]
name = f"\\0bourse-{os.environ['BOURSE_RUN']}-"
mine = socket.socket(socket.AF_UNIX)
mine.bind(name + rank)
mine.listen()
open(f"/dev/shm/{rank}", "w").write(rank)
while len(os.listdir("/dev/shm")) < 2:
    time.sleep(0.01)
other = socket.socket(socket.AF_UNIX)
other.connect(name + str(1 - int(rank)))
mine.accept()
print("rank", rank, "of", os.environ["WORLD_SIZE"], "local", os.environ["LOCAL_RANK"], "met", flush=True)
"""


def gang(code: str, number: int = 1, each: float = 2.0, **fields: Any) -> Gang:
    document = {
        "name": "each", "shape": ALL_REDUCE, "command": ["python3", "-u", "work.py"], "grace_seconds": 2,
        "processes_per_worker": EACH_GPU,
    }  # fmt: skip
    document |= {"command": fields.pop("command")} if "command" in fields else {}
    planned = own(document, (time.time(), workers(number)), packed=archive(work__py=code), seconds=PATIENCE, **fields)
    return replace(planned, amounts={"worker": {"gpu": each}, "ps": {}})


@pytest.mark.skipif(not possible().alone and os.geteuid() != 0, reason="this machine gives no spaces of names")
def test_they_share_memory_and_reach_each_other() -> None:
    with engine_in(gpus=FOUR) as engine:
        handle = start(engine, gang(MEETS))
        assert ended(engine, handle).end == FINISHED, story(engine, handle)
        assert sorted(line for line in text_of(engine, handle).splitlines() if line.startswith("rank")) == [
            "rank 0 of 2 local 0 met",
            "rank 1 of 2 local 1 met",
        ]
        spoken = {(line.role, line.rank) for line in lines(engine, handle) if line.text.startswith("rank")}
        assert spoken == {("worker", 0), ("worker", 1)}
        nobody_is_left(handle.key)


def test_two_workers_of_two_processes_each_have_ranks_and_ends_of_their_own() -> None:
    code = "import os, sys; print(os.environ['RANK'], os.environ['CUDA_VISIBLE_DEVICES']); sys.exit(0)"
    with engine_in(gpus=FOUR) as engine:
        handle = start(engine, gang(code, number=2))
        assert ended(engine, handle).end == FINISHED, story(engine, handle)
        text = text_of(engine, handle)
        assert "Started: 4 processes on s1." in text
        assert [f"{rank} GPU-{rank // 2 * 2},GPU-{rank // 2 * 2 + 1}" in text for rank in range(4)] == [True] * 4


def test_one_of_them_that_fails_is_named() -> None:
    code = "import os, sys, time; print('no data'); sys.exit(3) if os.environ['RANK'] == '1' else time.sleep(600)"
    with engine_in(gpus=FOUR) as engine:
        handle = start(engine, gang(code))
        last = ended(engine, handle)
        assert (last.end, last.detail) == (FAILED, "worker 1 ended with code 3: no data"), story(engine, handle)
        nobody_is_left(handle.key)


def test_a_command_that_is_not_there_is_the_operators_fault_here_as_well() -> None:
    with engine_in(gpus=FOUR) as engine:
        handle = start(engine, gang("", command=["no-such-program"]))
        last = ended(engine, handle)
        assert (last.end, last.detail) == (LOST, "no-such-program was not found on node s1"), story(engine, handle)


def test_they_end_with_their_supervisor() -> None:
    with engine_in(gpus=FOUR) as engine:
        handle = start(engine, gang("import time; print('runs'); time.sleep(600)"))
        until(lambda: text_of(engine, handle).count("runs") == 2, lambda: story(engine, handle), PATIENCE, engine)
        first = process_of(engine, handle, "worker")
        both = [each for each in psutil.Process(handle.reference["pid"]).children() if each.is_running()]
        assert first in both
        assert len(both) == 2
        kill(psutil.Process(handle.reference["pid"]))
        psutil.wait_procs(both, timeout=PATIENCE)
        assert not [each for each in both if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_walls_stand_around_them_together(tmp_path: Path) -> None:
    """One may not signal whoever is no part of the worker, nor write elsewhere."""
    code = f"""
import os
for what in (lambda: os.kill({os.getpid()}, {int(signal.SIGUSR1)}), lambda: open({str(tmp_path)!r} + "/x", "w")):
    try:
        what()
        print("worked")
    except OSError:
        print("refused")
"""
    with engine_in(gpus=FOUR) as engine:
        handle = start(engine, gang(code))
        assert ended(engine, handle).end == FINISHED, story(engine, handle)
        text = text_of(engine, handle)
        assert (text.count("refused"), text.count("worked")) == (4, 0)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (b"12\n13\n-1\nnonsense\n", [12, 13]),  # what a program that found the pipe writes behind them
        (b"12\n-28\n", "No space left on device"),
        (b"12\n", "its launcher ended too soon"),
        (b"", "its launcher ended too soon"),
    ],
)
def test_a_supervisor_reads_as_many_processes_as_were_to_be_started(text: bytes, outcome: object) -> None:
    report, theirs = os.pipe()
    os.write(theirs, text)
    os.close(theirs)
    try:
        answer: object = program_crew._pids_in(report, 2)
    except OSError as error:
        answer = error.strerror
    finally:
        os.close(report)
    assert answer == outcome
