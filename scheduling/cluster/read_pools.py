"""Pools with the last slots that their batch lane decided and settled, and whether an operator holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.models import Lane, LaneClock, Pool, ResourceKind


@dataclass(frozen=True)
class PoolState:
    """A pool and its batch lane now. `frontier` is the first slot that the next interval may decide, once an interval
    has been decided."""

    pool: Pool
    resources: tuple[ResourceKind, ...]
    slot: int
    frontier: int
    settled_slot: int
    held: bool
    draining: bool

    @property
    def state(self) -> str:
        if self.draining:
            return "draining"
        return "held" if self.held else "open"

    @property
    def closes_at(self) -> datetime:
        """The earliest moment at which the next interval can be decided."""
        return self.pool.slot_start(max(self.frontier, self.slot + 1))


def pool_states(pools: Sequence[Pool], at: datetime) -> list[PoolState]:
    """Return the states of these pools, in the order of `pools`. Takes two queries."""
    kinds: defaultdict[int, list[ResourceKind]] = defaultdict(list)
    for kind in ResourceKind.objects.filter(pool__in=pools).order_by("pk"):
        kinds[kind.pool_id].append(kind)
    clocks = {row.pool_id: row for row in LaneClock.objects.filter(pool__in=pools, lane=Lane.BATCH)}
    return [_state(pool, kinds[pool.pk], clocks.get(pool.pk) or LaneClock(pool=pool), at) for pool in pools]


def _state(pool: Pool, kinds: Sequence[ResourceKind], clock: LaneClock, at: datetime) -> PoolState:
    return PoolState(
        pool=pool,
        resources=tuple(kinds),
        slot=pool.slot_at(at),
        frontier=clock.frontier,
        settled_slot=clock.settled_slot,
        held=clock.held,
        draining=clock.draining,
    )
