"""A job whose gang the platform loses again and again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from scheduling.audit.verification import intervals_verify
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.engines.base import ENDED, FINISHED, LOST, STOPPED, Fault, Gang, Status
from scheduling.engines.local.engine import TIMINGS
from scheduling.market.settle.stuck import stuck_awards
from scheduling.models import Award, AwardState, JobState, Pool, Run, RunState, TrainingJob
from scheduling.reasons import reason_sentence
from scheduling.runs import watch
from scheduling.runs.ends import losses_in_a_row, run_end
from scheduling.runs.runs import awards_due, runs_tick
from scheduling.runs.watch import runs_watch
from tenants.scoping import scope_disabled
from tests.database import as_superuser
from tests.engines.local import engine_in
from tests.engines.market import PARAMETERS, UNITS, jobs_of, world
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.clocks import moment as slot_moment
from tests.scheduling.live import again, book_is_sound, money
from tests.scheduling.markets import give, make_market, make_renting, make_waiting

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("runs", "losses"),
    [
        ([], 0),
        ([("lost", 0)], 1),
        ([("lost", 0), ("lost", 0), ("lost", 0)], 3),
        ([("lost", 0), ("lost", 0), ("lost", 4)], 1),  # it came farther: something works
        ([("lost", 4), ("lost", 4), ("lost", 2)], 3),  # the same epochs again and again
        ([("lost", 0), ("paused", 3), ("lost", 3)], 1),
        ([("lost", 0), ("paused", 0), ("lost", 0)], 2),
    ],
)
def test_losses_count_while_no_run_comes_farther_than_those_before(runs: list[tuple[str, int]], losses: int) -> None:
    _pool, tenant, award = world()
    with scope_disabled("the test says what ran"):
        for number, (state, epoch) in enumerate(runs):
            Run.objects.create(
                tenant=tenant, job=award.job, award=award, number=number, engine="local", key=f"key-{number}",
                program="trainer", state=state, progress={"epoch": epoch} if epoch else {},
                ends_at=timezone.now(), due_at=timezone.now(), seen_at=timezone.now(),
            )  # fmt: skip
        assert losses_in_a_row(award.job_id) == losses


@pytest.mark.parametrize(
    ("runs", "losses"),
    [
        ([("lost", 10), ("paused", 9), ("lost", 10)], 2),  # stopped with the market, before it could be lost again
        ([("lost", 10), ("paused", 11), ("lost", 10)], 1),  # it got past what had lost it
        ([("lost", 10), ("lost", 20), ("stopped", 15), ("lost", 10)], 3),
        ([("lost", 10), ("paused", 11), ("lost", 10), ("paused", 11), ("lost", 10)], 1),
        ([("lost", None), ("paused", None), ("lost", 5)], 2),  # neither began
    ],
)
def test_of_a_program_that_reports_nothing_losses_count_until_a_run_outlasts_them(
    runs: list[tuple[str, int | None]], losses: int
) -> None:
    _pool, tenant, award = world()
    now = timezone.now()
    with scope_disabled("the test says what ran, for so many minutes"):
        for number, (state, minutes) in enumerate(runs):
            began = {} if minutes is None else {"started_at": now - timedelta(minutes=minutes)}
            Run.objects.create(
                tenant=tenant, job=award.job, award=award, number=number, engine="local", key=f"key-{number}",
                program="own", state=state, ends_at=now, due_at=now, seen_at=now, ended_at=now, **began,
            )  # fmt: skip
        assert losses_in_a_row(award.job_id) == losses


def test_a_job_has_no_second_gang_while_the_first_one_is_on_its_way_out() -> None:
    """Its server was lost just before a boundary, at which it was booked again: both gangs would write its files."""
    _pool, tenant, award = world()
    engine = SimpleNamespace(name="local", timings=TIMINGS)
    with scope_disabled("the test says what was sold and what runs"):
        assert [each.pk for each in awards_due(engine, timezone.now())] == [award.pk]
        run = Run.objects.create(
            tenant=tenant, job=award.job, award=award, number=0, engine="local", key="first", program="trainer",
            state=RunState.RUNNING, ends_at=timezone.now(), due_at=timezone.now(), seen_at=timezone.now(),
        )  # fmt: skip
        Award.objects.filter(pk=award.pk).update(state=AwardState.VOID, cut_at=award.start)
        again_sold = again(award)
        again_sold.pk, again_sold.attempt, again_sold.state, again_sold.cut_at = None, 1, AwardState.RUNNING, None
        again_sold.save(force_insert=True)
        assert list(awards_due(engine, timezone.now())) == []
        Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)
        assert [each.pk for each in awards_due(engine, timezone.now())] == [again_sold.pk]


def test_gang_that_is_lost_for_the_fifth_time_ends_its_job_with_the_refund(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _pool, tenant, award = world()
    monkeypatch.setattr("scheduling.runs.ends.losses_in_a_row", lambda job_id: 5)

    def broken(gangs: Sequence[Gang]) -> dict[str, Fault]:
        return {gang.key: Fault("The gang could not be started: no space left on device.") for gang in gangs}

    with engine_in() as engine:
        monkeypatch.setattr(engine, "submit", broken)
        runs_tick(engine=engine, at=timezone.now())
    job = jobs_of(award)
    assert (job.state, job.reason_code, job.reason_numbers["losses"]) == (JobState.FAILED, "given_up", 5)
    assert money(tenant) == (1_000_000_000, 0, 0)
    assert again(award).state == AwardState.VOID
    assert book_is_sound()


# Slots of 30 seconds below an engine with 60 seconds of patience; the first of two slots ended a second ago.
@pytest.mark.parametrize(
    ("run", "refunded", "rests_until"),
    [
        (None, 1, 0),  # the engine never heard of the award: nothing is there that could still run
        ({"seen_at": 2.0}, 1, 2),  # submitted, and then nobody looked: it may run until its award's end
        ({"seen_at": 29.0}, 0, 0),  # the engine is there, and still starts it
        ({"seen_at": 2.0, "state": "running", "started_at": 1.0}, 0, 0),  # it began, and goes on for the lease
    ],
)
def test_slot_that_ends_before_the_engine_said_that_anything_ran_is_not_paid(
    run: dict[str, Any] | None, refunded: int, rests_until: int
) -> None:
    pool, _tenant, award = world(seconds=30, started_ago=31)
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(engine="cluster")
    pool.refresh_from_db()
    if run is not None:
        _opened(award, **run)
    assert runs_watch(pool=pool, at=pool.slot_start(1) + timedelta(seconds=1)) == refunded
    job = jobs_of(award)
    assert (again(award).returned, job.not_before) == (30 * refunded, rests_until)
    assert job.reason_numbers.get("next_slot", 0) == rests_until
    sentence = reason_sentence(pool, job.reason_code, job.reason_numbers)
    assert ("nobody can say whether it still runs" in sentence) == bool(rests_until)
    assert book_is_sound()


def test_engine_is_not_silent_while_the_database_cannot_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gangs go on meanwhile. When the database is back, the market may be there before the engine."""
    pool, _tenant, award = world(seconds=60, started_ago=70)
    pool.clocks.filter(lane="batch").update(settled_slot=0, decided_slot=0)
    _opened(award, seen_at=30.0, started_at=1.0, state="running")
    at = pool.epoch_at + timedelta(seconds=70)
    monkeypatch.setattr(watch, "database_began", lambda: at - timedelta(seconds=2))
    assert runs_watch(pool=pool, at=at) == 0
    assert runs_watch(pool=pool, at=at + timedelta(seconds=17)) == 0
    assert runs_watch(pool=pool, at=at + timedelta(seconds=19)) == 1  # it is not back, nor are its gangs


