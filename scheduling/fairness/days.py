"""Sums of fairness by day, written with each interval's own rows, so that a page reads a hundred rows and not a
million.

They say nothing that those rows do not say: `verification.days` adds them up again, in the same order, and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date

from django.db import connection, transaction
from django.db.models import Max, Min
from django.db.models.functions import TruncDate

from scheduling.fairness.many_rows import rows_insert
from scheduling.models import IntervalFairness, PoolDay, TenantDay, TenantFairness
from tenants.common.zones import day_of
from tenants.scoping import scope_disabled, tenant_require

JUMP = 2.0  # a price jumped if it is so many times the highest of the last interval with one
SUMS = (
    "own_value", "rented_value", "paid", "received", "gain", "alone", "earned", "contributed", "forgone", "rent_saved",
)  # fmt: skip
UNITS = ("offered", "sold", "kept")
Units = Mapping[str, float]


@dataclass
class Day:
    """The sums of one pool's day so far."""

    whole: PoolDay
    tenants: dict[int, TenantDay] = field(default_factory=dict)

    def add(self, interval: IntervalFairness, rows: Sequence[TenantFairness], prices_before: Units) -> None:
        _add_interval(self.whole, interval, prices_before)
        lost = Counter(row["tenant"] for row in interval.broken)
        for row in rows:
            if row.tenant_id not in self.tenants:
                self.tenants[row.tenant_id] = _tenant_day(self.whole, row.tenant_id)
            tenant = self.tenants[row.tenant_id]
            _add_tenant(tenant, interval, row)
            tenant.broken += lost.pop(row.tenant_id, 0)


def day_add(interval: IntervalFairness, rows: Sequence[TenantFairness]) -> None:
    """Add an interval to its day. Call it in the transaction that writes these rows. Needs the scope of all tenants."""
    day = _loaded(interval)
    day.add(interval, rows, _prices_before(interval))
    day.whole.save()
    touched = [day.tenants[row.tenant_id] for row in rows]
    rows_insert(touched, once=("pool_id", "day", "tenant_id"))


def days_rebuild(*, pool_id: int) -> int:
    """Delete a pool's days and add them up again, for figures from before there were days. Return the number of
    days."""
    with transaction.atomic(), scope_disabled("a day is that of all tenants of a pool"):
        TenantDay.objects.filter(pool=pool_id).delete()
        PoolDay.objects.filter(pool=pool_id).delete()
        days = 0
        for day in days_added_up(pool_id):
            day.whole.save(force_insert=True)
            TenantDay.objects.bulk_create(day.tenants.values(), batch_size=500)
            days += 1
    return days


def days_added_up(pool_id: int, *, after: date = date.min) -> Iterator[Day]:
    """Return one day after the other, in the order in which the intervals were worked out."""
    rows = IntervalFairness.objects.filter(pool=pool_id).order_by("number")
    days = rows.annotate(on=TruncDate("decided_at", tzinfo=UTC)).filter(on__gt=after).order_by("on").values("on")
    before: Units | None = None
    for day in days.annotate(first=Min("number"), last=Max("number")):
        intervals = list(rows.filter(number__range=(day["first"], day["last"])))
        before = _prices_before(intervals[0]) if before is None else before
        whole, lost = _pool_day(intervals[0]), Counter[int]()
        for interval in intervals:
            _add_interval(whole, interval, before)
            lost.update(row["tenant"] for row in interval.broken)
            before = interval.top_prices or before
        yield Day(whole, _tenants_added_up(whole, lost))


def _tenants_added_up(whole: PoolDay, lost: Mapping[int, int]) -> dict[int, TenantDay]:
    """Return the tenants' sums of a day. The database adds a million rows in the order of their numbers, as `Day.add`
    would one by one."""
    tenant_require(None)
    names = [*whole.unsold]  # names of the resources
    with connection.cursor() as cursor:
        cursor.execute(
            _sums_of(len(names)),
            [*names * len(UNITS), whole.pool_id, whole.first_number, whole.last_number],
        )
        rows = cursor.fetchall()
    tenants = {}
    for tenant_id, even, waiting, *sums in rows:
        tenant = tenants[tenant_id] = _tenant_day(whole, tenant_id)
        tenant.even, tenant.waiting, tenant.broken = even, waiting, lost.get(tenant_id, 0)
        for name in SUMS:
            setattr(tenant, name, sums.pop(0))
        for name in UNITS:
            units = {resource: sums.pop(0) for resource in names}
            setattr(tenant, name, {resource: amount for resource, amount in units.items() if amount is not None})
    return tenants


