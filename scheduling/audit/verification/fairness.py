"""Verifying that the fairness that is shown for an interval is the one that its input and its replayed answer give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from django.db import connection

from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.replay import Replayed, name_of
from scheduling.core.types import FloatArray, Plan
from scheduling.fairness import FairnessValues, fairness_values
from scheduling.models import Interval, IntervalFairness, TenantFairness
from tenants.scoping import tenant_require

FIELDS = [field for field in TenantFairness._meta.concrete_fields if field.name not in ("id", "fairness")]
NAMES = tuple(field.attname for field in FIELDS)
WHOLE = tuple(field.attname for field in IntervalFairness._meta.concrete_fields if field.name != "id")
DOCUMENTS = ("offered", "sold", "kept")
ALIKE = ("pool_id", "number")  # equal in all rows of an interval
NUMBERS = tuple(name for name in NAMES if name not in (*DOCUMENTS, *ALIKE))
OPTIONAL = tuple(field.attname for field in FIELDS if field.null)
# A hundred rows are read as one run of bytes: to make a Python number of each figure takes longer than to compare them
# all.
_FIGURES = " || ".join(
    f"float8send(coalesce({name}, 'NaN'))" if name in OPTIONAL else f"float8send({name}::float8)" for name in NUMBERS
)
_TEXTS = ", ".join(f"string_agg({name}::text, E'\\n')" for name in DOCUMENTS)
_COUNTED = ", ".join([*(f"min({name}), max({name})" for name in ALIKE), *(f"count({name})" for name in OPTIONAL)])
_ROWS = f"""
SELECT fairness_id, ARRAY[{_COUNTED}], string_agg({_FIGURES}, ''::bytea), {_TEXTS}
  FROM (SELECT * FROM scheduling_tenantfairness WHERE fairness_id = ANY(%s) ORDER BY fairness_id, tenant_id) AS row
 GROUP BY fairness_id
"""  # noqa: S608  columns of our own model


@dataclass(frozen=True, eq=False)
class Columns:
    """The tenants' rows of one interval. `counted`: the least and the largest of each of ALIKE, and how many tenants
    have each of OPTIONAL; `numbers`: (tenants, NUMBERS), NaN where there is none; `documents`: each of DOCUMENTS for
    each tenant."""

    counted: Sequence[int]
    numbers: FloatArray
    documents: Sequence[Sequence[Any]]

    def agree(self, other: Columns) -> bool:
        """Return whether both are the same. A stored NaN is a number that is known, and is counted."""
        if self.counted != other.counted or self.documents != other.documents:
            return False
        one, two = self.numbers, other.numbers
        return one.shape == two.shape and bool(((one == two) | (np.isnan(one) & np.isnan(two))).all())


Tenants = Mapping[int, Columns]  # by the id of the fairness row
NOBODY = Columns([], np.zeros((0, len(NUMBERS))), [[] for _ in DOCUMENTS])


def tenants_of(fairness_ids: Iterable[int]) -> Tenants:
    """Return every tenant's row of some intervals, in the order of the tenants' ids. Needs the scope of all tenants."""
    tenant_require(None)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [list(fairness_ids)])
        rows = cursor.fetchall()
    read = cache(json.loads)  # the same few texts come again and again
    return {
        fairness_id: Columns(
            counted,
            np.frombuffer(figures, dtype=">f8").reshape(-1, len(NUMBERS)),
            [list(map(read, text.split("\n"))) for text in texts],
        )
        for fairness_id, counted, figures, *texts in rows
    }


def _columns(right: FairnessValues) -> Columns:
    """Return the rows as they should be."""
    numbers = np.array([right.numbers[name] for name in NUMBERS], dtype=np.float64).T
    if not len(numbers):
        return NOBODY
    counted = [right.interval[name] for name in ALIKE for _ in ("least", "largest")]
    counted += [len(numbers) - int(np.isnan(right.numbers[name]).sum()) for name in OPTIONAL]
    return Columns(counted, numbers, [right.units[name] for name in DOCUMENTS])


def fairness_verify(
    interval: Interval, replayed: Replayed, stored: IntervalFairness | None, tenants: Columns
) -> list[Finding]:
    """Compare the stored fairness of an interval with what its replay gives. An interval whose fairness was not worked
    out yet has no findings. Neither has one of a version before, which did not take off what comes back of open rents,
    and counted the whole job in each slot of an elastic pool."""
    if stored is None:
        return []
    findings = _findings_by(interval, replayed, stored, tenants, {})
    if findings and (before := _as_before(replayed.plan)):
        return findings if _findings_by(interval, replayed, stored, tenants, before) else []
    return findings


def _as_before(plan: Plan) -> Mapping[str, bool]:
    """Return how versions before worked out the figures of this plan; empty where they did as today."""
    if any(settled.refund for settled in plan.settlements):
        return {"with_refunds": False}
    return {"by_part": False} if plan.bookings and not plan.windows else {}


def _findings_by(
    interval: Interval, replayed: Replayed, stored: IntervalFairness, tenants: Columns, how: Mapping[str, bool]
) -> list[Finding]:
    where = f"fairness of {name_of(interval)}"
    values = fairness_values(interval, replayed.view, replayed.plan, replayed.policy, **how)
    findings = differences(where, {name: (getattr(stored, name), values.interval[name]) for name in WHOLE})
    # The cluster lists its tenants by their ids. If it did not, the rows would be compared one by one.
    return findings if tenants.agree(_columns(values)) else findings + _tenants_differ(where, stored, values)


def _tenants_differ(where: str, whole: IntervalFairness, values: FairnessValues) -> list[Finding]:
    """Compare the tenants' rows one by one, as they are stored."""
    findings: list[Finding] = []
    rows = {row["tenant_id"]: row for row in TenantFairness.objects.filter(fairness=whole.pk).values(*NAMES)}
    for wanted in values.rows():
        tenant = wanted["tenant_id"]
        about, stored_row = f"{where}, tenant {tenant}", rows.pop(tenant, None)
        pairs = {} if stored_row is None else {name: (stored_row[name], value) for name, value in wanted.items()}
        findings += [Finding(about, "its row is missing")] if stored_row is None else differences(about, pairs)
    return findings + [Finding(f"{where}, tenant {tenant}", "it has a row and took no part") for tenant in rows]