def test_database_says_when_it_began() -> None:
    assert timedelta(0) < timezone.now() - watch.database_began() < timedelta(days=1)


@pytest.mark.parametrize("is_heard", [False, True])
def test_award_whose_gang_never_began_is_not_paid_for_its_last_slot_also_where_the_engine_is_there(
    is_heard: bool,
) -> None:
    """Also where it is heard of before that boundary that the gang gave up waiting, as its time was over."""
    pool, _tenant, award = world(seconds=30, started_ago=61)
    _opened(award, seen_at=60.0)
    if is_heard:
        over = pool.slot_start(2) - timedelta(seconds=0.5)
        status = Status(ENDED, None, over.timestamp(), STOPPED, "its reservation ends")
        with scope_disabled("an engine tells of any tenant's gang"):
            assert run_end(run=Run.objects.get(award=award), status=status, at=over)
    pool.clocks.filter(lane="batch").update(settled_slot=0, decided_slot=0)
    assert runs_watch(pool=pool, at=pool.slot_start(2) + timedelta(seconds=1)) == 1
    assert again(award).returned == 20


@pytest.mark.parametrize(("paused_at", "refunded"), [(24.0, 20), (62.0, 0)])
def test_pause_lasts_until_something_runs_again_and_not_until_it_is_on_its_way(paused_at: float, refunded: int) -> None:
    """Slots of a minute, the first of them paid. Its engine died, came back at the end of the second, and begins it."""
    pool, _tenant, award = world(seconds=60, started_ago=121)
    pool.clocks.filter(lane="batch").update(settled_slot=0, decided_slot=0)
    ended = pool.epoch_at + timedelta(seconds=paused_at)
    _opened(award, seen_at=110.0, started_at=1.0, state="paused", ended_at=ended, key="first")
    _opened(award, seen_at=119.0, number=1)
    assert runs_watch(pool=pool, at=pool.slot_start(2) + timedelta(seconds=1)) == bool(refunded)
    assert again(award).returned == refunded


