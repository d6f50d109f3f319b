"""A script that was written for torchrun runs unchanged with what its processes are told, also on another number of
workers after a restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import bourse_progress
from scheduling.programs.catalogue import Program, ProgramOwner, command_of, read, values_of
from scheduling.programs.progress import read as read_progress
from scheduling.programs.starting import GangMember, ProcessStart, Start, processes
from tests.patience import PATIENCE
from tests.ports import free_port

SCRIPT = Path(__file__).with_name("plain_train.py")
MOST_PORTS = 5


def program() -> Program:
    answer = read(
        {
            "name": "plain",
            "shape": "all_reduce",
            "command": [sys.executable, str(SCRIPT), "{steps}"],
            "processes_per_worker": "each_gpu",
            "parameters": [{"name": "steps", "kind": "whole", "default": 100, "least": 1}],
            "resize": "restart",
        },
        ProgramOwner(),
    )
    assert isinstance(answer, Program), answer
    return answer


def run(folder: Path, steps: int, workers: int, *, gpus: int = 1, restart: int = 0) -> list[float]:
    """What each process says w is in the end. The first one listens before the others come. A port that was free may
    be somebody else's by then: another one is tried."""
    for _ in range(MOST_PORTS):
        if (answers := run_at(free_port(), folder, steps, workers, gpus=gpus, restart=restart)) is not None:
            break
    else:
        raise AssertionError("no port stayed free")
    results = [json.loads(answer.splitlines()[-1]) for answer in answers]
    assert [each["rank"] for each in results] == list(range(workers * gpus))
    return [each["w"] for each in results]


def run_at(port: int, folder: Path, steps: int, workers: int, *, gpus: int, restart: int) -> list[str] | None:
    """What each process writes; None where the first one could not listen."""
    members = tuple(
        GangMember("worker", rank, "127.0.0.1", port, tuple(str(k) for k in range(gpus))) for rank in range(workers)
    )
    (folder / "progress").mkdir(parents=True, exist_ok=True)
    start = Start(1, "t", 300.0, 2_000_000_000, str(folder / "kept"), str(folder / "progress"), restart, members)
    values = values_of(program(), {"steps": steps})
    assert isinstance(values, dict)
    first, *others = processes(command_of(program(), values, ""), start)
    started = [begin(first)]
    try:
        assert started[0].stdout is not None
        if started[0].stdout.readline() != "listening\n":
            return None
        started += [begin(each) for each in others]
        # Not by `communicate`, which does not know what came with the first line and is read already.
        answers = [process.stdout.read() for process in started if process.stdout is not None]
        assert [process.wait(PATIENCE) for process in started] == [0] * len(started)
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    return answers


def begin(process: ProcessStart) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(bourse_progress.__file__).parent)}
    return subprocess.Popen(
        process.words, env=environment | dict(process.environment), stdout=subprocess.PIPE, text=True
    )


def test_two_and_four_workers_end_where_an_undisturbed_run_ends(tmp_path: Path) -> None:
    (alone,) = run(tmp_path / "alone", 60, 1)
    assert 2.9 < alone < 3.0
    assert all(abs(w - alone) < 1e-9 for w in run(tmp_path / "two", 60, 2))
    assert all(abs(w - alone) < 1e-9 for w in run(tmp_path / "gpus", 60, 2, gpus=2))
    run(tmp_path / "resized", 30, 2)
    assert all(abs(w - alone) < 1e-9 for w in run(tmp_path / "resized", 60, 4, restart=1))


def test_each_process_tells_its_loss_in_a_file_of_its_own(tmp_path: Path) -> None:
    run(tmp_path, 20, 2)
    files = sorted((tmp_path / "progress").iterdir())
    assert [file.name for file in files] == ["worker-0.jsonl", "worker-1.jsonl"]
    for file in files:
        progress = read_progress(file.read_bytes())
        assert progress.bad == 0
        assert progress.rows[-1]["step"] == progress.rows[-1]["of"] == 20
        assert progress.rows[-1]["loss"] <= progress.rows[0]["loss"]
