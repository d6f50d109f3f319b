"""Awards that really run: the job's state, the refund and the book, whatever dies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.engines.local.engine import LocalEngine
from scheduling.jobs.cancellation import job_cancel
from scheduling.market.settle.slots import slot_settle
from scheduling.models import Award, AwardState, JobState, Run, RunState
from scheduling.runs.runs import handle_of, runs_reconcile, runs_tick
from scheduling.runs.watch import runs_watch
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.engines.local import ALL, ROOT, SMALL, engine_in, kill, nobody_is_left, possible, process_of, until
from tests.engines.market import drive, jobs_of, planned_end, run_of, world
from tests.scheduling.builders import make_tenant
from tests.scheduling.live import (
    again,
    book_is_sound,
    events,
    member,
    money,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalEngine]:
    monkeypatch.setattr("scheduling.market.decide.programs.PROGRAMS", ALL)
    with engine_in() as own_engine:
        yield own_engine


def test_program_that_is_done_early_finishes_its_job_and_goes_on_paying(
    engine: LocalEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pool, _tenant, award = world(epochs=3)
    run = drive(engine, award, RunState.FINISHED)
    lines = [line.msg for line in caplog.records if isinstance(line.msg, dict) and line.msg.get("run") == run.key]
    assert [(line["event"], line["id"]) for line in lines] == [
        (each, f"run job {award.job_id}") for each in ("begin", "end")
    ]
    assert run.progress["epoch"] == 3
    assert run.started_at is not None
    assert (jobs_of(award).state, again(award).cut_at) == (JobState.FINISHED, 1)
    for slot in (0, 1):
        slot_settle(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot + 1))
    assert money(make_tenant("owner"))[2] == 30
    assert again(award).state == AwardState.ENDED
    assert jobs_of(award).state == JobState.FINISHED
    assert book_is_sound()


@pytest.mark.one_case
@pytest.mark.parametrize("who", ["ps", "coordinator", "supervisor", "server"])
def test_what_the_platform_loses_is_refunded_once_and_the_job_waits_again(engine: LocalEngine, who: str) -> None:
    _pool, tenant, award = world()
    run = drive(engine, award, RunState.RUNNING, epoch=1)
    handle = handle_of(run)
    if who == "supervisor":
        kill(process_of_pid(handle.reference["pid"]))
    elif who == "server":
        import os

        os.killpg(os.getpgid(process_of(engine, handle, "worker").pid), 9)
    else:
        kill(process_of(engine, handle, who))
    run = drive(engine, award, RunState.LOST)
    runs_tick(engine=engine, at=timezone.now())
    job = jobs_of(award)
    assert (job.state, job.reason_code, job.attempt) == (JobState.QUEUED, "engine_error", 1)
    assert (again(award).state, again(award).returned) == (AwardState.VOID, 30)
    assert money(tenant) == (1_000_000_000, 0, 0)
    assert len(events("job_requeued")) == 1
    nobody_is_left(run.key)
    assert book_is_sound()


def process_of_pid(pid: int) -> Any:
    import psutil

    return psutil.Process(pid)


def test_killed_worker_costs_nobody_anything(engine: LocalEngine) -> None:
    _pool, _tenant, award = world()
    run = drive(engine, award, RunState.RUNNING, epoch=1)
    kill(process_of(engine, handle_of(run), "worker", 1))
    until(lambda: runs_tick(engine=engine, at=timezone.now()) and run_of(award).restarts == 1)
    run = drive(engine, award, RunState.RUNNING, epoch=run_of(award).progress["epoch"] + 1)
    assert jobs_of(award).state in (JobState.AWARDED, JobState.RUNNING)
    assert again(award).returned == 0


def test_program_that_fails_ends_its_job_and_what_was_reserved_is_paid(engine: LocalEngine) -> None:
    _pool, tenant, award = world(program="naughty", sin="fork", epochs=1)
    run = drive(engine, award, RunState.FAILED)
    job = jobs_of(award)
    assert (job.state, job.reason_code) == (JobState.FAILED, "program_failed")
    assert "more than 30" in job.reason_numbers["detail"]
    assert again(award).returned == 0
    assert money(tenant)[1] == 30
    nobody_is_left(run.key)


def test_job_whose_time_is_over_is_stopped_and_not_finished(engine: LocalEngine) -> None:
    pool, _tenant, award = world(seconds=3)
    slot_settle(pool_id=pool.pk, slot=-1, at=pool.slot_start(0))
    run = drive(engine, award, RunState.STOPPED)
    assert run.ended_at is not None
    assert planned_end(engine, run) == pool.slot_start(2).timestamp()
    for slot in (0, 1):
        slot_settle(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot + 1))
    job = jobs_of(award)
    assert (job.state, job.reason_code) == (JobState.STOPPED, "reservation_ended")
    assert job.reason_numbers["epochs"] in (0, 1000)
    assert money(make_tenant("owner"))[2] == 30


@pytest.mark.wide
def test_cancelled_job_stops_at_the_end_of_its_slot(engine: LocalEngine) -> None:
    pool, tenant, award = world(seconds=6)
    drive(engine, award, RunState.RUNNING)
    with scope_disabled("the test starts the award"):
        Award.objects.filter(pk=award.pk).update(state=AwardState.RUNNING)
    job_cancel(job_id=award.job_id, by=member(tenant, OWNER), at=timezone.now())
    run = drive(engine, award, RunState.STOPPED)
    assert run.ended_at is not None
    assert planned_end(engine, run) == pool.slot_start(1).timestamp()
    assert jobs_of(award).state == JobState.CANCELLED
    assert run.detail == "its job was cancelled"


def test_engine_that_dies_leaves_its_gangs_to_the_next_one(engine: LocalEngine) -> None:
    _pool, _tenant, award = world()
    run = drive(engine, award, RunState.RUNNING, epoch=1)
    with scope_disabled("it died before it wrote down whom it started"):
        Run.objects.filter(pk=run.pk).update(reference={})
    later = another(engine)
    runs_reconcile(engine=later, at=timezone.now())
    assert run_of(award).reference == run.reference
    drive(later, award, RunState.RUNNING, epoch=run.progress["epoch"] + 1)
    assert again(award).returned == 0


def test_gang_whose_process_could_not_be_written_down_is_found_by_the_same_engine(engine: LocalEngine) -> None:
    """As when the database dies between the two."""
    _pool, _tenant, award = world()
    run = drive(engine, award, RunState.RUNNING, epoch=1)
    with scope_disabled("the database died before it was told whom the engine started"):
        Run.objects.filter(pk=run.pk).update(reference={})
    assert drive(engine, award, RunState.RUNNING, epoch=run.progress["epoch"] + 1).reference == run.reference
    assert again(award).returned == 0


def test_gang_whose_engine_died_at_its_start_is_started_by_the_next_one_and_nobody_is_refunded(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pool, _tenant, award = world()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "submit", die)
        with pytest.raises(KeyboardInterrupt):
            runs_tick(engine=engine, at=timezone.now())
    key = run_of(award).key
    later = another(engine)
    runs_reconcile(engine=later, at=timezone.now())
    run = drive(later, award, RunState.RUNNING, epoch=1)
    assert (run.key, run.number) == (key, 0)
    assert again(award).returned == 0


def another(engine: LocalEngine) -> LocalEngine:
    """That comes after it."""
    return LocalEngine(engine.root, ROOT, ALL, limits=SMALL, rights=possible())


@pytest.mark.wide
def test_market_that_stops_pauses_its_gangs_and_goes_on_from_what_they_saved(engine: LocalEngine) -> None:
    _pool, _tenant, award = world()
    first = drive(engine, award, RunState.RUNNING, epoch=2)
    engine.end_all(patience=10.0)
    nobody_is_left(first.key)
    runs_reconcile(engine=(engine := another(engine)), at=timezone.now())
    runs_tick(engine=engine, at=timezone.now())
    with scope_disabled("the test looks at the first run"):
        assert Run.objects.get(award=award, number=0).state == RunState.PAUSED
    second = drive(engine, award, RunState.RUNNING, epoch=first.progress["epoch"] + 1)
    assert second.number == 1
    assert again(award).returned == 0


def test_slots_of_a_silent_engine_are_refunded_and_not_those_of_one_that_is_there(engine: LocalEngine) -> None:
    pool, tenant, award = world(seconds=60, started_ago=15)
    now: datetime = timezone.now()
    assert runs_watch(pool=pool, at=now) == 0
    assert runs_watch(pool=pool, at=now + timedelta(seconds=6)) == 1
    assert runs_watch(pool=pool, at=now + timedelta(seconds=7)) == 0
    assert jobs_of(award).reason_code == "engine_error"
    assert money(tenant) == (1_000_000_000, 0, 0)


def test_clock_looks_for_a_silent_engine_before_it_pays() -> None:
    pool, tenant, award = world(seconds=30, started_ago=31)
    pool_advance(pool_id=pool.pk, at=timezone.now())
    assert again(award).state == AwardState.VOID
    assert money(tenant) == (1_000_000_000, 0, 0)
    assert book_is_sound()