@pytest.mark.parametrize(("started_at", "returned"), [(None, 30), (31.0, 30), (1.0, 20)])
def test_loss_while_the_clock_is_late_returns_also_the_slot_before_which_nothing_ran_in(
    started_at: float | None, returned: int
) -> None:
    """Slots of 30 seconds; its engine came back in the second one, and lost the gang before the first one was paid."""
    _pool, _tenant, award = world(seconds=30, started_ago=38)
    _opened(award, seen_at=35.0)
    moment = award.pool.epoch_at.timestamp()
    status = Status(ENDED, None if started_at is None else moment + started_at, moment + 37.0, LOST, "it is gone")
    with scope_disabled("an engine tells of any tenant's gang"):
        run_end(run=Run.objects.get(award=award), status=status, at=award.pool.epoch_at + timedelta(seconds=38))
    assert again(award).returned == returned
    assert book_is_sound()


def test_what_a_late_clock_sells_and_passes_at_once_is_not_paid() -> None:
    """The clock comes to two boundaries in one call: what it sells at the first is over at the second."""
    pool, (owner,) = make_market("owner", worker=2, ps=1, slot_seconds=30, epoch_at=NOON)
    give(renter := make_tenant("renter"), 1_000)
    program = {"name": "trainer", "parameters": PARAMETERS}
    make_waiting(pool, renter, 0.1, program=program, **UNITS | {"epochs": 1000, "minibatch_seconds": 30 / 5_500})
    for slot in (0.9, 1, 3):
        advance(pool, slot)
    with scope_disabled("the test looks at what was sold"):
        (first, *_) = Award.objects.order_by("pk")
    assert (first.start, first.end, first.state) == (2, 3, AwardState.VOID)
    assert first.returned == first.paid > 0
    assert money(owner)[2] == 0


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("lost_at", "losses", "state"), [(-0.4, 1, "queued"), (-0.4, 5, "failed"), (0.3, 1, "stopped")]
)
def test_loss_that_is_heard_of_after_the_end_lets_its_job_wait_again(
    monkeypatch: pytest.MonkeyPatch, lost_at: float, losses: int, state: str
) -> None:
    """Its server was silent for less than the engine's patience when its last slot was settled, and what is settled
    stays so. A gang that was lost only after its end has had all of its time."""
    pool, owner, renter = make_renting()
    job = make_waiting(pool, renter, 0.1, epochs=2, program={"name": "x"})
    slots = iter(range(1, 20))
    while again(job).state != JobState.RUNNING:
        advance(pool, next(slots))
    (award,) = awards_of(job)
    _running(award, "first")
    advance(pool, award.end + 0.1)
    assert (again(job).state, again(job).reason_code) == (JobState.STOPPED, "reservation_ended")
    paid = money(owner)[2]
    monkeypatch.setattr("scheduling.runs.ends.losses_in_a_row", lambda job_id: losses)
    _ends(award, LOST, award.end + lost_at, news_slot=award.end + 0.6)
    row = again(job)
    assert (row.state, row.attempt, row.arrival) == (state, int(state != "stopped"), job.arrival)
    assert (again(award).state, again(award).returned, money(owner)[2]) == (AwardState.DONE, 0, paid)
    assert is_proved(pool)
    slots = iter(range(award.end + 1, award.end + 20))
    while state == "queued" and again(job).state != JobState.RUNNING:
        advance(pool, next(slots))
    if state != "queued":
        advance(pool, award.end + 9.5)
        assert (again(job).state, len(awards_of(job))) == (state, 1)
        return
    assert row.reason_code == "engine_error"
    assert (row.ended_at, row.not_before) == (None, award.end)
    assert (
        reason_sentence(pool, row.reason_code, row.reason_numbers) == "The platform could not run it. It waits again."
    )
    second = awards_of(job)[1]
    assert second.attempt == 1
    _running(second, "second")
    _ends(second, FINISHED, second.end - 0.5, news_slot=second.end - 0.4)
    advance(pool, second.end + 0.1)
    assert again(job).state == JobState.FINISHED
    assert is_proved(pool)


