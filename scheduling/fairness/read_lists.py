"""Lists of intervals by what an auditor looks for: broken certificates, blocked demand, one bidder, unsold units."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, timedelta
from types import MappingProxyType

from django.db.models import Max, Min, Q, QuerySet

from scheduling.models import IntervalFairness, Pool, PoolDay, ResourceKind, TenantFairness
from tenants.common.zones import midnight
from tenants.models import Tenant

ALL, BROKEN, BLOCKED, ONE_BIDDER, UNSOLD = "all", "broken", "blocked", "one-bidder", "unsold"
WAITING = "waiting"
LOOKED_FOR: Mapping[str, str] = MappingProxyType(
    {
        ALL: "Every interval",
        BROKEN: "A certificate was broken",
        BLOCKED: "Work waits beside unsold units",
        ONE_BIDDER: "One bidder only",
        UNSOLD: "Units stayed unsold",
    }
)
# An elastic pool has no certificates, and offers nothing that could stay unsold.
LOOKED_FOR_BY_USE: Mapping[str, str] = MappingProxyType(
    {ALL: LOOKED_FOR[ALL], WAITING: "Work goes on waiting", ONE_BIDDER: LOOKED_FOR[ONE_BIDDER]}
)


def fairness_intervals(
    pool: Pool, what: str = ALL, *, first: date | None = None, last: date | None = None
) -> QuerySet[IntervalFairness]:
    """Return rows of the whole pool, both days included: only for readers who may see every tenant."""
    rows = IntervalFairness.objects.filter(pool=pool)
    if first is not None:
        rows = rows.filter(decided_at__gte=midnight(first, UTC))
    if last is not None:
        rows = rows.filter(decided_at__lt=midnight(last + timedelta(days=1), UTC))
    if what == BROKEN:
        return rows.filter(broken_count__gt=0)
    if what == ONE_BIDDER:
        return rows.filter(renters=1)
    if what in (BLOCKED, UNSOLD):
        rows = rows.filter(_unsold(pool))
    return rows.exclude(waiting_for={}) if what in (BLOCKED, WAITING) else rows


def own_intervals(tenant: Tenant, pool: Pool, *, first: date, last: date) -> QuerySet[TenantFairness]:
    """Return the tenant's own rows of the intervals of these days. Needs the tenant's scope."""
    days = PoolDay.objects.filter(pool=pool, day__range=(first, last))
    ends = days.aggregate(first=Min("first_number"), last=Max("last_number"))
    numbers = (ends["first"] or 0, ends["last"] or 0)
    return TenantFairness.objects.filter(tenant=tenant, pool=pool, number__range=numbers)


def _unsold(pool: Pool) -> Q:
    condition = Q(pk__in=[])
    for name in ResourceKind.objects.filter(pool=pool).values_list("name", flat=True):
        condition |= Q(**{f"unsold__{name}__gt": 0})
    return condition
