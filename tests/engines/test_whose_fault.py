"""Whose fault it is that a process of a gang was killed: the program's where it took too much, else the platform's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from scheduling.engines.base import FAILED, LOST
from scheduling.engines.launcher import files, processes, trainer_supervisor
from scheduling.engines.launcher.crew import MemberProcess
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.processes import Ended
from scheduling.engines.launcher.trainer_supervisor import TrainerSupervisor
from tests.engines.local import SMALL

KILLED = Ended(code=-9, seconds=1.0, peak=2**20)


@pytest.fixture
def watching(tmp_path: Path) -> TrainerSupervisor:
    """A supervisor of a worker, 41, and a parameter server, 42, that are not really there."""
    folder = Folder(tmp_path, "job-1", "key")
    folder.make()
    plan = {
        "limits": asdict(SMALL),
        "cpu_seconds": 60,
        "stop": "",
        "phases": [],
        "ports": {},
    }
    files.write(folder.plan, plan)
    supervisor = TrainerSupervisor(folder)
    supervisor.crew.running = {41: MemberProcess("worker", 0, "s1", 41), 42: MemberProcess("ps", 0, "s1", 42)}
    return supervisor


def test_killed_worker_comes_again_and_a_killed_server_is_lost(watching: TrainerSupervisor) -> None:
    watching.notice({41: KILLED})
    assert (watching.end, watching.lost, watching.crew.restarts) == (None, None, 1)
    watching.notice({42: KILLED})
    assert watching.lost is not None
    assert watching.lost[0] == "ps 0 was ended by SIGKILL"


def test_coordinator_that_is_killed_while_it_saves_is_lost(watching: TrainerSupervisor) -> None:
    """A server that is lost takes them one after the other: its workers first, so that the job is to be saved."""
    watching.crew.running[40] = MemberProcess("coordinator", 0, "s1", 40, leaving=True)
    watching.crew.pausing = True
    watching.notice({40: KILLED})
    watching.advance(0.0)
    assert watching.end == (LOST, "coordinator 0 was ended by SIGKILL")


@pytest.mark.parametrize("code", [-15, -2, 1])
def test_coordinator_that_goes_by_itself_when_it_is_asked_to_is_not_lost(
    watching: TrainerSupervisor, code: int
) -> None:
    watching.crew.running[40] = MemberProcess("coordinator", 0, "s1", 40, leaving=True)
    watching.crew.pausing = True
    watching.notice({40: Ended(code=code, seconds=1.0, peak=2**20)})
    assert (watching.end, watching.lost) == (None, None)


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (Ended(-9, 61.0, 0), "it used 61.0 s of processor time, more than 60"),
        (Ended(-9, 0.0, 201 * 2**20), "it took 201 MB of memory, more than 100"),
    ],
)
def test_killed_because_it_took_too_much_it_has_failed(watching: TrainerSupervisor, ended: Ended, why: str) -> None:
    watching.notice({42: ended})
    assert watching.end == (FAILED, f"ps 0 was ended by SIGKILL: {why}")


def test_where_the_machine_has_no_memory_left_that_is_said(
    watching: TrainerSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = processes.out_of_memory_kills()
    monkeypatch.setattr(processes, "out_of_memory_kills", lambda: kills + 1)
    monkeypatch.setattr(trainer_supervisor, "can_never_kill", lambda: False)
    watching.notice({42: KILLED})
    assert watching.lost is not None
    assert watching.lost[0].endswith("; this machine has run out of memory")


def test_where_programs_can_send_the_signal_themselves_they_are_held_to_have_done_so(
    watching: TrainerSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_supervisor, "can_never_kill", lambda: False)
    watching.notice({41: KILLED})
    assert watching.end == (FAILED, "worker 0 was ended by SIGKILL: by its own hand, as nobody else did")


@pytest.mark.parametrize(("code", "how"), [(-14, "SIGALRM"), (-11, "SIGSEGV"), (-10, "SIGUSR1"), (-40, "signal 40")])
def test_other_signals_are_the_programs_own(watching: TrainerSupervisor, code: int, how: str) -> None:
    watching.notice({41: Ended(code, 0.0, 0)})
    assert watching.end == (FAILED, f"worker 0 was ended by {how} before the job began")