def awards_of(job: TrainingJob) -> list[Award]:
    with scope_disabled("the test looks at what a job got"):
        return list(Award.objects.filter(job=job).select_related("pool").order_by("pk"))


def is_proved(pool: Pool) -> bool:
    with scope_disabled("the test verifies everything"):
        assert jobs_verify(pool, list(TrainingJob.objects.filter(pool=pool))) == []
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert not stuck_awards()
    return book_is_sound()


def _running(award: Award, key: str) -> None:
    seconds = award.pool.slot_seconds
    start, end = float(award.start * seconds), float(award.end * seconds)
    _opened(award, seen_at=end, started_at=start, state="running", key=key)


def _ends(award: Award, end: str, slot: float, news_slot: float) -> None:
    began, ended = (slot_moment(award.pool, each).timestamp() for each in (award.start, slot))
    status = Status(ENDED, began, ended, end, "it is gone")
    with scope_disabled("an engine tells of any tenant's gang"):
        assert run_end(run=Run.objects.get(award=award), status=status, at=slot_moment(award.pool, news_slot))


def _opened(award: Any, *, seen_at: float, started_at: float | None = None, **fields: Any) -> None:
    """Its run; the moments in seconds since the pool's first slot."""
    epoch = award.pool.epoch_at
    with scope_disabled("the test says what the engine saw"):
        Run.objects.create(
            tenant_id=award.tenant_id, job=award.job, award=award, engine=award.pool.engine, program="trainer",
            ends_at=epoch, due_at=epoch, seen_at=epoch + timedelta(seconds=seen_at),
            started_at=None if started_at is None else epoch + timedelta(seconds=started_at),
            **({"key": "key"} | fields),
        )  # fmt: skip
