"""Whether the fairness that is shown for an interval is the one that its input and its replayed answer give."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Model

from scheduling.models import Interval, IntervalFairness, TenantFairness
from scheduling.services.fairness import fairness_rows
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.replay import Replayed, name_of

KEYS = ("id", "fairness")  # columns that are about rows, not about the interval


def fairness_verify(
    interval: Interval, replayed: Replayed, stored: IntervalFairness | None, tenants: Iterable[TenantFairness]
) -> list[Finding]:
    """Nothing is wrong with an interval whose fairness was not worked out yet."""
    if stored is None:
        return []
    where = f"fairness of {name_of(interval)}"
    right = fairness_rows(interval, replayed.view, replayed.plan)
    found = differences(where, _pairs(stored, right.interval))
    rows = {row.tenant_id: row for row in tenants}
    for row in right.tenants:
        kept = rows.pop(row.tenant_id, None)
        about = f"{where}, tenant {row.tenant_id}"
        found += [Finding(about, "its row is missing")] if kept is None else differences(about, _pairs(kept, row))
    return found + [Finding(f"{where}, tenant {tenant}", "it has a row and took no part") for tenant in rows]


def _pairs(stored: Model, right: Model) -> dict[str, tuple[object, object]]:
    names = [field.attname for field in stored._meta.concrete_fields if field.name not in KEYS]
    return {name: (getattr(stored, name), getattr(right, name)) for name in names}
