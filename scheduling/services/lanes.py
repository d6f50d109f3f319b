"""The lock of each lane. Order, always: batch clock, instant clock, jobs and awards by id, ledger, history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.models import Lane, LaneClock, Pool
from tenants.repeated import RepeatedRead


@dataclass(frozen=True)
class Busy:
    """Somebody else is doing this very step at the moment; nothing was done here."""


def lane_lock(*, pool_id: int, lane: Lane, wait: bool = True) -> LaneClock | None:
    """The lane's clock, locked until the transaction ends. Without `wait`: None while somebody else holds it."""
    clocks = LaneClock.objects.filter(pool_id=pool_id, lane=lane)
    found = clocks.select_for_update(no_key=True, skip_locked=not wait).first()
    if found is None and not clocks.exists():
        LaneClock.objects.bulk_create([LaneClock(pool_id=pool_id, lane=lane)], ignore_conflicts=True)
        found = clocks.select_for_update(no_key=True, skip_locked=not wait).first()
    return found


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
