"""Whether the sums of fairness by day are those of the intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db import transaction

from scheduling.models import PoolDay, TenantDay
from scheduling.services.fairness_days import days_added_up
from scheduling.services.verification.findings import Finding, differences
from tenants.scoping import scope_disabled


def days_verify(*, pool_ids: Sequence[int]) -> tuple[Finding, ...]:
    """Every sum that is not that of its rows."""
    with transaction.atomic(), scope_disabled("a day is that of all tenants of a pool"):
        return tuple(finding for pool_id in pool_ids for finding in _verify(pool_id))


def _verify(pool_id: int) -> Iterator[Finding]:
    stored = {day.day: day for day in PoolDay.objects.filter(pool=pool_id)}
    for right in days_added_up(pool_id):
        where = f"fairness of pool {pool_id} on {right.whole.day}"
        kept = stored.pop(right.whole.day, None)
        if kept is None:
            yield Finding(where, "its sums are missing")
            continue
        yield from differences(where, _pairs(kept, right.whole))
        rows = {row.tenant_id: row for row in TenantDay.objects.filter(pool=pool_id, day=right.whole.day)}
        for tenant_id, day in right.tenants.items():
            about = f"{where}, tenant {tenant_id}"
            row = rows.pop(tenant_id, None)
            yield from [Finding(about, "its sums are missing")] if row is None else differences(about, _pairs(row, day))
        yield from (Finding(f"{where}, tenant {tenant_id}", "took no part") for tenant_id in rows)
    yield from (Finding(f"fairness of pool {pool_id} on {day}", "no interval was decided then") for day in stored)


def _pairs(stored: PoolDay | TenantDay, right: PoolDay | TenantDay) -> dict[str, tuple[object, object]]:
    names = [column.attname for column in stored._meta.concrete_fields if column.name != "id"]
    return {name: (getattr(stored, name), getattr(right, name)) for name in names}
