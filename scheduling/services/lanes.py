"""The lock of each lane. Order, always: batch clock, instant clock, jobs and awards by id, ledger, history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.models import Lane, LaneClock, Pool


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


def closes(pool: Pool, at: datetime) -> dict[str, Any]:
    """The earliest boundary at which the batch lane can decide about a job that comes now."""
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    slot = max(pool.slot_at(at) + 1, clock.frontier if clock else 0)
    return {"slot": slot, "closes_at": pool.slot_start(slot).isoformat()}
