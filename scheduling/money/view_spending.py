"""Read what tenants have spent on rent in the period of the budget in their instructions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.db.models import F, Sum

from scheduling.models import Award, Lane, Period, Pool, TenantPolicy
from tenants.common.zones import day_of, midnight


def period_start(period: str, at: datetime) -> datetime:
    """Return the first moment of the day, week (from Monday) or month of UTC that contains `at`."""
    day = day_of(at, UTC)
    if period == Period.WEEK:
        day -= timedelta(days=day.weekday())
    return midnight(day.replace(day=1) if period == Period.MONTH else day, UTC)


def rent_spent(pool: Pool, at: datetime) -> Mapping[int, int]:
    """Map each tenant's id to the micro-credits for batch awards decided in its period, less what was returned of them.
    Only tenants that have set a budget for rent are in it."""
    by_period: defaultdict[str, list[int]] = defaultdict(list)
    for row in TenantPolicy.objects.filter(pool=pool, budget__isnull=False):
        by_period[row.budget_period].append(row.tenant_id)
    spent: dict[int, int] = {}
    for period, tenant_ids in by_period.items():
        since = period_start(period, at)
        awards = Award.objects.filter(
            pool=pool, lane=Lane.BATCH, tenant__in=tenant_ids, awarded_at__gte=since, paid__gt=0
        )
        sums = awards.order_by().values_list("tenant_id").annotate(spent=Sum(F("paid") - F("returned")))
        spent |= dict.fromkeys(tenant_ids, 0) | dict(sums)
    return spent
