"""Watch for silent engines: awards that one should be running fail before their slot is paid for."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection

from scheduling.models import ALIVE, PROGRAM, Award, Lane, LaneClock, Pool, Run, RunState
from scheduling.models.runs import OPEN
from scheduling.runs.engines import patience_of
from scheduling.runs.failures import award_fail
from tenants.scoping import scope_disabled

LONGEST_SILENCE = timedelta(seconds=10)  # an engine that runs notes that it has seen a run every four seconds
STARTS_WITHIN = timedelta(seconds=60)  # a gang that is slow to start is paid for so long
PAUSE = timedelta(seconds=60)  # gangs must continue within this time after a stop of the market
SILENT = "the engine is silent"


def runs_watch(*, pool: Pool, at: datetime) -> int:
    """Fail the awards of which nothing is heard for too long, and return how many. `at` is the real time: an engine
    does not run by the market's own time."""
    with scope_disabled("the engine may be silent for any tenant"):
        settled = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).values_list("settled_slot", flat=True).first()
        first = 0 if settled is None else settled + 1
        running = Award.objects.filter(
            pool=pool, state__in=ALIVE, start__lte=pool.slot_at(at), end__gt=first, job__spec__has_key=PROGRAM
        )
        awards = [award for award in running.select_related("pool") if award.used_until > first]
        all_runs = list(Run.objects.filter(award__in=awards).order_by("number"))
        runs = {run.award_id: run for run in all_runs}  # the last run of each award
        paused = {run.award_id: run.ended_at or run.seen_at for run in all_runs if run.state == RunState.PAUSED}
        patience = timedelta(seconds=patience_of(pool.engine))  # how long an engine may not have seen a run
        listens_since = database_began() if awards else at
        late = []
        for award in awards:
            run, slot_end = runs.get(award.pk), pool.slot_start(max(award.start, first) + 1)
            since = _undelivered_since(award, run, paused.get(award.pk), slot_end, patience, listens_since, at)
            if since is not None:
                late.append((award, pool.slot_at(since), _gone_at(award, run, patience)))
        for award, slot, gone_at in late:
            award_fail(award_id=award.pk, slot=max(award.start, slot), detail=SILENT, at=at, gone_at=gone_at)
    return len(late)


def database_began() -> datetime:
    """Return when the database began. An engine that works lets its gangs go on while the database is away, and cannot
    be heard before it is there again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_postmaster_start_time()")
        (began,) = cursor.fetchone()
    return began


def _undelivered_since(
    award: Award,
    run: Run | None,
    paused_at: datetime | None,
    slot_end: datetime,
    patience: timedelta,
    listens_since: datetime,
    at: datetime,
) -> datetime | None:
    """Return the moment since which nothing of the award is known to run, if that is too long; None if all is well.

    `run` is its last run. `paused_at` is when that one, or the one before it, was paused to continue later. `slot_end`
    is the end of the first slot that is not paid yet; that slot must not be paid if nothing ran in all of it. A gang
    whose time was over before it began is closed a moment before its award: whether that was heard of already makes no
    difference. `listens_since` is when the database began; what is later than `at` is of another clock, as in a
    simulated market.
    """
    begin = award.pool.slot_start(award.start)
    if run is None:
        return begin if at >= slot_end or at - max(begin, award.awarded_at) > patience else None
    never_began = run.state == RunState.STOPPED and run.started_at is None
    if run.state not in (*OPEN, RunState.PAUSED) and not never_began:
        return None
    began = run.started_at if run.state in OPEN else None
    last_sign = max(run.seen_at, listens_since) if listens_since <= at else run.seen_at
    if run.state in OPEN and at - last_sign > patience:
        return run.seen_at if began else paused_at or begin
    if paused_at is not None:
        return paused_at if (began is None or began >= slot_end) and (began or at) - paused_at > PAUSE else None
    if at < slot_end or (began is not None and began < slot_end):
        return None
    last = award.work_left is None and at >= award.pool.slot_start(award.used_until)
    over = last or slot_end - begin >= STARTS_WITHIN
    return begin if over or (began is None and at - run.seen_at > LONGEST_SILENCE) else None


def _gone_at(award: Award, run: Run | None, patience: timedelta) -> datetime | None:
    """Return when nothing of an award can run any more, though its engine cannot be asked: its plan or its lease is
    over by then. Return None if nothing runs now."""
    if run is None or run.state not in OPEN:
        return None
    return min(award.pool.slot_start(award.used_until), run.seen_at + patience)
