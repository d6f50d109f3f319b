"""Whether the fairness that is shown for an interval is the one that its input and its replayed answer give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection

from scheduling.models import Interval, IntervalFairness, TenantFairness
from scheduling.services.fairness import FairnessValues, fairness_values
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.replay import Replayed, name_of
from tenants.scoping import tenant_require

Columns = Sequence[Sequence[Any]]  # the tenants' ids in order, and each of COLUMNS in the same order
Tenants = Mapping[int, Columns]  # fairness row -> its tenants

COLUMNS = tuple(
    str(field.column)
    for field in TenantFairness._meta.concrete_fields
    if field.name not in ("id", "fairness", "tenant")
)
DOCUMENTS = ("offered", "sold", "kept")
_READ = ", ".join(f"{name}::text" if name in DOCUMENTS else name for name in COLUMNS)
_ROWS = f"""
SELECT fairness_id, tenant_id, {_READ} FROM scheduling_tenantfairness WHERE fairness_id = ANY(%s) ORDER BY 1, 2
"""  # noqa: S608  columns of our own model


def tenants_of(fairness_ids: Iterable[int]) -> Tenants:
    """Every tenant's row of some intervals: there may be thousands, so as plain columns. All tenants' scope."""
    tenant_require(None)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [list(fairness_ids)])
        rows = cursor.fetchall()
    read = cache(json.loads)  # the same few texts again and again
    found = {}
    for fairness_id, listed in groupby(rows, key=itemgetter(0)):
        _, tenant_ids, *columns = zip(*listed, strict=True)
        texts = zip(COLUMNS, columns, strict=True)
        found[fairness_id] = [
            tenant_ids,
            *(tuple(map(read, column)) if name in DOCUMENTS else column for name, column in texts),
        ]
    return found


def fairness_verify(
    interval: Interval, replayed: Replayed, stored: IntervalFairness | None, tenants: Columns
) -> list[Finding]:
    """Nothing is wrong with an interval whose fairness was not worked out yet."""
    if stored is None:
        return []
    where = f"fairness of {name_of(interval)}"
    right = fairness_values(interval, replayed.view, replayed.plan)
    found = differences(where, _pairs(stored, right.interval))
    wanted = [right.tenant_ids, *(right.columns[name] for name in COLUMNS)]
    # The cluster lists its tenants by their ids. Were that otherwise, the rows would be compared one by one.
    if [list(column) for column in tenants] == wanted or not (len(tenants) or right.tenant_ids):
        return found
    return found + _tenants_differ(where, tenants, right)


def _tenants_differ(where: str, tenants: Columns, right: FairnessValues) -> list[Finding]:
    rows = {tenant: row for tenant, *row in zip(*tenants, strict=True)}
    found: list[Finding] = []
    for tenant, *wanted in zip(right.tenant_ids, *(right.columns[name] for name in COLUMNS), strict=True):
        about, kept = f"{where}, tenant {tenant}", rows.pop(tenant, None)
        pairs = {} if kept is None else dict(zip(COLUMNS, zip(kept, wanted, strict=True), strict=True))
        found += [Finding(about, "its row is missing")] if kept is None else differences(about, pairs)
    return found + [Finding(f"{where}, tenant {tenant}", "it has a row and took no part") for tenant in rows]


def _pairs(stored: IntervalFairness, right: IntervalFairness) -> dict[str, tuple[object, object]]:
    names = [field.attname for field in stored._meta.concrete_fields if field.name != "id"]
    return {name: (getattr(stored, name), getattr(right, name)) for name in names}
