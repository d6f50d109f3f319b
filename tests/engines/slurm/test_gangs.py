"""Gangs on a real Slurm: begun at their slot, seen, ended in time, and never twice."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from scheduling.engines.base import ENDED, FAILED, FINISHED, LOST, PAUSED, RUNNING, STOPPED, Fault, Generation
from scheduling.engines.launcher.files import GangRecords
from scheduling.engines.slurm.commands import queue
from tests.engines.local import BUSY_SECONDS, people_of
from tests.engines.slurm.cluster import Cluster
from tests.engines.slurm.gangs import (
    LONG,
    SHORT,
    came_at,
    ended,
    engine_on,
    gang,
    launchers,
    log_of,
    look,
    nobody_is_left,
    pid_of,
    record,
    runs,
    start,
    until,
)  # fmt: skip
from tests.patience import PATIENCE

UNEVEN = {"n1": {"worker": 2, "ps": 1}, "n2": {"worker": 1, "ps": 0}}
ONE = {"n1": {"worker": 1, "ps": 1}}


def test_gang_with_an_uneven_split_begins_at_its_slot_and_does_its_work(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        order = gang(UNEVEN, SHORT, after=5.0)
        status = ended(engine, handle := start(engine, order))
        assert (status.end, status.exit_code, status.progress["epoch"]) == (FINISHED, 0, 4)
        assert status.started_at is not None
        at = order.generations[0].at
        ready = max(at, *(came_at(engine, handle, server) for server in UNEVEN))  # on a busy machine Slurm is late
        assert at <= status.started_at <= ready + BUSY_SECONDS  # the bench measures
        assert {each.server for each in status.delivered} == {"n1", "n2"}
        log = log_of(engine, handle)
        assert "Started: 3 processes and a coordinator on n1." in log
        assert "Started: 1 process on n2." in log
        epochs = [row for row in GangRecords(engine.root).progress(handle.home, handle.key) if row["event"] == "epoch"]
        assert [row["epoch"] for row in epochs] == [1, 2, 3, 4]
        nobody_is_left(handle)


@pytest.mark.parametrize(
    ("changed", "counts", "sentence"),
    [
        ({"partition": "nowhere"}, ONE, "Invalid partition name specified"),
        ({"reservation": "nothing"}, ONE, "Requested reservation is invalid"),
        ({}, {"n9": {"worker": 1, "ps": 1}}, "Invalid node name specified"),
        ({}, {"n1": {"worker": 50, "ps": 1}}, "More processors requested than permitted"),
        ({"resources": {"worker": "gres:unheard"}}, ONE, "Invalid generic resource"),
    ],
)
def test_what_slurm_refuses_is_a_fault_with_its_sentence(
    slurm: Cluster, changed: dict[str, object], counts: dict[str, dict[str, int]], sentence: str
) -> None:
    with engine_on(slurm, **changed) as engine:
        order = gang(counts)
        answer = engine.submit([order])[order.key]
        assert isinstance(answer, Fault)
        assert answer.sentence.startswith("Slurm refused it: ")
        assert sentence in answer.sentence
        assert people_of(order.key) == []


def test_gang_that_cannot_be_whole_is_not_there_at_all(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        order = gang({"n1": {"worker": 1, "ps": 1}, "n9": {"worker": 1, "ps": 0}}, after=1.0)
        assert isinstance(engine.submit([order])[order.key], Fault)
        parts = [job for job in queue(engine.commands)[1] if job.key == order.key]
        assert all(job.is_over or job.state in ("PENDING", "COMPLETING", "RUNNING") for job in parts)
        handle = engine.find(order.home, order.key)
        assert handle is not None
        nobody_is_left(handle)


@pytest.mark.wide
def test_at_the_end_of_its_slot_nobody_is_alive_also_of_those_who_left_their_session(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        deaf = start(engine, gang(UNEVEN, {"sin": "deaf"}, program="naughty", after=2.0, seconds=5.0))
        fork = start(engine, gang({"n3": {"worker": 1, "ps": 1}}, {"sin": "fork"}, program="naughty", after=2.0))
        assert ended(engine, fork).end == FAILED
        nobody_is_left(fork)
        until(engine, deaf, lambda status: log_of(engine, deaf).count("deaf") >= 4 or status.state == ENDED)
        assert (ended(engine, deaf).end, look(engine, deaf).detail) == (STOPPED, "its reservation ends")
        nobody_is_left(deaf)


@pytest.mark.wide
def test_next_generation_goes_on_elsewhere_from_what_was_saved(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        handle = start(engine, gang(ONE, LONG, after=2.5, seconds=600.0))
        before = runs(engine, handle, 3).progress["epoch"]
        begin = time.time() + 5.0  # it has come so far, however busy the machine is
        elsewhere = {"n2": {"worker": 1, "ps": 0}, "n3": {"worker": 1, "ps": 1}}
        engine.change(handle, begin + 600.0, [Generation(2, begin, begin + 600.0, elsewhere)])
        until(engine, handle, lambda status: record(engine, handle, "n3", 2).get("started_at"))
        assert record(engine, handle, "n1")["end"] == STOPPED
        assert record(engine, handle, "n1")["ended_at"] <= record(engine, handle, "n3", 2)["started_at"]
        runs(engine, handle, before + 5)
        epochs = [
            row["epoch"]
            for row in GangRecords(engine.root).progress(handle.home, handle.key)
            if row["event"] == "epoch"
        ]
        assert epochs == list(range(1, epochs[-1] + 1))
        engine.stop(handle)
        assert ended(engine, handle).end == STOPPED
        nobody_is_left(handle)


@pytest.mark.wide
def test_whoever_is_killed_the_gang_is_repaired_or_lost_and_nobody_is_left(slurm: Cluster) -> None:
    with engine_on(slurm) as engine:
        spread = {"n1": {"worker": 1, "ps": 1}, "n2": {"worker": 1, "ps": 0}}
        killed = {name: start(engine, gang(spread)) for name in ("worker", "ps", "outer", "inner")}
        for handle in killed.values():
            runs(engine, handle, 2)
        os.kill(pid_of(engine, killed["worker"], "n2", "worker", 1), 9)
        os.kill(pid_of(engine, killed["ps"], "n1", "ps"), 9)
        outer, _ = launchers(killed["outer"], "n2")
        _, inner = launchers(killed["inner"], "n2")
        outer.kill()
        inner.kill()
        for name in ("outer", "inner"):
            status = ended(engine, killed[name])
            assert status.end == LOST
            assert "whoever watched over it was killed" in status.detail
            nobody_is_left(killed[name])
        assert ended(engine, killed["ps"]).end == LOST
        nobody_is_left(killed["ps"])
        status = until(engine, killed["worker"], lambda status: status.restarts == 1)
        assert status.state == RUNNING
        runs(engine, killed["worker"], status.progress["epoch"] + 3)


@pytest.mark.wide
@pytest.mark.beside
def test_what_an_operator_cancels_is_lost_and_a_silent_engine_pauses(slurm: Cluster) -> None:
    with engine_on(slurm, lease=8.0, patience=30.0, shared=str(slurm.shared / "silent")) as engine:  # its own lease
        cancelled, silent = start(engine, gang(ONE)), start(engine, gang({"n2": {"worker": 1, "ps": 1}}))
        runs(engine, cancelled)
        runs(engine, silent)
        slurm.call("scancel", f"--name={engine.settings.prefix}-{cancelled.key}-1")
        status = ended(engine, cancelled)
        assert status.end == LOST
        assert "ended by" in status.detail
        assert "operator" in status.detail
        nobody_is_left(cancelled)
        deadline = time.monotonic() + PATIENCE
        while (status := engine.observe([silent])[silent.key]).state != ENDED:  # nobody touches
            assert time.monotonic() < deadline, status
            time.sleep(0.1)
        assert (status.end, status.detail) == (PAUSED, "the engine was silent for too long")
        nobody_is_left(silent)


@pytest.mark.wide
def test_gang_whose_end_is_open_is_saved_before_slurms_own_limit_and_another_job_goes_on(
    slurm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_on(slurm, longest_hours=1.0) as engine:
        before = replace(gang(ONE), open_ended=True)
        handle = start(engine, before)
        runs(engine, handle, 2)
        with monkeypatch.context() as patch:
            patch.setattr("scheduling.engines.slurm.engine.HANDS_OVER_SECONDS", 3600.0)  # now it is near
            status = ended(engine, handle)
        assert (status.end, status.detail) == (PAUSED, "the engine asked for it")
        nobody_is_left(handle)
        following = start(engine, replace(gang(ONE, home=before.home), open_ended=True))
        assert runs(engine, following).progress["epoch"] >= status.progress["epoch"]


@pytest.mark.wide
def test_part_that_does_not_come_ends_the_others(slurm: Cluster) -> None:
    with engine_on(slurm, gather_seconds=2.0) as engine:
        slurm.call("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=mended")
        try:
            assert (engine.servers()["n3"].state, engine.servers()["n3"].reason) == ("draining", "mended")
            handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}, "n3": {"worker": 1, "ps": 0}}, after=2.0))
            status = ended(engine, handle)
            assert status.end == LOST
            assert "not all parts came: n3" in status.detail
            nobody_is_left(handle)
        finally:
            slurm.call("scontrol", "update", "NodeName=n3", "State=RESUME")


@pytest.mark.beside
def test_another_engine_finds_its_gangs_and_ends_what_nobody_knows_but_not_another_products(slurm: Cluster) -> None:
    with engine_on(slurm) as engine, engine_on(slurm, prefix="other") as other:
        mine, strange = start(engine, gang(ONE)), start(engine, gang({"n2": {"worker": 1, "ps": 1}}))
        theirs = start(other, gang({"n3": {"worker": 1, "ps": 1}}))
        before = [runs(each, handle) for each, handle in ((engine, mine), (engine, strange), (other, theirs))]
        with engine_on(slurm, engine.root, [mine]) as later:
            assert later.find(mine.home, mine.key) == mine
            nobody_is_left(strange)
            assert runs(later, mine, before[0].progress["epoch"] + 3).state == RUNNING
            assert runs(other, theirs, before[2].progress["epoch"] + 3).state == RUNNING
            parts = [job for job in queue(later.commands)[1] if job.key == mine.key]
            assert len(parts) == 1
            assert len(launchers(mine, "n1")) == 2
