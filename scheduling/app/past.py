"""The past of the demonstration: a month of the pool of long runs, made by the market's own services.

Nothing is written here that the live market would not write. Only the time differs: each service gets the moment at
which it would have been called, boundary after boundary, up to now, and the market continues from there. Jobs there
reserve units and run no program, so no engine would have had anything to report.

A day is one transaction. If the process dies in the middle of one, whole days remain, and the next call continues after
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction

from scheduling.app.clock import next_boundary, slot_advance
from scheduling.demo import content, habits
from scheduling.demo.demo import demo_is_open
from scheduling.demo.outside import demo_members, long_submit, pay_in
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.market.calendar.lanes import Busy
from scheduling.market.settle.use import use_count
from scheduling.models import Award, Interval, Pool, Pulse, Server, ServerState, TrainingJob
from scheduling.money.credits import earned_collect
from scheduling.notices.collecting import notices_skip
from scheduling.operator.server_states import server_return
from scheduling.runs.failures import awards_on, server_lose
from tenants.access import Access, Refused, access_of_system
from tenants.ledger.sheets import days_close
from tenants.scoping import scope_disabled


class PastBroken(RuntimeError):
    """The market refused what its own past needs, or another process moves the pool meanwhile."""


@dataclass(frozen=True)
class PastMade:
    slots: int
    jobs: int
    intervals: int
    awards: int


def slot_of(at: datetime) -> datetime:
    """Return when the slot that contains the moment begins, in a pool whose first slot also begins at such a moment."""
    at = at.astimezone(UTC)
    return at.replace(hour=at.hour - at.hour % content.SLOT_HOURS, minute=0, second=0, microsecond=0)


def past_due() -> Pool | None:
    """Return the pool whose past still has to be made or finished. Once the market has begun to tick, or the other
    pools exist, its time is that of the clock, and there is none."""
    pool = Pool.objects.filter(slug=content.LONG_POOL["slug"]).first()
    return None if pool is None or demo_is_open() or Pulse.objects.filter(pool=pool).exists() else pool


def past_make(*, at: datetime) -> PastMade | None:
    """Make everything up to `at`. Return None if there is nothing to make."""
    if (pool := past_due()) is None:
        return None
    last, members, by = pool.slot_at(at), demo_members(), access_of_system("the demo")
    while (first := next_boundary(pool)) <= last:
        end = min(first - first % habits.SLOTS_IN_A_DAY + habits.SLOTS_IN_A_DAY, last + 1)
        with transaction.atomic():
            for slot in range(first, end):
                _slot_live(pool, slot, members, by, until=at)
            over = min(pool.slot_start(end), at)
            use_count(pool=pool, at=over)
            earned_collect(at=over)
            pay_in(members, f"past:{end}", over)
    while fairness_catch_up():
        pass
    notices_skip()  # thirty days of notices would appear at everybody's first log-in
    with scope_disabled("a past is that of all tenants"):
        while days_close(at=at):
            pass
        intervals, awards = Interval.objects.filter(pool=pool).count(), Award.objects.filter(pool=pool).count()
        return PastMade(last, TrainingJob.objects.filter(pool=pool).count(), intervals, awards)


def _slot_live(pool: Pool, slot: int, members: Sequence[Access], by: Access, *, until: datetime) -> None:
    """Do the boundary before the slot, and what happens in it: the server that fails, and jobs."""
    starts_at = pool.slot_start(slot)
    if isinstance(slot_advance(pool=pool, slot=slot), Busy):
        raise PastBroken(f"somebody else moves {pool.name}")
    _server_fails(pool, slot, starts_at, by)
    long_submit(pool, members, slot, until=until)


def _server_fails(pool: Pool, slot: int, starts_at: datetime, by: Access) -> None:
    """Let one server fail once, while something runs on it, and come back. Use is counted before each change, as it was
    until then."""
    server, moment = Server.objects.get(pool=pool, name=habits.LOST_SERVER), starts_at + timedelta(minutes=20)
    if server.lost_from is None and slot >= habits.LOST_AFTER:
        with scope_disabled("a server works for several tenants"):
            is_busy = any(award.start <= slot for award in awards_on(server, slot))
        if is_busy:
            use_count(pool=pool, at=starts_at)
            _done(server_lose(server=server, by=by, reason="its power supply failed", at=moment))
    elif server.state == ServerState.LOST and slot >= (server.lost_from or 0) + habits.LOST_SLOTS:
        use_count(pool=pool, at=starts_at)
        _done(server_return(server=server, by=by, reason="it has a new power supply", at=moment))


def _done(outcome: object) -> None:
    if isinstance(outcome, Refused):
        raise PastBroken(outcome.sentence)
