"""What every page of a tenant says about the market at a moment: the tape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Sum

from scheduling.models import (
    CalendarCell,
    JobState,
    Lane,
    LaneClock,
    Pool,
    PriceTick,
    ResourceKind,
    ServerCapacity,
    ServerState,
    TrainingJob,
)
from scheduling.models.jobs import LIVE_STATES
from tenants.models import Tenant

MOST_COUNTED = 1_000  # a page that says "1000" is not made to wait for the rest


@dataclass(frozen=True)
class ResourceNow:
    """One resource in the running slot. Price in credits per unit and slot; None where none is posted."""

    id: int
    name: str
    label: str
    price: float | None
    units: int  # in service
    free: float  # of them, neither lane holds
    offered: float
    sold: float


@dataclass(frozen=True)
class MarketNow:
    pool: Pool
    at: datetime
    slot: int
    frontier: int  # the first slot that the next interval may decide
    closes_at: datetime
    seconds_left: int  # 0: it is being decided
    held: bool
    resources: tuple[ResourceNow, ...]


@dataclass(frozen=True)
class JobCount:
    running: int
    waiting: int

    @property
    def live(self) -> int:
        return self.running + self.waiting


def market_now(pool: Pool, at: datetime) -> MarketNow:
    slot = pool.slot_at(at)
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    # No later plan touches a slot before the frontier, so that is where the next one begins.
    frontier = max(clock.frontier if clock else 0, slot + 1)
    closes_at = pool.slot_start(frontier)
    return MarketNow(
        pool=pool,
        at=at,
        slot=slot,
        frontier=frontier,
        closes_at=closes_at,
        seconds_left=max(round((closes_at - at).total_seconds()), 0),
        held=clock is not None and clock.held,
        resources=resources_now(pool, slot),
    )


def resources_now(pool: Pool, slot: int) -> tuple[ResourceNow, ...]:
    """In the order of the pool's resources."""
    prices = {row.resource_id: row for row in PriceTick.objects.filter(pool=pool, lane=Lane.BATCH, slot=slot)}
    serving = ServerCapacity.objects.filter(pool=pool).exclude(server__state=ServerState.LOST)
    units = dict(serving.order_by().values_list("resource").annotate(Sum("units")))
    taken = taken_in(pool, slot)

    def now(kind: ResourceKind) -> ResourceNow:
        tick, total = prices.get(kind.pk), units.get(kind.pk, 0)
        return ResourceNow(
            id=kind.pk,
            name=kind.name,
            label=kind.label,
            price=tick.price if tick else None,
            units=total,
            free=max(total - taken.get(kind.pk, 0.0), 0.0),
            offered=tick.offered if tick else 0.0,
            sold=tick.sold if tick else 0.0,
        )

    return tuple(now(kind) for kind in ResourceKind.objects.filter(pool=pool))


def taken_in(pool: Pool, slot: int) -> Mapping[int, float]:
    """Resource id -> units that either lane holds in the slot."""
    rows = CalendarCell.objects.filter(pool=pool, slot=slot).order_by().values_list("resource")
    return dict(rows.annotate(taken=Sum(F("batch") + F("instant"))))


def jobs_count(tenant: Tenant) -> JobCount:
    """Of all pools. Needs the tenant's scope."""
    live = TrainingJob.objects.filter(tenant=tenant, state__in=LIVE_STATES).order_by()
    states = list(live.values_list("state", flat=True)[:MOST_COUNTED])
    running = states.count(JobState.RUNNING)
    return JobCount(running, len(states) - running)
