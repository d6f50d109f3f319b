"""The fairness of one pool over some days, from the sums by day: every tenant, how far apart they are, and the
market."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from django.db.models import FloatField, Max, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from scheduling.core.metrics.period import PeriodSpread, period_ratio, period_reward, spread
from scheduling.fairness.read_values import MarketHealth, Overview, TenantPeriod
from scheduling.models import Interval, IntervalFairness, Pool, PoolDay, ResourceKind, TenantDay
from tenants.models import Tenant
from tenants.scoping import scope_disabled

MOST_DAYS = 92
SUMS = (
    "own_value", "rented_value", "paid", "received", "gain", "alone", "even", "earned", "contributed", "forgone",
    "rent_saved", "waiting", "broken",
)  # fmt: skip
UNITS = ("offered", "sold", "kept")


def fairness_overview(pool: Pool, *, first: date, last: date) -> Overview:
    """Return the overview of a pool, both days included. The caller must be allowed to see every tenant, or must use
    only the part of the one tenant that it may read."""
    with scope_disabled("fairness compares all tenants of a pool"):
        return _overview(pool, first, last)


def _overview(pool: Pool, first: date, last: date) -> Overview:
    days = list(PoolDay.objects.filter(pool=pool, day__range=(first, last)).order_by("day"))
    revenue = sum(day.revenue for day in days)
    tenants = _tenants(pool, first, last, revenue)
    length = last - first + timedelta(days=1)
    return Overview(
        first=first,
        last=last,
        days=tuple(days),
        tenants=tuple(sorted(tenants, key=_by_ratio)),
        spread=spread_of(tenants),
        before=_spread_before(pool, first - length, first - timedelta(days=1)),
        health=_health(days),
        certificates=sum(day.certificates for day in days),
        broken=sum(day.broken for day in days),
        broken_intervals=sum(day.broken_intervals for day in days),
        revenue=revenue,
        behind=_behind(pool),
    )


def spread_of(tenants: Iterable[TenantPeriod]) -> PeriodSpread:
    rows = list(tenants)
    return spread({one.tenant_id: one.ratio for one in rows}, {one.tenant_id: one.reward for one in rows})


def period_of_days(number: int, *, today: date) -> tuple[date, date]:
    """Return the first and the last of `number` days that end today."""
    return today - timedelta(days=number - 1), today


def _tenants(pool: Pool, first: date, last: date, revenue: float) -> list[TenantPeriod]:
    """Return the tenants' sums, added up by the database. Of the single days it reads only what a ratio is made of."""
    rows = TenantDay.objects.filter(pool=pool, day__range=(first, last)).order_by()
    kinds = list(ResourceKind.objects.filter(pool=pool).values_list("name", flat=True))
    sums = {f"sum_{name}": Sum(name) for name in SUMS}
    units = {f"{name}_{place}": _units(name, kind) for name in UNITS for place, kind in enumerate(kinds)}
    sums_by_tenant = list(rows.values("tenant_id").annotate(**sums, **units))
    days: defaultdict[int, dict[date, float | None]] = defaultdict(dict)
    for tenant_id, day, gain, even in rows.values_list("tenant_id", "day", "gain", "even"):
        days[tenant_id][day] = period_ratio(gain, even)
    tenants = Tenant.objects.in_bulk([row["tenant_id"] for row in sums_by_tenant])
    return [_tenant(tenants[row["tenant_id"]], row, kinds, days[row["tenant_id"]], revenue) for row in sums_by_tenant]


def _units(name: str, kind: str) -> Any:
    return Sum(Cast(KeyTextTransform(kind, name), FloatField()))


def _tenant(
    tenant: Tenant, row: Mapping[str, Any], kinds: Sequence[str], by_day: Mapping[date, float | None], revenue: float
) -> TenantPeriod:
    units: dict[str, Any] = {
        name: {kind: row[f"{name}_{place}"] or 0.0 for place, kind in enumerate(kinds)} for name in UNITS
    }
    return TenantPeriod(
        tenant_id=tenant.pk,
        name=tenant.name,
        slug=tenant.slug,
        by_day=by_day,
        revenue=revenue,
        **{name: row[f"sum_{name}"] for name in SUMS},
        **units,
    )


def _spread_before(pool: Pool, first: date, last: date) -> PeriodSpread:
    rows = TenantDay.objects.filter(pool=pool, day__range=(first, last)).order_by().values("tenant_id")
    sums_by_tenant = list(
        rows.annotate(gains=Sum("gain"), evens=Sum("even"), earns=Sum("earned"), gives=Sum("contributed"))
    )
    ratios = {row["tenant_id"]: period_ratio(row["gains"], row["evens"]) for row in sums_by_tenant}
    return spread(ratios, {row["tenant_id"]: period_reward(row["earns"], row["gives"]) for row in sums_by_tenant})


def _health(days: Sequence[PoolDay]) -> MarketHealth:
    waiting_for: defaultdict[str, int] = defaultdict(int)
    unsold: defaultdict[str, float] = defaultdict(float)
    highest: dict[str, float] = {}
    for day in days:
        for reason, jobs in day.waiting_for.items():
            waiting_for[reason] += jobs
        for resource, units in day.unsold.items():
            unsold[resource] += units
        for resource, price in day.highest.items():
            highest[resource] = max(price, highest.get(resource, 0.0))
    counts = ("intervals", "with_renters", "one_bidder", "price_jumps", "waiting", "idle_beside_waiting")
    return MarketHealth(
        **{name: sum(getattr(day, name) for day in days) for name in counts},
        waiting_for=dict(sorted(waiting_for.items(), key=lambda item: (-item[1], item[0]))),
        unsold={name: max(units, 0.0) for name, units in unsold.items()},  # see `IntervalFairness.left_unsold`
        highest=highest,
    )


def _behind(pool: Pool) -> int:
    last = Interval.objects.filter(pool=pool).aggregate(last=Max("number"))["last"] or 0
    done = IntervalFairness.objects.filter(pool=pool).aggregate(last=Max("number"))["last"] or 0
    return max(last - done, 0)


def _by_ratio(one: TenantPeriod) -> tuple[bool, float, str]:
    return one.ratio is None, -(one.ratio or 0.0), one.name
