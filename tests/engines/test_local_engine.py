"""The local engine: whole gangs, on time, contained, and nobody left of them."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from scheduling.engines.base import FAILED, FINISHED, LOST, PAUSED, RUNNING, STOPPED, Fault, Generation, Handle, Timings
from scheduling.engines.launcher.files import Folder, GangRecords
from scheduling.engines.launcher.supervisor import STOP_SECONDS
from scheduling.engines.local.accounts import Rights
from scheduling.engines.local.engine import TIMINGS, LocalEngine
from tests.engines.local import (
    ALL,
    QUICK,
    ROOT,
    SMALL,
    await_event,
    ended,
    engine_in,
    gang,
    gone_by,
    kill,
    look,
    nobody_is_left,
    on,
    people_of,
    possible,
    process_of,
    start,
    story,
    text_of,
    until,
)
from tests.engines.own import own, script

LONG = QUICK | {"epochs": 1000, "minibatch_ms": 20.0}


def test_gang_begins_at_its_phase_resizes_and_finishes() -> None:
    with engine_in() as engine:
        now = time.time()
        parts = ((now + 1.5, on(1)), (now + 4.5, on(2)))
        order = gang("trainer", QUICK | {"epochs": 12, "minibatch_ms": 40.0}, parts=parts, seconds=60)
        handle = start(engine, order)
        assert look(engine, handle).state == "waiting"
        status = ended(engine, handle)
        assert (status.end, status.exit_code, status.progress["epoch"]) == (FINISHED, 0, 12)
        assert status.started_at is not None
        assert now + 1.5 <= status.started_at
        assert "worker 1 joins on s1." in text_of(engine, handle)
        nobody_is_left(order.key)


@pytest.mark.wide
def test_gang_is_gone_when_its_time_is_over_and_the_next_one_goes_on_from_what_it_saved() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("trainer", LONG, seconds=60))
        await_event(engine, handle, "epoch")
        engine.change(handle, end_at := time.time() + 2.5)
        first = ended(engine, handle)
        assert (first.end, first.detail) == (STOPPED, "its reservation ends")
        assert gone_by(end_at, first)
        nobody_is_left(handle.key)
        again = start(engine, gang("trainer", LONG, seconds=30))
        await_event(engine, again, "epoch")
        events = GangRecords(engine.root).progress("job-1", again.key)
        started = next(row for row in events if row["event"] == "started")
        assert started["resumed"]
        epochs = [row["epoch"] for row in events if row["event"] == "epoch"]
        assert epochs[0] == first.progress["epoch"] + 1
        engine.stop(again)
        assert ended(engine, again).end == STOPPED


@pytest.mark.wide
def test_gang_that_moves_to_another_server_is_saved_and_goes_on_there() -> None:
    with engine_in() as engine:
        order = gang("trainer", LONG, seconds=90)
        handle = start(engine, order)
        await_event(engine, handle, "epoch")  # it has something to save, however long it took to start
        moves = Generation(7, time.time() + 1.0, order.end_at, on(2, server="s2"))
        engine.change(handle, order.end_at, [moves])
        until(
            lambda: "processes and a coordinator on s2." in text_of(engine, handle),
            lambda: story(engine, handle),
            engine=engine,
        )
        await_event(engine, handle, "stopped")
        before = look(engine, handle).progress["epoch"]
        until(lambda: look(engine, handle).progress["epoch"] > before + 1, lambda: story(engine, handle), engine=engine)
        epochs = [
            row["epoch"] for row in GangRecords(engine.root).progress("job-1", handle.key) if row["event"] == "epoch"
        ]
        assert epochs == list(range(1, epochs[-1] + 1))


@pytest.mark.wide
def test_killed_worker_is_started_again_and_a_killed_parameter_server_is_the_platforms_fault() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("trainer", LONG, workers=2))
        await_event(engine, handle, "epoch")
        kill(process_of(engine, handle, "worker", 1))
        until(lambda: "worker 1 was ended by SIGKILL and is started again." in text_of(engine, handle))
        await_event(engine, handle, "peer_lost")
        until(lambda: "worker 1 joins on s1." in text_of(engine, handle))
        assert look(engine, handle).state == RUNNING
        kill(process_of(engine, handle, "ps"))
        status = ended(engine, handle)
        assert (status.end, status.detail, status.restarts) == (LOST, "ps 0 was ended by SIGKILL", 1)
        nobody_is_left(handle.key)


def test_processes_of_a_server_are_a_group_and_its_end_is_the_platforms_fault() -> None:
    with engine_in() as engine:
        spread = on(1, server="s1") | on(1, ps=0, server="s2")
        handle = start(engine, gang("trainer", LONG, parts=((time.time(), spread),)))
        await_event(engine, handle, "epoch")
        groups = [os.getpgid(process_of(engine, handle, *who).pid) for who in (("coordinator", 0), ("ps", 0),
                  ("worker", 0), ("worker", 1))]  # fmt: skip
        assert len(set(groups[:3])) == 1
        assert groups[3] not in (groups[0], os.getpgid(handle.reference["pid"]))
        os.killpg(groups[0], 9)
        status = ended(engine, handle)
        assert status.end == LOST
        nobody_is_left(handle.key)


def test_nobody_outlives_a_killed_supervisor() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("trainer", LONG))
        await_event(engine, handle, "epoch")
        os.kill(handle.reference["pid"], 9)
        status = ended(engine, handle)
        assert (status.end, status.detail) == (LOST, "whoever watched over it was lost")
        until(lambda: people_of(handle.key) == [])


def test_another_engine_adopts_a_gang_and_ends_what_it_does_not_know() -> None:
    with engine_in() as engine:
        mine = start(engine, gang("trainer", LONG))
        strange = start(engine, replace(gang("naughty", {"sin": "deaf"}), home="job-2"))
        await_event(engine, mine, "epoch")
        later = LocalEngine(engine.root, ROOT, ALL, limits=SMALL, rights=possible())
        later.reconcile([mine])
        until(lambda: people_of(strange.key) == [])
        assert look(later, mine).state == RUNNING
        assert later.find("job-1", mine.key) == mine
        later.stop(mine, pause=True)
        assert ended(later, mine).end == PAUSED


def test_gang_ends_by_itself_when_its_engine_is_silent() -> None:
    with engine_in(timings=replace(TIMINGS, lease=1.0)) as engine:
        handle = start(engine, gang("trainer", LONG))
        until(lambda: look(engine, handle).state == "ended")
        assert look(engine, handle).detail == "the engine was silent for too long"


def test_gang_starts_whole_or_not_at_all() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("naughty", {"sin": "die"}, workers=2))
        status = ended(engine, handle)
        assert status.end == FAILED
        assert "ended with code 7 before the job began" in status.detail
        nobody_is_left(handle.key)
        order = replace(gang("missing", {}), program="unheard")
        assert engine.submit([order])[order.key] == Fault("There is no program 'unheard' here.")


@pytest.mark.wide
def test_nobody_is_left_where_the_engine_is_dead_and_all_is_to_end() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("trainer", LONG))
        deaf = start(engine, replace(gang("naughty", {"sin": "deaf"}), home="job-2"))
        await_event(engine, handle, "epoch")
        os.kill(deaf.reference["pid"], signal.SIGSTOP)  # whoever watches over it does not listen any more
        LocalEngine(engine.root, ROOT, ALL).end_all(patience=3.0)
        assert look(engine, handle).end == PAUSED
        for key in (handle.key, deaf.key):
            nobody_is_left(key)


def test_gangs_of_a_silent_engine_are_gone_before_their_slots_are_refunded() -> None:
    assert TIMINGS.lease + TIMINGS.stop < TIMINGS.patience
    assert TIMINGS.stop >= STOP_SECONDS
    with pytest.raises(ValueError, match="patience > lease"):
        Timings(lead=1.0, least_slot=1.0, patience=20.0, lease=18.0, stop=2.0)


def test_a_mini_batch_for_which_there_is_no_memory_ends_the_job_at_once_and_is_told() -> None:
    large = {"model": "convolutional", "image_side": 64, "filters": 64, "batch_size": 1024, "chunks": 1, "epochs": 1}
    with engine_in(limits=replace(SMALL, memory_mb=2_000)) as engine:
        handle = start(engine, gang("trainer", QUICK | large | {"minibatches": 1}, seconds=60))
        status = ended(engine, handle)
        assert status.end == FAILED
        assert status.detail.startswith(
            "Worker 0 has not enough memory for a mini-batch or its data: Unable to allocate"
        )
        assert (status.ended_at or 0.0) - (status.started_at or 0.0) < 25.0  # it waited half a minute for another
        assert text_of(engine, handle).endswith("data type float64.")


def named(word: str) -> list[psutil.Process]:
    """The processes whose command line has this word."""
    return [each for each in psutil.process_iter(["cmdline"]) if word in (each.info["cmdline"] or ())]


def test_engine_that_ends_a_gang_it_does_not_know_leaves_nobody_of_it() -> None:
    with engine_in() as engine:
        handle = start(engine, own(script("env -i sleep 97.531 &\nsleep 97.531\necho over"), seconds=60.0))
        until(lambda: len(named("97.531")) == 2)
        LocalEngine(engine.root, ROOT, ALL, limits=SMALL, rights=possible()).reconcile([])
        until(lambda: people_of(handle.key) == [])
        assert named("97.531") == []


def test_gang_whose_record_cannot_be_written_for_a_while_goes_on() -> None:
    with engine_in() as engine:
        handle = start(engine, own(script("sleep 2.0531"), seconds=60.0))
        until(lambda: look(engine, handle).state == RUNNING and named("2.0531"))
        record = Folder(engine.root, handle.home, handle.key).state
        record.unlink()
        record.mkdir()  # as if the disk were full
        until(lambda: not named("2.0531"))
        record.rmdir()
        assert ended(engine, handle).end == FINISHED


@pytest.mark.parametrize("text", ["", "[]", '{"state": "runn'])
def test_files_that_a_loss_of_power_left_without_their_contents_hold_up_nobody(tmp_path: Path, text: str) -> None:
    engine = LocalEngine(tmp_path, ROOT, ALL, rights=Rights("python3", {}, own=False, bare=False, readable=()))
    handles = [Handle(secrets.token_hex(16), f"job-{number}", {"pid": 0, "began": 0}) for number in (1, 2)]
    for handle in handles:
        Folder(tmp_path, handle.home, handle.key).make()
    broken, well = (Folder(tmp_path, handle.home, handle.key) for handle in handles)
    for path in (broken.plan, broken.state):
        path.write_text(text)
    well.state.write_text('{"state": "ended", "end": "finished"}')
    engine.reconcile(handles)
    engine.change(handles[0], time.time())
    engine.stop(handles[0])
    assert [status.end for status in engine.observe(handles).values()] == [LOST, FINISHED]


def test_supervisor_that_has_ended_is_let_go() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("naughty", {"sin": "die"}))
        ended(engine, handle)

        def is_gone() -> bool:
            engine.touch()
            return not psutil.pid_exists(handle.reference["pid"])

        until(is_gone)


def test_full_disk_below_the_engine_is_an_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page Health shows it; before, each gang was refused with that sentence, and nobody told the operator."""
    engine = LocalEngine(tmp_path / "runs", ROOT, ALL)
    assert engine.report().alerts == ()  # nothing is there yet
    engine.root.mkdir()
    assert engine.report().alerts == ()
    full = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr("scheduling.engines.plans.shutil.disk_usage", lambda _: full)
    assert engine.report().alerts == (
        f"The disk of {engine.root} is full: gangs cannot begin there, nor save. Make room.",
    )
