"""The market as one tenant sees it at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, IntegerField, Value, When

from scheduling.models import Lane, LaneClock, Pool, PriceTick, ResourceKind, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.selectors.explain import JobView, jobs_explain
from tenants.ledger.postings import TenantBalances
from tenants.ledger.selectors import balances_of_tenant
from tenants.models import Tenant

MOST_JOBS = 20


@dataclass(frozen=True)
class PostedPrice:
    """Credits per unit and slot; None where no interval has published one."""

    label: str
    price: float | None
    offered: float
    sold: float


@dataclass(frozen=True)
class MarketView:
    slot: int
    held: bool
    closes_at: datetime  # the earliest moment at which the next interval can close
    seconds_left: int
    prices: tuple[PostedPrice, ...]
    jobs: tuple[JobView, ...]  # live ones first, then the newest
    balances: TenantBalances


def market_view(*, tenant: Tenant, pool: Pool, at: datetime) -> MarketView:
    """Needs the tenant's scope."""
    slot = pool.slot_at(at)
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    # No later plan touches a slot before the frontier, so that is where the next one begins.
    closes_at = pool.slot_start(max(clock.frontier if clock else 0, slot + 1))
    return MarketView(
        slot=slot,
        held=clock is not None and clock.held,
        closes_at=closes_at,
        seconds_left=max(round((closes_at - at).total_seconds()), 0),
        prices=posted_prices(pool, slot),
        jobs=tuple(jobs_explain(pool, _jobs(tenant, pool))),
        balances=balances_of_tenant(tenant_id=tenant.pk),
    )


def posted_prices(pool: Pool, slot: int) -> tuple[PostedPrice, ...]:
    """Of the batch lane in one slot, in the order of the pool's resources."""
    found = {row.resource_id: row for row in PriceTick.objects.filter(pool=pool, lane=Lane.BATCH, slot=slot)}
    return tuple(_posted(kind, found.get(kind.pk)) for kind in ResourceKind.objects.filter(pool=pool))


def _posted(kind: ResourceKind, tick: PriceTick | None) -> PostedPrice:
    if tick is None:
        return PostedPrice(kind.label, None, 0.0, 0.0)
    return PostedPrice(kind.label, tick.price, tick.offered, tick.sold)


def _jobs(tenant: Tenant, pool: Pool) -> list[TrainingJob]:
    order = Case(When(state__in=LIVE_STATES, then=Value(0)), default=Value(1), output_field=IntegerField())
    rows = TrainingJob.objects.filter(tenant=tenant, pool=pool).select_related("tenant", "pool")
    return list(rows.order_by(order, "-pk")[:MOST_JOBS])
