"""The market's clock: what happens at a slot boundary, and catching up with boundaries that have passed.

Every step of a boundary is a transaction of its own that first checks, under the lane's lock, whether it still has to
be done. So a tick may come twice, late, or on two workers at once. What a boundary decides carries the boundary's time,
not the tick's, so that a late answer is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduling.common import boundary_marked
from scheduling.market.calendar.lanes import Busy, clocks_of, lane_lock, pool_now
from scheduling.market.decide.dependents import dependents_move
from scheduling.market.decide.interval import boundary_without_news, interval_run
from scheduling.market.prices.posted import prices_refresh
from scheduling.market.settle.deliveries import outage_next, outage_over, pulse
from scheduling.market.settle.outages import outage_pass
from scheduling.market.settle.slots import slot_settle
from scheduling.market.view.rents import rent_open
from scheduling.models import Award, JobState, Lane, LaneClock, Pool, TrainingJob, unsettled_from
from scheduling.runs.watch import runs_watch
from tenants.scoping import scope_disabled

MOST_BOUNDARIES = 600  # in one call, so that a long outage is caught up in portions


class ClockStuck(RuntimeError):
    """A boundary was done, but the clock did not move."""


@dataclass(frozen=True)
class Advanced:
    """What a call did. `boundaries` is how many it did; `behind` is how many have passed and remain. `busy` means that
    another worker is doing them."""

    boundaries: int
    behind: int = 0
    busy: bool = False


def pool_advance(*, pool_id: int, at: datetime, most: int = MOST_BOUNDARIES) -> Advanced:
    """Do every boundary that has passed by now, in order, each once."""
    pool = pool_now(pool_id)
    pulse(pool=pool, at=at)  # before anything is settled, so that slots that passed in silence are known
    last, done = pool.slot_at(at), 0
    for boundary in _boundaries(pool, last):
        if done == most:
            return Advanced(done, behind=last - boundary + 1)
        runs_watch(pool=pool, at=at)  # notices what an engine did not run, before the slot is paid for
        changed = slot_advance(pool=pool, slot=boundary, over=pool.is_elastic and boundary < last)
        if isinstance(changed, Busy):
            return Advanced(done, behind=last - boundary + 1, busy=True)
        done += 1
        if not changed and boundary < last:
            _skip_silence(pool, last)
    prices_refresh(pool=pool)
    return Advanced(done)


@boundary_marked()
def slot_advance(*, pool: Pool, slot: int, over: bool = False) -> bool | Busy:
    """Do the boundary before `slot`: pay for the slot that ends, let awards begin and end, decide.

    `over` means that the slot has passed meanwhile; an elastic pool sells no past slots. Return True if an interval
    closed or an outage is over. Settling comes first, so that a decision sees jobs and awards as they are at its time,
    and also the jobs that waited for a job that ended with its last slot.
    """
    at = pool.slot_start(slot)
    if isinstance(settled := slot_settle(pool_id=pool.pk, slot=slot - 1, at=at), Busy):
        return settled
    if outage := outage_over(pool.pk, slot):
        passed = outage_pass(pool=pool, outage=outage, slot=slot)
        return passed if isinstance(passed, Busy) else passed is not None
    if isinstance(moved := dependents_move(pool=pool, at=at), Busy):
        return moved
    closed = interval_run(pool_id=pool.pk, slot=slot, at=at, over=over)
    return closed if isinstance(closed, Busy) else closed is not None


def pools_due(*, at: datetime) -> list[int]:
    """List pools with a boundary to be done, the longest waiting first: if there is too much for the workers, all pools
    are late in turn, and not always the same ones."""
    decided = dict(LaneClock.objects.filter(lane=Lane.BATCH).values_list("pool_id", "decided_slot"))
    since = {}
    for pool in Pool.objects.only("epoch_at", "slot_seconds").order_by("pk"):
        boundary = decided.get(pool.pk, -1) + 1
        if boundary <= pool.slot_at(at):
            since[pool.pk] = pool.slot_start(boundary)
    return sorted(since, key=lambda pool_id: since[pool_id])


def _boundaries(pool: Pool, last: int) -> Iterator[int]:
    """Yield the next boundary, read anew each time: another worker may have moved the clock."""
    before = None
    while (boundary := next_boundary(pool)) <= last:
        if boundary == before:
            raise ClockStuck(f"boundary {boundary} of pool {pool.slug} does not get done")
        yield boundary
        before = boundary


def next_boundary(pool: Pool) -> int:
    """Return the first boundary that is not decided."""
    clock = clocks_of(pool).get(Lane.BATCH)
    return 0 if clock is None else clock.decided_slot + 1


@transaction.atomic
def _skip_silence(pool: Pool, last: int) -> None:
    """Skip boundaries after an outage: if no job waits and nothing runs, nothing changes up to the slot at which the
    policy does something by itself, as it does where the last window of an epoch ends.

    Only clocks that restart are moved: others publish windows whether a job waits or not.
    """
    boundary = next_boundary(pool)
    stopped = outage_next(pool.pk, boundary)  # an outage is not silence: `outage_pass` handles it
    last = last if stopped is None else min(last, stopped)
    if not pool.clock_restart or boundary >= last:
        return
    batch = lane_lock(pool_id=pool.pk, lane=Lane.BATCH, wait=False)
    if batch is None:
        return
    lane_lock(pool_id=pool.pk, lane=Lane.INSTANT)
    with scope_disabled("silence means that no tenant has anything in the market"):
        waiting_jobs = TrainingJob.objects.filter(pool=pool, state=JobState.QUEUED, arrival__lte=last - 1)
        sold = Award.objects.filter(unsettled_from(batch.settled_slot + 1), pool=pool)
        if waiting_jobs.exists() or sold.exists() or rent_open(pool, last):
            return
        due = boundary_without_news(pool, batch, batch.decided_slot + 1)
    last = last if due is None else min(last, due)
    if batch.decided_slot < last - 1:
        LaneClock.objects.filter(pk=batch.pk).update(decided_slot=last - 1, settled_slot=last - 2)
