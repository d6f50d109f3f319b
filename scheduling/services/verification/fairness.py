"""Whether the fairness that is shown for an interval is the one that its input and its replayed answer give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from django.db import connection

from scheduling.core.types import FloatArray
from scheduling.models import Interval, IntervalFairness, TenantFairness
from scheduling.services.fairness import FairnessValues, fairness_values
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.replay import Replayed, name_of
from tenants.scoping import tenant_require

FIELDS = [field for field in TenantFairness._meta.concrete_fields if field.name not in ("id", "fairness")]
WHOLE = [field.attname for field in IntervalFairness._meta.concrete_fields if field.name != "id"]
DOCUMENTS = ("offered", "sold", "kept")
NUMBERS = tuple(field.attname for field in FIELDS if field.attname not in DOCUMENTS)
OPTIONAL = tuple(field.attname for field in FIELDS if field.null)
# A hundred rows as one run of bytes: to make a Python number of each figure takes longer than to compare them all.
_SENT = " || ".join(
    [*(f"float8send(coalesce({name}::float8, 'NaN'))" for name in NUMBERS)]
    + [f"float8send(({name} IS NULL)::int::float8)" for name in OPTIONAL]
)
_TEXTS = ", ".join(f"string_agg({name}::text, E'\\n')" for name in DOCUMENTS)
_ROWS = f"""
SELECT fairness_id, string_agg({_SENT}, ''::bytea), {_TEXTS}
  FROM (SELECT * FROM scheduling_tenantfairness WHERE fairness_id = ANY(%s) ORDER BY fairness_id, tenant_id) AS row
 GROUP BY fairness_id
"""  # noqa: S608  columns of our own model


@dataclass(frozen=True, eq=False)
class Columns:
    """The tenants' rows of one interval. `numbers`: (tenants, NUMBERS and whether each of OPTIONAL is null), NaN where
    there is none; `documents`: each of DOCUMENTS for each tenant."""

    numbers: FloatArray
    documents: Sequence[Sequence[Any]]

    def agree(self, other: Columns) -> bool:
        return self.documents == other.documents and np.array_equal(self.numbers, other.numbers, equal_nan=True)

    def rows(self) -> dict[int, dict[str, Any]]:
        """Tenant -> its row, with None where there is no number."""
        found = {}
        for row, *documents in zip(self.numbers.tolist(), *self.documents, strict=True):
            values = dict(zip(NUMBERS, row, strict=False)) | dict(zip(DOCUMENTS, documents, strict=True))
            absent = [name for name, is_null in zip(OPTIONAL, row[len(NUMBERS) :], strict=True) if is_null]
            found[int(values.pop("tenant_id"))] = values | dict.fromkeys(absent)
        return found


Tenants = Mapping[int, Columns]  # of a fairness row
NOBODY = Columns(np.zeros((0, len(NUMBERS) + len(OPTIONAL))), [[] for _ in DOCUMENTS])


def tenants_of(fairness_ids: Iterable[int]) -> Tenants:
    """Every tenant's row of some intervals, in the order of the tenants' ids. All tenants' scope."""
    tenant_require(None)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [list(fairness_ids)])
        found = cursor.fetchall()
    read = cache(json.loads)  # the same few texts again and again
    wide = len(NUMBERS) + len(OPTIONAL)
    return {
        fairness_id: Columns(
            np.frombuffer(sent, dtype=">f8").reshape(-1, wide), [list(map(read, text.split("\n"))) for text in texts]
        )
        for fairness_id, sent, *texts in found
    }


def _columns(right: FairnessValues) -> Columns:
    """What the rows should be."""
    numbers = [right.numbers[name] for name in NUMBERS]
    absent = [np.isnan(right.numbers[name]) for name in OPTIONAL]
    return Columns(np.array([*numbers, *absent], dtype=np.float64).T, [right.units[name] for name in DOCUMENTS])


def fairness_verify(
    interval: Interval, replayed: Replayed, stored: IntervalFairness | None, tenants: Columns
) -> list[Finding]:
    """Nothing is wrong with an interval whose fairness was not worked out yet."""
    if stored is None:
        return []
    where = f"fairness of {name_of(interval)}"
    values = fairness_values(interval, replayed.view, replayed.plan, replayed.policy)
    found, right = differences(where, _pairs(stored, values.interval)), _columns(values)
    # The cluster lists its tenants by their ids. Were that otherwise, the rows would be compared one by one.
    return found if tenants.agree(right) else found + _tenants_differ(where, tenants.rows(), right.rows())


def _tenants_differ(
    where: str, stored: dict[int, dict[str, Any]], right: Mapping[int, Mapping[str, Any]]
) -> list[Finding]:
    found: list[Finding] = []
    for tenant, wanted in right.items():
        about, kept = f"{where}, tenant {tenant}", stored.pop(tenant, None)
        pairs = {} if kept is None else {name: (kept[name], value) for name, value in wanted.items()}
        found += [Finding(about, "its row is missing")] if kept is None else differences(about, pairs)
    return found + [Finding(f"{where}, tenant {tenant}", "it has a row and took no part") for tenant in stored]


def _pairs(stored: IntervalFairness, right: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    return {name: (getattr(stored, name), right[name]) for name in WHOLE}
