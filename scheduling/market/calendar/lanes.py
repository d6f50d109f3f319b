"""The lock of each lane. Locks are always taken in this order: batch clock, instant clock, jobs and awards by id,
ledger, history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError

from scheduling.models import Lane, LaneClock, Pool
from tenants.common.repeated import RepeatedRead, Whose


@dataclass(frozen=True)
class Busy:
    """Another process is doing this same step at the moment; nothing was done here."""


def lane_lock(*, pool_id: int, lane: Lane, wait: bool = True) -> LaneClock | None:
    """Return the lane's clock, locked until the transaction ends. Without `wait`, return None while another transaction
    holds it."""
    clock = _locked(pool_id, lane, wait)
    # A call that waits and finds no clock is among the first for this lane; another one may have created it just now.
    if clock is None and (wait or not LaneClock.objects.filter(pool_id=pool_id, lane=lane).exists()):
        LaneClock.objects.bulk_create([LaneClock(pool_id=pool_id, lane=lane)], ignore_conflicts=True)
        clock = _locked(pool_id, lane, wait)
    return clock


def _locked(pool_id: int, lane: Lane, wait: bool) -> LaneClock | None:
    if not connection.in_atomic_block:
        raise TransactionManagementError("a lane's lock ends with its transaction: there must be one")
    return next(iter((_waited if wait else _unlocked)(pool_id=pool_id, lane=lane.value)), None)


def _lockable(pool_id: int, lane: str, *, wait: bool) -> QuerySet[LaneClock]:
    return LaneClock.objects.filter(pool=pool_id, lane=lane).select_for_update(no_key=True, skip_locked=not wait)


_waited = RepeatedRead(partial(_lockable, wait=True), of=Whose.NONE, pool_id=-1, lane="a lane")
_unlocked = RepeatedRead(partial(_lockable, wait=False), of=Whose.NONE, pool_id=-1, lane="a lane")


def pool_now(pool_id: int) -> Pool:
    """Return the pool as it is now."""
    rows = _pools(pool_id=pool_id)
    if not rows:
        raise Pool.DoesNotExist(f"pool {pool_id}")
    return rows[0]


_pools = RepeatedRead(lambda pool_id: Pool.objects.filter(pk=pool_id).order_by(), of=Whose.NONE, pool_id=-1)


def clocks_of(pool: Pool) -> dict[str, LaneClock]:
    """Return the pool's clocks by lane, as they are now, without a lock. A lane that was never used has none."""
    return {clock.lane: clock for clock in _clocks(pool_id=pool.pk)}


_clocks = RepeatedRead(lambda pool_id: LaneClock.objects.filter(pool=pool_id).order_by(), of=Whose.NONE, pool_id=-1)


def closes(pool: Pool, at: datetime, frontier: int | None = None) -> dict[str, Any]:
    """Return the earliest boundary at which the batch lane can decide about a job that arrives now. `frontier` is the
    lane's, if the caller knows it."""
    if frontier is None:
        clock = clocks_of(pool).get(Lane.BATCH)
        frontier = clock.frontier if clock else 0
    slot = max(pool.slot_at(at) + 1, frontier)
    return {"slot": slot, "closes_at": pool.slot_start(slot).isoformat()}
