"""The lock of each lane. Order, always: batch clock, instant clock, jobs and awards by id, ledger, history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError

from scheduling.models import Lane, LaneClock, Pool
from tenants.repeated import RepeatedRead


@dataclass(frozen=True)
class Busy:
    """Somebody else is doing this very step at the moment; nothing was done here."""


def lane_lock(*, pool_id: int, lane: Lane, wait: bool = True) -> LaneClock | None:
    """The lane's clock, locked until the transaction ends. Without `wait`: None while somebody else holds it."""
    clock = _locked(pool_id, lane, wait)
    # Whoever waits and finds none was the first to ask for it, or one of the first: another may have made it just now.
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


_waited = RepeatedRead(partial(_lockable, wait=True), scoped=False, pool_id=-1, lane="a lane")
_unlocked = RepeatedRead(partial(_lockable, wait=False), scoped=False, pool_id=-1, lane="a lane")


def clocks_of(pool: Pool) -> dict[str, LaneClock]:
    """The pool's clocks by lane, as they are now; not locked. A lane that was never asked has none."""
    return {clock.lane: clock for clock in _clocks(pool_id=pool.pk)}


_clocks = RepeatedRead(lambda pool_id: LaneClock.objects.filter(pool=pool_id).order_by(), scoped=False, pool_id=-1)


def frontier_of(clocks: Mapping[str, LaneClock]) -> int:
    """The first slot that the batch lane has not sold yet."""
    clock = clocks.get(Lane.BATCH)
    return clock.frontier if clock else 0


def closes(pool: Pool, at: datetime, frontier: int | None = None) -> dict[str, Any]:
    """The earliest boundary at which the batch lane can decide about a job that comes now. `frontier`: the lane's,
    where it is known."""
    slot = max(pool.slot_at(at) + 1, frontier_of(clocks_of(pool)) if frontier is None else frontier)
    return {"slot": slot, "closes_at": pool.slot_start(slot).isoformat()}
