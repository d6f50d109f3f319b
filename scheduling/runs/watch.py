"""Watch for silent engines: awards that one should be running fail before their slot is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from scheduling.market.calendar import clocks_of
from scheduling.models import ALIVE, PROGRAM, Award, Lane, Pool, Run, RunState
from scheduling.models.runs import OPEN
from scheduling.runs.engines import patience_of
from scheduling.runs.failures import award_fail
from tenants.common.repeated import RepeatedRead, Whose
from tenants.scoping import scope_disabled

LONGEST_SILENCE = timedelta(seconds=10)  # an engine that runs notes that it has seen a run every four seconds
STARTS_WITHIN = timedelta(seconds=60)  # a gang that is slow to start is paid for so long
PAUSE = timedelta(seconds=60)  # gangs must continue within this time after a stop of the market
SILENT = "the engine is silent"


@dataclass(frozen=True)
class AwardWatch:
    """An award that should be running, with what its engine has written of it."""

    award: Award
    run: Run | None  # its last one
    paused_at: datetime | None  # when that run, or the one before it, was paused to continue later
    slot_end: datetime  # of the first slot that is not paid yet: it must not be paid if nothing ran in all of it


def runs_watch(*, pool: Pool, at: datetime) -> int:
    """Fail the awards of which nothing is heard for too long, and return how many. `at` is the real time: an engine
    does not run by the market's own time."""
    with scope_disabled("the engine may be silent for any tenant"):
        # 1. Read the awards that should be running, and their runs.
        clock = clocks_of(pool).get(Lane.BATCH)
        first = 0 if clock is None else clock.settled_slot + 1
        running = _should_run(pool_id=pool.pk, now=pool.slot_at(at), first=first)
        awards = [award for award in running if award.used_until > first]
        all_runs = list(Run.objects.filter(award__in=awards).order_by("number")) if awards else []
        runs = {run.award_id: run for run in all_runs}  # the last run of each award
        paused = {run.award_id: run.ended_at or run.seen_at for run in all_runs if run.state == RunState.PAUSED}
        # 2. Decide of which nothing is known to run for too long.
        patience = timedelta(seconds=patience_of(pool.engine))  # how long an engine may not have seen a run
        listens_since = database_began() if awards else at
        late = []
        for award in awards:
            slot_end = pool.slot_start(max(award.start, first) + 1)
            watch = AwardWatch(award, runs.get(award.pk), paused.get(award.pk), slot_end)
            since = _undelivered_since(watch, patience, listens_since, at)
            if since is not None:
                late.append((award, pool.slot_at(since), _gone_at(watch, patience)))
        # 3. Fail these.
        for award, slot, gone_at in late:
            award_fail(award_id=award.pk, slot=max(award.start, slot), detail=SILENT, at=at, gone_at=gone_at)
    return len(late)


_should_run = RepeatedRead(
    lambda pool_id, now, first: Award.objects.filter(
        pool=pool_id, state__in=ALIVE, start__lte=now, end__gt=first, job__spec__has_key=PROGRAM
    ).select_related("pool"),
    of=Whose.ALL,
    pool_id=-1,
    now=-2,
    first=-3,
)


def database_began() -> datetime:
    """Return when the database began. An engine that works lets its gangs go on while the database is away, and cannot
    be heard before it is there again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_postmaster_start_time()")
        (began,) = cursor.fetchone()
    return began


def _undelivered_since(
    watch: AwardWatch, patience: timedelta, listens_since: datetime, at: datetime
) -> datetime | None:
    """Return the moment since which nothing of the award is known to run, if that is too long; None if all is well.

    `listens_since` is when the database began; what is later than `at` is of another clock, as in a simulated market.
    """
    award, run, paused_at, slot_end = watch.award, watch.run, watch.paused_at, watch.slot_end
    begin = award.pool.slot_start(award.start)
    # 1. No engine has taken it.
    if run is None:
        return begin if at >= slot_end or at - max(begin, award.awarded_at) > patience else None
    # 2. Its last run has ended: whoever wrote that down has answered for the award. A gang whose time was over before
    #    it began is closed a moment before its award: whether that was heard of already makes no difference.
    is_open = run.state in OPEN
    never_began = run.state == RunState.STOPPED and run.started_at is None
    if not is_open and run.state != RunState.PAUSED and not never_began:
        return None
    # 3. Its engine is silent, since the database could hear it.
    began = run.started_at if is_open else None
    last_sign = max(run.seen_at, listens_since) if listens_since <= at else run.seen_at
    if is_open and at - last_sign > patience:
        return run.seen_at if began else paused_at or begin
    in_time = began is not None and began < slot_end
    # 4. It was paused, and has not continued in time.
    if paused_at is not None:
        return paused_at if not in_time and (began or at) - paused_at > PAUSE else None
    # 5. It has not begun in the slot that is to be paid, and will not: its time is over, or it takes too long.
    if at < slot_end or in_time:
        return None
    is_over = award.work_left is None and at >= award.pool.slot_start(award.used_until)
    is_slow = slot_end - begin >= STARTS_WITHIN
    is_unseen = began is None and at - run.seen_at > LONGEST_SILENCE
    return begin if is_over or is_slow or is_unseen else None


def _gone_at(watch: AwardWatch, patience: timedelta) -> datetime | None:
    """Return when nothing of an award can run any more, though its engine cannot be asked: its plan or its lease is
    over by then. Return None if nothing runs now."""
    award, run = watch.award, watch.run
    if run is None or run.state not in OPEN:
        return None
    return min(award.pool.slot_start(award.used_until), run.seen_at + patience)
