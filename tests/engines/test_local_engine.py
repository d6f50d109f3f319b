"""The local engine: whole gangs, on time, contained, and nobody left of them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from datetime import timedelta

import psutil
import pytest

from scheduling.engines.base import FAILED, FINISHED, LOST, PAUSED, RUNNING, STOPPED, EngineFault, Phase
from scheduling.engines.local.engine import LEASE_SECONDS, LocalEngine
from scheduling.engines.local.files import Records
from scheduling.engines.local.supervisor import STOP_SECONDS
from scheduling.services.run_watch import PATIENCE
from tests.engines.local import (
    ALL,
    QUICK,
    ROOT,
    SMALL,
    ended,
    engine_in,
    gang,
    kill,
    members,
    nobody_is_left,
    people_of,
    process_of,
    story,
    text_of,
    told,
    until,
)

LONG = QUICK | {"epochs": 1000, "minibatch_ms": 20.0}


def test_gang_begins_at_its_phase_resizes_and_finishes() -> None:
    with engine_in() as engine:
        now = time.time()
        phases = (Phase(now + 1.5, members(1)), Phase(now + 4.5, members(2)))
        asked = gang("trainer", QUICK | {"epochs": 12, "minibatch_ms": 40.0}, phases=phases, seconds=60)
        handle = engine.start(asked)
        assert engine.status(handle).state == "waiting"
        status = ended(engine, handle)
        assert (status.end, status.exit_code, status.progress["epoch"]) == (FINISHED, 0, 12)
        assert status.started_at is not None
        assert now + 1.5 <= status.started_at
        assert "worker 1 joins on s1." in text_of(engine, handle)
        nobody_is_left(asked.key)


def test_gang_is_gone_when_its_time_is_over_and_the_next_one_goes_on_from_what_it_saved() -> None:
    with engine_in() as engine:
        handle = engine.start(gang("trainer", LONG, seconds=60))
        told(engine, handle, "epoch")
        engine.change(handle, end_at := time.time() + 2.5)
        first = ended(engine, handle)
        assert (first.end, first.detail) == (STOPPED, "its time is over")
        assert first.ended_at is not None
        assert first.ended_at <= end_at
        nobody_is_left(handle.key)
        again = engine.start(gang("trainer", LONG, seconds=30))
        told(engine, again, "epoch")
        events = Records(engine.root).progress("job-1", again.key)
        started = next(row for row in events if row["event"] == "started")
        assert started["resumed"]
        epochs = [row["epoch"] for row in events if row["event"] == "epoch"]
        assert epochs[0] == first.progress["epoch"] + 1
        engine.stop(again)
        assert ended(engine, again).end == STOPPED


def test_gang_that_moves_to_another_server_is_saved_and_goes_on_there() -> None:
    with engine_in() as engine:
        asked = gang("trainer", LONG, seconds=90)
        handle = engine.start(asked)
        told(engine, handle, "epoch")  # it has something to save, however long it took to start
        moves = Phase(time.time() + 1.0, members(2, server="s2"))
        engine.change(handle, asked.end_at, (*asked.phases, moves))
        until(
            lambda: "processes and a coordinator on s2." in text_of(engine, handle),
            lambda: story(engine, handle),
            engine=engine,
        )
        told(engine, handle, "stopped")
        before = engine.status(handle).progress["epoch"]
        until(
            lambda: engine.status(handle).progress["epoch"] > before + 1, lambda: story(engine, handle), engine=engine
        )
        epochs = [row["epoch"] for row in Records(engine.root).progress("job-1", handle.key) if row["event"] == "epoch"]
        assert epochs == list(range(1, epochs[-1] + 1))


def test_killed_worker_is_started_again_and_a_killed_parameter_server_is_the_platforms_fault() -> None:
    with engine_in() as engine:
        handle = engine.start(gang("trainer", LONG, workers=2))
        told(engine, handle, "epoch")
        kill(process_of(engine, handle, "worker", 1))
        until(lambda: "worker 1 was ended by SIGKILL and is started again." in text_of(engine, handle))
        told(engine, handle, "peer_lost")
        until(lambda: "worker 1 joins on s1." in text_of(engine, handle))
        assert engine.status(handle).state == RUNNING
        kill(process_of(engine, handle, "ps"))
        status = ended(engine, handle)
        assert (status.end, status.detail, status.restarts) == (LOST, "ps 0 was ended by SIGKILL", 1)
        nobody_is_left(handle.key)


def test_processes_of_a_server_are_a_group_and_its_end_is_the_platforms_fault() -> None:
    with engine_in() as engine:
        here, there = members(1, server="s1"), (replace(members(2)[2], server="s2"),)
        handle = engine.start(gang("trainer", LONG, phases=(Phase(time.time(), (*here, *there)),)))
        told(engine, handle, "epoch")
        groups = [os.getpgid(process_of(engine, handle, *who).pid) for who in (("coordinator", 0), ("ps", 0),
                  ("worker", 0), ("worker", 1))]  # fmt: skip
        assert len(set(groups[:3])) == 1
        assert groups[3] not in (groups[0], os.getpgid(handle.pid))
        os.killpg(groups[0], 9)
        status = ended(engine, handle)
        assert status.end == LOST
        nobody_is_left(handle.key)


def test_nobody_outlives_a_killed_supervisor() -> None:
    with engine_in() as engine:
        handle = engine.start(gang("trainer", LONG))
        told(engine, handle, "epoch")
        os.kill(handle.pid, 9)
        status = ended(engine, handle)
        assert (status.end, status.detail) == (LOST, "whoever watched over it was lost")
        until(lambda: people_of(handle.key) == [])


def test_another_engine_adopts_a_gang_and_ends_what_it_does_not_know() -> None:
    with engine_in() as engine:
        mine, strange = engine.start(gang("trainer", LONG)), engine.start(gang("naughty", {"sin": "deaf"}))
        told(engine, mine, "epoch")
        later = LocalEngine(engine.root, ROOT, ALL, limits=SMALL)
        later.reconcile([mine])
        until(lambda: people_of(strange.key) == [])
        assert later.status(mine).state == RUNNING
        assert later.find("job-1", mine.key) == mine
        later.stop(mine, pause=True)
        assert ended(later, mine).end == PAUSED


def test_gang_ends_by_itself_when_its_engine_is_silent() -> None:
    with engine_in(lease_seconds=1.0) as engine:
        handle = engine.start(gang("trainer", LONG))
        until(lambda: engine.status(handle).state == "ended")
        assert engine.status(handle).detail == "the engine was silent for too long"


def test_gang_starts_whole_or_not_at_all() -> None:
    with engine_in() as engine:
        handle = engine.start(gang("naughty", {"sin": "die"}, workers=2))
        status = ended(engine, handle)
        assert status.end == FAILED
        assert "ended with code 7 before the job began" in status.detail
        nobody_is_left(handle.key)
        with pytest.raises(EngineFault, match="no program 'unheard'"):
            engine.start(replace(gang("missing", {}), program="unheard"))


def test_nobody_is_left_where_the_engine_is_dead_and_all_is_to_end() -> None:
    with engine_in() as engine:
        handle, deaf = engine.start(gang("trainer", LONG)), engine.start(gang("naughty", {"sin": "deaf"}))
        told(engine, handle, "epoch")
        os.kill(deaf.pid, signal.SIGSTOP)  # whoever watches over it does not listen any more
        LocalEngine(engine.root, ROOT, ALL).end_all(patience=3.0)
        assert engine.status(handle).end == PAUSED
        for key in (handle.key, deaf.key):
            nobody_is_left(key)


def test_gangs_of_a_silent_engine_are_gone_before_their_slots_are_refunded() -> None:
    assert timedelta(seconds=LEASE_SECONDS + STOP_SECONDS) < PATIENCE


def test_supervisor_that_has_ended_is_let_go() -> None:
    with engine_in() as engine:
        handle = engine.start(gang("naughty", {"sin": "die"}))
        ended(engine, handle)

        def is_gone() -> bool:
            engine.touch()
            return not psutil.pid_exists(handle.pid)

        until(is_gone, patience=5.0)
