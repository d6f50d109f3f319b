"""Read the market as one tenant sees it at a moment: past and coming prices, the next interval, its units and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.cluster import PoolOverview
from scheduling.core.policies.astraea.rules.trailing import price_base_of
from scheduling.market.reads.explain import JobView, jobs_explain
from scheduling.market.reads.now import MOST_AHEAD, MarketNow, ResourceNow
from scheduling.market.reads.share_units import holdings_in, units_now
from scheduling.models import JobState, Lane, Pool, ServerState, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from tenants.models import Tenant
from tenants.scoping import scope_disabled

MOST_JOBS = 20
SLOTS_BACK = 72  # how far back the price chart goes
MOST_ASKING = 2_000  # jobs of the queue that are counted at most


@dataclass(frozen=True)
class SlotPrice:
    slot: int
    at: datetime
    prices: tuple[float | None, ...]  # in the order of the pool's resources


@dataclass(frozen=True)
class PriceHistory:
    """Posted prices from some slots ago to the last decided slot."""

    slots: tuple[SlotPrice, ...]
    edge: datetime  # nothing is decided from this moment on


@dataclass(frozen=True)
class Demand:
    """The workers that waiting jobs ask for in the batch lane. `more` says that the queue is longer than was
    counted."""

    my_jobs: int
    my_workers: int
    jobs: int
    workers: int
    more: bool

    @property
    def other_jobs(self) -> int:
        return self.jobs - self.my_jobs

    @property
    def other_workers(self) -> int:
        return self.workers - self.my_workers

    @property
    def my_percent(self) -> float:
        return round(100 * self.my_workers / self.workers, 3) if self.workers else 0.0

    @property
    def other_percent(self) -> float:
        return round(100 - self.my_percent, 3)


@dataclass(frozen=True)
class NextInterval:
    """What the next interval can deal out of the pool's first resource: the units that are free when it begins. Where
    there is an instant lane, that one sells the operator's units."""

    resource: ResourceNow
    demand: Demand
    units: int
    booked: float  # units of awards that run on beyond the boundary
    first_price: float | None
    last_price: float | None

    @property
    def free(self) -> float:
        return max(self.units - self.booked, 0.0)

    @property
    def booked_percent(self) -> float:
        return round(100 * self.booked / self.units, 3) if self.units else 0.0

    @property
    def free_percent(self) -> float:
        return round(100 - self.booked_percent, 3)


@dataclass(frozen=True)
class MyUnits:
    """Units of the pool's first resource in the running slot."""

    label: str
    owned: int
    used: int  # by jobs at home
    lent: int
    rented: int

    @property
    def idle(self) -> int:
        return max(self.owned - self.used - self.lent, 0)


def price_history(pool: Pool, now: MarketNow) -> PriceHistory:
    """Return the prices that `now` has read. It must come from `market_now(..., back=SLOTS_BACK)`."""
    end = min(now.frontier, now.slot + MOST_AHEAD)
    if not now.prices:
        return PriceHistory((), pool.slot_start(end))
    begun = min(slot for slot, _ in now.prices)
    slots = tuple(
        SlotPrice(slot, pool.slot_start(slot), tuple(now.prices.get((slot, kind.id)) for kind in now.resources))
        for slot in range(min(begun, now.slot), end)
    )
    return PriceHistory(slots, pool.slot_start(end))


def next_interval(tenant: Tenant, now: MarketNow, overview: PoolOverview) -> NextInterval | None:
    """Read what the next interval can deal out; None if the pool has no resource."""
    if not now.resources:
        return None
    pool, resource = now.pool, now.resources[0]
    units = resource.units
    if pool.instant_policy is not None:
        serving = [server for server in overview.servers if server.state != ServerState.LOST]
        units -= sum(server.capacities[0].operator_units for server in serving)
    base = price_base_of(pool.batch_policy, now.memory).get(resource.name)
    floor = _constant(pool, "price_floor", resource.name)
    return NextInterval(
        resource=resource,
        demand=_demand(tenant, pool),
        units=units,
        booked=min(now.taken_then.get(resource.id, 0.0), units),
        first_price=floor,
        last_price=None if base is None else (floor or 0.0) + base - 1.0,
    )


def _constant(pool: Pool, name: str, resource: str) -> float | None:
    """Return a constant of the pool's price curve, if its policy sets it (see `market.view.policy.fixed_settings`)."""
    setting = pool.batch_policy.get(name)
    setting = setting.get(resource) if isinstance(setting, dict) else setting
    return float(setting) if isinstance(setting, int | float) else None


def _demand(tenant: Tenant, pool: Pool) -> Demand:
    with scope_disabled("everybody sees how much is asked for, and nobody sees by whom"):
        # Where every slot is dealt out anew, running jobs count as demand too.
        states = [JobState.QUEUED, JobState.RUNNING] if pool.is_elastic else [JobState.QUEUED]
        queue = TrainingJob.objects.filter(pool=pool, lane=Lane.BATCH, state__in=states)
        rows = list(
            queue.order_by("arrival", "id").values_list("tenant_id", "spec__max_workers", "spec__chunks")[
                : MOST_ASKING + 1
            ]
        )
    wishes = [(owner, int(most or chunks or 1)) for owner, most, chunks in rows[:MOST_ASKING]]
    mine = [workers for owner, workers in wishes if owner == tenant.pk]
    return Demand(len(mine), sum(mine), len(wishes), sum(workers for _, workers in wishes), len(rows) > MOST_ASKING)


def my_units(tenant: Tenant, pool: Pool, now: MarketNow, overview: PoolOverview) -> MyUnits | None:
    """Count the tenant's units as the page My share does. Needs the tenant's scope."""
    holdings = holdings_in(pool, now.slot, near=tenant.pk)
    units = units_now(tenant_id=tenant.pk, pool=pool, slot=now.slot, holdings=holdings, overview=overview)
    if not units.totals:
        return None
    total = units.totals[0]
    used = min(round(total.used), total.units)
    lent = min(round(total.lent), total.units - used)
    return MyUnits(total.label, total.units, used, lent, round(total.rented))


def my_jobs(tenant: Tenant, pool: Pool, at: datetime) -> tuple[JobView, ...]:
    """Return some of the tenant's jobs: live ones first, then the newest. Needs the tenant's scope."""
    return tuple(jobs_explain(pool, _jobs(tenant, pool), at))


def _jobs(tenant: Tenant, pool: Pool) -> Sequence[TrainingJob]:
    """Read these jobs with two short index scans in one query. A sort that puts a million finished jobs behind a few
    live ones would read them all."""
    rows = TrainingJob.objects.filter(tenant=tenant, pool=pool).order_by("-pk")
    live = rows.filter(state__in=LIVE_STATES).values("pk")[:MOST_JOBS]
    newest = rows.values("pk")[: MOST_JOBS // 2]
    jobs = list(rows.filter(pk__in=live.union(newest)).select_related("tenant", "pool"))
    return sorted(jobs, key=lambda job: job.state not in LIVE_STATES)[:MOST_JOBS]
