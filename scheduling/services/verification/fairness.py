"""Whether the fairness that is shown for an interval is the one that its input and its replayed answer give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection

from scheduling.models import Interval, IntervalFairness, TenantFairness
from scheduling.services.fairness import fairness_values
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.replay import Replayed, name_of
from tenants.scoping import tenant_require

Tenants = Mapping[int, Mapping[int, Sequence[Any]]]  # fairness row -> tenant -> its columns, in the order of COLUMNS

COLUMNS = tuple(
    str(field.column)
    for field in TenantFairness._meta.concrete_fields
    if field.name not in ("id", "fairness", "tenant")
)
_ROWS = f"""
SELECT fairness_id, json_object_agg(tenant_id, json_build_array({", ".join(COLUMNS)}))::text
  FROM scheduling_tenantfairness WHERE fairness_id = ANY(%s) GROUP BY 1
"""  # noqa: S608  columns of our own model


def tenants_of(fairness_ids: Iterable[int]) -> Tenants:
    """Every tenant's row of some intervals, as JSON from the database: there may be thousands. All tenants' scope."""
    tenant_require(None)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [list(fairness_ids)])
        found = cursor.fetchall()
    return {number: {int(tenant): row for tenant, row in json.loads(rows).items()} for number, rows in found}


def fairness_verify(
    interval: Interval, replayed: Replayed, stored: IntervalFairness | None, tenants: Mapping[int, Sequence[Any]]
) -> list[Finding]:
    """Nothing is wrong with an interval whose fairness was not worked out yet."""
    if stored is None:
        return []
    where = f"fairness of {name_of(interval)}"
    right = fairness_values(interval, replayed.view, replayed.plan)
    found = differences(where, _pairs(stored, right.interval))
    rows = dict(tenants)
    for values in right.tenants:
        kept = rows.pop(values["tenant_id"], None)
        wanted = [values[name] for name in COLUMNS]
        if kept == wanted:
            continue
        about = f"{where}, tenant {values['tenant_id']}"
        pairs = {} if kept is None else dict(zip(COLUMNS, zip(kept, wanted, strict=True), strict=True))
        found += [Finding(about, "its row is missing")] if kept is None else differences(about, pairs)
    return found + [Finding(f"{where}, tenant {tenant}", "it has a row and took no part") for tenant in rows]


def _pairs(stored: IntervalFairness, right: IntervalFairness) -> dict[str, tuple[object, object]]:
    names = [field.attname for field in stored._meta.concrete_fields if field.name != "id"]
    return {name: (getattr(stored, name), getattr(right, name)) for name in names}