def _sums_of(resources: int) -> str:
    """Return the statement that adds up a day. OFFSET 0 has each interval's rows looked up by its key: without it, the
    database would read the whole table of all days for each of them."""
    units = [f"sum((t.{name} ->> %s)::float8 ORDER BY t.number)" for name in UNITS for _ in range(resources)]
    sums = ", ".join([*(f"sum(t.{name} ORDER BY t.number)" for name in SUMS), *units])
    return f"""
SELECT t.tenant_id, sum(f.revenue * t.share ORDER BY t.number), count(*) FILTER (WHERE t.waiting > 0), {sums}
  FROM scheduling_intervalfairness f
 CROSS JOIN LATERAL (SELECT * FROM scheduling_tenantfairness WHERE fairness_id = f.id OFFSET 0) t
 WHERE f.pool_id = %s AND f.number BETWEEN %s AND %s GROUP BY t.tenant_id
"""  # noqa: S608  columns of our own model


def _loaded(interval: IntervalFairness) -> Day:
    """Return the stored day, with its row locked, so that only one process at a time writes to a day."""
    day = day_of(interval.decided_at, UTC)
    whole = PoolDay.objects.select_for_update().filter(pool=interval.pool_id, day=day).first()
    if whole is None:
        return Day(_pool_day(interval))
    return Day(whole, {row.tenant_id: row for row in TenantDay.objects.filter(pool=interval.pool_id, day=day)})


def _pool_day(interval: IntervalFairness) -> PoolDay:
    day = day_of(interval.decided_at, UTC)
    return PoolDay(pool_id=interval.pool_id, day=day, first_number=interval.number, last_number=interval.number)


def _tenant_day(whole: PoolDay, tenant_id: int) -> TenantDay:
    return TenantDay(pool_id=whole.pool_id, day=whole.day, tenant_id=tenant_id)


def _prices_before(interval: IntervalFairness) -> Units:
    earlier = IntervalFairness.objects.filter(pool=interval.pool_id, number__lt=interval.number).exclude(top_prices={})
    return earlier.order_by("-number").values_list("top_prices", flat=True).first() or {}


def _add_interval(day: PoolDay, interval: IntervalFairness, prices_before: Units) -> None:
    is_waiting, is_unsold = bool(interval.waiting_for), any(units > 0 for units in interval.unsold.values())
    day.last_number = interval.number
    day.intervals += 1
    day.revenue += interval.revenue
    day.certificates += interval.certificates
    day.broken += interval.broken_count
    day.broken_intervals += interval.broken_count > 0
    day.with_renters += interval.renters > 0
    day.one_bidder += interval.renters == 1
    day.price_jumps += price_jumped(prices_before, interval.top_prices)
    day.waiting += is_waiting
    day.idle_beside_waiting += is_waiting and is_unsold
    if is_waiting and is_unsold:
        day.waiting_for = _sum(day.waiting_for, interval.waiting_for)
    day.unsold = _sum(day.unsold, interval.unsold)
    day.highest = _most(day.highest, interval.top_prices)


def _add_tenant(day: TenantDay, interval: IntervalFairness, row: TenantFairness) -> None:
    for name in SUMS:
        setattr(day, name, getattr(day, name) + getattr(row, name))
    for name in UNITS:
        setattr(day, name, _sum(getattr(day, name), getattr(row, name)))
    day.even += interval.revenue * row.share
    day.waiting += row.waiting > 0


def price_jumped(before: Units, now: Units) -> bool:
    return any(price >= JUMP * before[name] > 0 for name, price in now.items() if name in before)


def _sum(one: Units, other: Units) -> dict[str, float]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted(one.keys() | other.keys())}


def _most(one: Units, other: Units) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in sorted(one.keys() | other.keys())}
