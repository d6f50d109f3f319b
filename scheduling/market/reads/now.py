"""Read what every page of a tenant shows about the market at a moment: the tape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from scheduling.cluster import PoolOverview
from scheduling.models import (
    CalendarCell,
    JobState,
    Lane,
    LaneClock,
    Part,
    Pool,
    PriceTick,
    ResourceKind,
    ServerCapacity,
    ServerState,
    TrainingJob,
)
from scheduling.models.jobs import LIVE_STATES
from tenants.models import Tenant

MOST_AHEAD = 96  # slots ahead for which prices are read
LATE = 5  # seconds after which a missing decision is late; a tick of the clock takes one or two
MOST_COUNTED = 1_000  # counting stops here, so that the page need not wait for more


@dataclass(frozen=True)
class ResourceNow:
    """One resource in the running slot. The price is in credits per unit and slot; None where none is posted. While
    decisions are late, it is the price of the last decided slot, which began `price_age` seconds ago."""

    id: int
    name: str
    label: str
    price: float | None
    price_age: int | None  # None if the price is that of the running slot
    units: int  # in service
    free: float  # of `units`, those that neither lane holds


@dataclass(frozen=True)
class MarketNow:
    pool: Pool
    at: datetime
    slot: int
    frontier: int  # the first slot that the next interval may decide
    closes_at: datetime
    seconds_left: int  # 0 while the interval is being decided
    late_seconds: int  # how long the decision of the first undecided slot is overdue; 0 if it is not late
    held: bool
    memory: Mapping[str, Any]  # the memory of the batch lane's policy
    prices: Mapping[tuple[int, int], float]  # (slot, resource id) -> posted price
    taken_then: Mapping[
        int, float
    ]  # resource id -> units, of those that it sells, held in the next interval's first slot
    resources: tuple[ResourceNow, ...]


@dataclass(frozen=True)
class JobCount:
    """Live jobs; `by_pool` has those of each pool that has any, by its id."""

    running: int
    waiting: int
    by_pool: Mapping[int, JobCount] = field(default_factory=dict)

    @property
    def live(self) -> int:
        return self.running + self.waiting

    def here(self, pool: Pool) -> JobCount:
        """Return the count of this pool alone."""
        return self.by_pool.get(pool.pk, JobCount(0, 0))


def market_now(pool: Pool, at: datetime, *, back: int = 0, overview: PoolOverview | None = None) -> MarketNow:
    """Read the market at this moment. With `back`, also read the prices of `back` slots before it, and of those ahead.
    `overview` is that of the pool, if the caller has read it already."""
    slot = pool.slot_at(at)
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    # No later plan changes a slot before the frontier, so the next plan begins there.
    frontier = max(clock.frontier if clock else 0, slot + 1)
    closes_at = pool.slot_start(frontier)
    prices = _prices(pool, slot - back, min(frontier, slot + MOST_AHEAD) if back else slot + 1)
    use = _use(pool, (slot, frontier))
    sold = set(Part) if pool.instant_policy is None else {Part.HOME}  # by the batch lane
    kinds = _kinds(pool) if overview is None else _kinds_of(overview)
    late = _late_seconds(pool, clock, at)
    last = slot if clock is None or not late else min(clock.decided_slot, slot)
    since = at - pool.slot_start(last)
    earlier = prices if last >= slot - back else _prices(pool, last, last + 1)
    return MarketNow(
        pool=pool,
        at=at,
        slot=slot,
        frontier=frontier,
        closes_at=closes_at,
        seconds_left=0 if late else max(round((closes_at - at).total_seconds()), 0),
        late_seconds=late,
        held=clock is not None and clock.held,
        memory=clock.memory if clock else {},
        prices=prices,
        taken_then={number: sum(use.get((frontier, number, part), 0.0) for part in sold) for number, *_ in kinds},
        resources=tuple(
            ResourceNow(
                id=number,
                name=name,
                label=label,
                price=prices.get((slot, number), earlier.get((last, number))),
                price_age=None if last == slot or (slot, number) in prices else int(since.total_seconds()),
                units=units,
                free=max(units - sum(use.get((slot, number, part), 0.0) for part in Part), 0.0),
            )
            for number, name, label, units in kinds
        ),
    )


def is_late(due: datetime, at: datetime) -> bool:
    """Return whether something that is due at `due` is late by now."""
    return (at - due).total_seconds() >= LATE


def _late_seconds(pool: Pool, clock: LaneClock | None, at: datetime) -> int:
    """Return how many seconds the next decision is late. A pool that has not begun, or has never decided anything, is
    not late."""
    if clock is None or clock.decided_slot < 0:
        return 0
    due = pool.slot_start(clock.decided_slot + 1)
    return int((at - due).total_seconds()) if is_late(due, at) else 0


def _prices(pool: Pool, first: int, end: int) -> dict[tuple[int, int], float]:
    """Map (slot, resource id) to the posted price, for the slots [first, end)."""
    ticks = PriceTick.objects.filter(pool=pool, lane=Lane.BATCH, slot__gte=first, slot__lt=end)
    prices = ticks.values_list("slot", "resource_id", "price")
    return {(slot, resource): price for slot, resource, price in prices if price is not None}


Kinds = list[tuple[int, str, str, int]]  # resource id, name, label, units in service; in the pool's order


def _kinds(pool: Pool) -> Kinds:
    serving = ServerCapacity.objects.filter(resource=OuterRef("pk")).exclude(server__state=ServerState.LOST)
    units = serving.order_by().values("resource").values(units=Sum("units"))
    kinds = ResourceKind.objects.filter(pool=pool).order_by("pk").annotate(serving=Coalesce(Subquery(units), 0))
    return list(kinds.values_list("pk", "name", "label", "serving"))


def _kinds_of(overview: PoolOverview) -> Kinds:
    serving = [server for server in overview.servers if server.state != ServerState.LOST]
    return [
        (total.id, total.resource, total.label, sum(server.capacities[index].units for server in serving))
        for index, total in enumerate(overview.totals)
    ]


def _use(pool: Pool, slots: Sequence[int]) -> dict[tuple[int, int, str], float]:
    """Map (slot, resource id, part) to the units that both lanes hold."""
    rows = CalendarCell.objects.filter(pool=pool, slot__in=slots).order_by().values_list("slot", "resource", "part")
    return {
        (slot, kind, part): units for slot, kind, part, units in rows.annotate(taken=Sum(F("batch") + F("instant")))
    }


def jobs_count(tenant: Tenant) -> JobCount:
    """Count the tenant's live jobs in all pools. Needs the tenant's scope."""
    live = TrainingJob.objects.filter(tenant=tenant, state__in=LIVE_STATES).order_by()
    states = defaultdict(list)
    for pool_id, state in live.values_list("pool", "state")[:MOST_COUNTED]:
        states[pool_id].append(state)
    running = {pool_id: of_pool.count(JobState.RUNNING) for pool_id, of_pool in states.items()}
    by_pool = {pool_id: JobCount(count, len(states[pool_id]) - count) for pool_id, count in running.items()}
    return JobCount(sum(running.values()), sum(each.waiting for each in by_pool.values()), by_pool)
