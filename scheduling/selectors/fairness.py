"""Is it fair? One pool over some days, from the sums by day: every tenant, how far apart they are, and the market."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Max, Sum

from scheduling.core.metrics.period import Spread, period_ratio, period_reward, spread
from scheduling.models import Interval, IntervalFairness, Pool, PoolDay, TenantDay
from scheduling.selectors.fairness_values import Health, Overview, TenantPeriod
from tenants.models import Tenant
from tenants.scoping import scope_disabled

MOST_DAYS = 92
SUMS = (
    "own_value", "rented_value", "paid", "received", "gain", "alone", "even", "earned", "contributed", "forgone",
    "rent_saved", "waiting", "broken",
)  # fmt: skip
UNITS = ("offered", "sold", "kept")


@dataclass
class _Sums:
    amounts: list[float] = field(default_factory=lambda: [0.0] * len(SUMS))
    units: tuple[dict[str, float], ...] = field(default_factory=lambda: tuple({} for _ in UNITS))
    by_day: dict[date, float | None] = field(default_factory=dict)


def fairness_overview(pool: Pool, *, first: date, last: date) -> Overview:
    """Both days included. Who asks may see every tenant, or shows of the others no more than how far apart they are."""
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


def spread_of(tenants: Iterable[TenantPeriod]) -> Spread:
    rows = list(tenants)
    return spread({one.tenant_id: one.ratio for one in rows}, {one.tenant_id: one.reward for one in rows})


def period_of_days(number: int, *, today: date) -> tuple[date, date]:
    """The last so many days, today included."""
    return today - timedelta(days=number - 1), today


def utc_day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


def _tenants(pool: Pool, first: date, last: date, revenue: float) -> list[TenantPeriod]:
    columns = TenantDay.objects.filter(pool=pool, day__range=(first, last)).order_by("day")
    sums: defaultdict[int, _Sums] = defaultdict(_Sums)
    for row in columns.values_list("tenant_id", "day", *SUMS, *UNITS):
        _add(sums[row[0]], row[1], row[2 : 2 + len(SUMS)], row[2 + len(SUMS) :])
    names = Tenant.objects.in_bulk(list(sums))
    return [_tenant(names[tenant_id], found, revenue) for tenant_id, found in sums.items()]


def _add(sums: _Sums, day: date, amounts: Sequence[float], units: Sequence[Mapping[str, float]]) -> None:
    sums.amounts = [one + other for one, other in zip(sums.amounts, amounts, strict=True)]
    for total, part in zip(sums.units, units, strict=True):
        for resource, number in part.items():
            total[resource] = total.get(resource, 0.0) + number
    sums.by_day[day] = period_ratio(amounts[SUMS.index("gain")], amounts[SUMS.index("even")])


def _tenant(tenant: Tenant, sums: _Sums, revenue: float) -> TenantPeriod:
    amounts: dict[str, Any] = dict(zip(SUMS, sums.amounts, strict=True))
    amounts |= {name: int(amounts[name]) for name in ("waiting", "broken")}
    units: dict[str, Any] = dict(zip(UNITS, sums.units, strict=True))
    return TenantPeriod(
        tenant_id=tenant.pk, name=tenant.name, slug=tenant.slug, by_day=sums.by_day, revenue=revenue, **amounts, **units
    )


def _spread_before(pool: Pool, first: date, last: date) -> Spread:
    rows = TenantDay.objects.filter(pool=pool, day__range=(first, last)).order_by().values("tenant_id")
    found = list(rows.annotate(gains=Sum("gain"), evens=Sum("even"), earns=Sum("earned"), gives=Sum("contributed")))
    ratios = {row["tenant_id"]: period_ratio(row["gains"], row["evens"]) for row in found}
    return spread(ratios, {row["tenant_id"]: period_reward(row["earns"], row["gives"]) for row in found})


def _health(days: Sequence[PoolDay]) -> Health:
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
    return Health(
        **{name: sum(getattr(day, name) for day in days) for name in counts},
        waiting_for=dict(sorted(waiting_for.items(), key=lambda item: (-item[1], item[0]))),
        unsold=dict(unsold),
        highest=highest,
    )


def _behind(pool: Pool) -> int:
    last = Interval.objects.filter(pool=pool).aggregate(last=Max("number"))["last"] or 0
    done = IntervalFairness.objects.filter(pool=pool).aggregate(last=Max("number"))["last"] or 0
    return max(last - done, 0)


def _by_ratio(one: TenantPeriod) -> tuple[bool, float, str]:
    return one.ratio is None, -(one.ratio or 0.0), one.name
