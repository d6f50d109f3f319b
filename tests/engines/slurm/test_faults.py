"""Slurm itself is dead, has lost its memory, answers late, or is set up against us."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduling.engines.base import ENDED, LOST, RUNNING, STOPPED, UNKNOWN, Fault
from scheduling.engines.slurm.commands import queue
from scheduling.operator.engine_servers import servers_due
from tests.engines.slurm.cluster import Cluster, cluster, program
from tests.engines.slurm.cluster import until as comes_true
from tests.engines.slurm.gangs import (
    ended,
    engine_on,
    gang,
    launchers,
    look,
    nobody_is_left,
    runs,
    start,
    tool,
    until,
)  # fmt: skip
from tests.patience import PATIENCE

ONE = {"n1": {"worker": 1, "ps": 1}}
TWO = {"n2": {"worker": 1, "ps": 1}}
THREE = {"n3": {"worker": 1, "ps": 1}}


@pytest.fixture
def own() -> Iterator[Cluster]:
    """A cluster that the test may break."""
    with cluster(("n1", "n2"), SlurmdTimeout=10) as own_cluster:
        own_cluster.reserve()
        yield own_cluster


def remember(own: Cluster) -> None:
    """Its controller writes down whom it knows: it does so some seconds after a change, such as one more job. What runs
    and is not written down would be ended by a controller that comes back."""
    since, state = time.time(), own.folder / "state" / "job_state"
    assert own.call("sbatch", "--hold", "--output=/dev/null", "--wrap=true").returncode == 0
    comes_true(lambda: state.exists() and state.stat().st_mtime > since, own.story)


@pytest.mark.wide
def test_controller_that_is_dead_over_an_end_and_a_start_comes_back_and_then_has_lost_its_memory(own: Cluster) -> None:
    with engine_on(own) as engine:
        old = start(engine, gang(ONE, after=2.0, seconds=300.0))
        living = start(engine, gang(TWO, after=2.0, seconds=300.0))
        runs(engine, old)
        before = runs(engine, living).progress["epoch"]
        remember(own)
        own.kill("slurmctld")
        engine.change(old, time.time() + 5.0)

        # Who runs goes on and ends in time; nobody knows of who should begin.
        late = gang({"n1": {"worker": 1, "ps": 1}}, after=4.0, seconds=60.0)
        answer = engine.submit([late])[late.key]
        assert not isinstance(answer, Fault)
        until(engine, answer, lambda status: status.state == UNKNOWN)
        status = ended(engine, old)
        assert (status.end, status.detail) == (STOPPED, "its reservation ends")
        nobody_is_left(old)
        assert runs(engine, living, before + 5).state == RUNNING
        engine.stop(answer)  # the market has given it up

        # It comes back with its memory: who lives goes on, and who was given up does not begin.
        own.run("slurmctld")
        comes_true(own.is_up, own.story)
        epoch = look(engine, living).progress["epoch"]
        assert runs(engine, living, epoch + 5).state == RUNNING
        assert len(launchers(living, "n2")) == 2
        nobody_is_left(answer)

        # Its state is gone, and ids are given out again: nobody runs twice. Slurm ends jobs that it does not know.
        own.kill("slurmctld")
        shutil.rmtree(own.folder / "state")
        (own.folder / "state").mkdir()
        own.run("slurmctld")
        comes_true(own.is_up, own.story)
        own.reserve()
        again = start(engine, gang(ONE, after=2.0, seconds=60.0))  # its id was that of a job which slurmd remembers
        for handle in (again, living):
            status = until(engine, handle, lambda status: status.state in (RUNNING, ENDED))
            assert (status.state, status.end) in ((RUNNING, ""), (ENDED, LOST))
        assert len(launchers(living, "n2")) in (0, 2)
        for handle in (again, living):
            engine.stop(handle)
            assert ended(engine, handle).end in (STOPPED, LOST)
            nobody_is_left(handle)


@pytest.mark.wide
def test_server_whose_slurmd_is_killed_is_lost_and_its_gang_is_ended(own: Cluster) -> None:
    with engine_on(own) as engine:
        handle = start(engine, gang(ONE, seconds=200.0))
        runs(engine, handle)
        own.kill("slurmd n1")
        status = ended(engine, handle)
        assert (status.end, status.detail) == (LOST, "server n1 failed")
        nobody_is_left(handle)
        states = engine.servers()
        assert (states["n1"].state, states["n2"].state) == ("down", "up")
        due = servers_due(states, 0.0, time.time() + 60.0)
        assert (due.lost, due.back) == ({"n1"}, {"n2"})
        own.run("slurmd", "n1")
        comes_true(lambda: engine.servers()["n1"].state == "up")


@pytest.mark.beside
def test_server_of_which_slurm_hears_nothing_is_not_lost_while_a_gang_on_it_is_heard_of(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        handle = start(engine, gang(ONE))
        runs(engine, handle)
        silent = "\n".join(f"{name}|down*|127.0.0.1|Not responding" for name in ("n1", "n2"))
        tools = tool(slurm, "sinfo", f"#!/bin/sh\ncat <<'SERVERS'\n{silent}\nSERVERS\n")
        engine.commands.environment["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
        engine.states.looked_at = 0.0
        first = engine.servers()
        look(engine, handle)
        time.sleep(1.1)  # a beat
        look(engine, handle)
        engine.states.looked_at = 0.0
        later = engine.servers()
        assert later["n2"].since == first["n2"].since
        assert later["n1"].since > first["n1"].since
        assert later["n1"].reason == "Not responding"


@pytest.mark.wide
@pytest.mark.beside
def test_killed_slurmstepd_harms_nobody(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        handle = start(engine, gang(ONE))
        before = runs(engine, handle).progress["epoch"]
        outer, _ = launchers(handle, "n1")
        outer.parent().kill()
        assert runs(engine, handle, before + 10).state == RUNNING
        engine.stop(handle)
        assert ended(engine, handle).end == STOPPED
        nobody_is_left(handle)


@pytest.mark.wide
def test_submission_that_answers_too_late_and_an_engine_that_dies_after_it_make_one_process_of_each_part(
    slurm: Cluster, tmp_path: Path
) -> None:
    slow = tmp_path / "sbatch"
    slow.write_text(f'#!/bin/sh\n{program("sbatch")} "$@"\nexec sleep 6\n')
    slow.chmod(0o755)
    order = gang(ONE, after=12.0)
    with engine_on(slurm) as engine:
        engine.commands.environment["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        handle = start(engine, order)
        assert next(iter(engine.jobs.submissions.values())) < 0  # nobody knows whether it came
        status = look(engine, handle)
        assert status.state in ("accepted", "waiting")
        # It dies before it could write down whom it started, and the next one submits the same gang.
        with engine_on(slurm, engine.root, [handle]) as later:
            assert later.find(order.home, order.key) == handle
            assert later.submit([order])[order.key] == handle
            until(later, handle, lambda status: status.state == "waiting")
            runs(later, handle)
            parts = [job for job in queue(later.commands)[1] if job.key == order.key]
            assert len(parts) == 1
            assert len(launchers(handle, "n1")) == 2


@pytest.mark.beside
def test_part_that_is_submitted_twice_runs_once(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        handle = start(engine, gang(TWO))
        runs(engine, handle)
        plan = engine.plans.of(handle)
        assert engine.submissions.send_one(plan, plan["phases"][0], "n2").is_good
        comes_true(lambda: sum(job.key == handle.key and job.is_over for job in queue(engine.commands)[1]) == 1)
        epoch = look(engine, handle).progress["epoch"]
        assert runs(engine, handle, epoch + 5).state == RUNNING
        assert len(launchers(handle, "n2")) == 2


@pytest.mark.wide
def test_reservation_that_goes_away_refuses_new_gangs_and_leaves_those_that_run(own: Cluster) -> None:
    with engine_on(own) as engine:
        handle = start(engine, gang(ONE, seconds=300.0))
        runs(engine, handle)
        assert engine.report().alerts == ()
        deleted = own.call("scontrol", "delete", "ReservationName=bourse")
        if deleted.returncode:  # Slurm keeps one that has jobs: it is ended in place
            own.call("scontrol", "update", "ReservationName=bourse", "EndTime=now")
        engine.change(handle, time.time() + 4.0)
        status = ended(engine, handle)
        assert status.end in (STOPPED, LOST)
        nobody_is_left(handle)
        until_gone = time.monotonic() + PATIENCE
        while own.call("scontrol", "show", "reservation", "bourse").returncode == 0 and time.monotonic() < until_gone:
            own.call("scontrol", "delete", "ReservationName=bourse")
            time.sleep(0.2)
        order = gang(ONE)
        answer = engine.submit([order])[order.key]
        assert isinstance(answer, Fault)
        assert "reservation" in answer.sentence.lower()
        engine._alerts_at = 0.0  # it asks once a minute
        (alert,) = engine.report().alerts
        assert alert.startswith("The reservation bourse cannot be shown: ")


def test_shared_folder_that_cannot_be_written_is_a_sentence_at_the_start_and_at_the_check(
    slurm: Cluster, tmp_path: Path
) -> None:
    nowhere = tmp_path / "file"
    with engine_on(slurm) as engine:
        nowhere.write_text("")
        engine.shared = nowhere / "shared"
        order = gang(ONE)
        answer = engine.submit([order])[order.key]
        assert answer == Fault("The gang could not be started: the shared folder says Not a directory.")
        sentences = [finding.sentence for finding in engine.check({})]
        assert f"The shared folder {nowhere}/shared cannot be written here: Not a directory." in sentences


@pytest.mark.beside
def test_gang_whose_plan_is_gone_is_told_as_lost_and_does_not_run_on(slurm: Cluster) -> None:
    """The engine's own folder is gone, with everything that it knew of what runs."""
    with engine_on(slurm) as first:
        handle = start(first, gang(THREE))
        runs(first, handle)
        with engine_on(slurm, knows=[handle], prefix=first.settings.prefix) as second:
            status = look(second, handle)
            assert (status.state, status.end, status.detail) == (ENDED, LOST, "its plan is gone")
            second.observe([])
            nobody_is_left(handle)
