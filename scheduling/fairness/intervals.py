"""The fairness of each closed interval, worked out once from its stored bytes and kept beside it.

It is never worked out in the transaction that decides: a market that is busy closes its intervals first. A second call,
or one at the same time, finds the work done. Intervals from before there were such figures are done in the same way,
oldest first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from django.core.cache import cache as shared
from django.db import IntegrityError, transaction
from django.db.models import F, Max, OuterRef, Subquery
from django.db.models.functions import Coalesce

from scheduling.core import records
from scheduling.core.metrics import fairness as figures
from scheduling.core.metrics.certificates import Certificate, Promising, alone_floors, alone_plans
from scheduling.core.types import BoolArray, Plan, Policy, View
from scheduling.fairness.days import UNITS, day_add
from scheduling.fairness.many_rows import rows_insert
from scheduling.market.reads import READING_ERRORS, contents_of
from scheduling.market.view import policy_built
from scheduling.models import Interval, IntervalFairness, Pool, TenantFairness
from tenants.scoping import scope_disabled

MOST_INTERVALS = 20  # most in one call: its process also moves the market
LOCK, PATIENCE = "fairness-catch-up", 120  # seconds for which one call keeps others from the same work


@dataclass(frozen=True)
class FairnessRows:
    interval: IntervalFairness
    tenants: tuple[TenantFairness, ...]


@dataclass(frozen=True)
class FairnessValues:
    """The rows of an interval as columns, as a verification compares a hundred rows for each interval. The tenants'
    columns have those that took part, in the order of the cluster: numbers (tenants,), NaN where there is none, and
    units by resource."""

    interval: Mapping[str, Any]
    numbers: Mapping[str, npt.NDArray[Any]]
    units: Mapping[str, Sequence[Mapping[str, float]]]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Return the tenants' rows one by one."""
        columns = {**{name: figures.figures_of(column) for name, column in self.numbers.items()}, **self.units}
        alike = {name: self.interval[name] for name in ("pool_id", "number")}
        return (dict(zip(columns, row, strict=True)) | alike for row in zip(*columns.values(), strict=True))


def fairness_in_turn() -> int:
    """Catch up, unless another process does so already: a second one would do the same work for nothing."""
    if not shared.add(LOCK, 1, timeout=PATIENCE):
        return 0
    try:
        return fairness_catch_up()
    finally:
        shared.delete(LOCK)


def fairness_catch_up(*, most: int = MOST_INTERVALS) -> int:
    """Work out what is not yet done, in every pool, in order. Returns how many intervals were done."""
    done = 0
    with scope_disabled("the fairness of an interval is that between all tenants"):
        for pool_id in _pools_behind():
            for interval in _open(pool_id, most - done):
                done += fairness_store(interval)
    return done


def _pools_behind() -> list[int]:
    """Return the pools with closed intervals whose fairness is not worked out, by one statement: of many pools few have
    closed an interval since the last call."""
    closed = Interval.objects.filter(pool=OuterRef("pk")).order_by("-number").values("number")[:1]
    worked_out = IntervalFairness.objects.filter(pool=OuterRef("pk")).order_by("-number").values("number")[:1]
    pools = Pool.objects.annotate(closed=Subquery(closed), worked_out=Coalesce(Subquery(worked_out), 0))
    return list(pools.filter(closed__gt=F("worked_out")).order_by("pk").values_list("pk", flat=True))


def fairness_store(interval: Interval) -> bool:
    """Work out the fairness of an interval and store it. Return False where it is there already, or cannot be worked
    out. Needs the scope of all tenants."""
    try:
        contents = contents_of(interval)
        view, plan = records.view_from(contents.view), records.plan_from(contents.plan)
        rows = fairness_rows(interval, view, plan)
    except READING_ERRORS:
        return False
    return _store(rows)


def fairness_rows(interval: Interval, view: View, plan: Plan) -> FairnessRows:
    """Return the rows of an interval, not saved."""
    values = fairness_values(interval, view, plan)
    return FairnessRows(IntervalFairness(**values.interval), tuple(TenantFairness(**row) for row in values.rows()))


def fairness_values(
    interval: Interval,
    view: View,
    plan: Plan,
    policy: Policy | None = None,
    *,
    with_refunds: bool = True,
    by_part: bool = True,
) -> FairnessValues:
    """Return what the rows of an interval must say. This depends on nothing but the arguments. `policy` is the one that
    the interval names, where it is built already. Versions before worked out their rows without refunds, and of an
    elastic pool with the whole job in each of its slots."""
    policy = policy or policy_built(json.loads(bytes(interval.policy)), view.cluster)
    with_floors = bool(getattr(policy, "floor", False))
    alone = _alone(policy, view, with_floors=with_floors) if plan.windows else {}
    values = figures.interval_fairness(
        view, plan, alone, with_floors=with_floors, with_refunds=with_refunds, by_part=by_part
    )
    ids = [int(tenant.name) for tenant in view.cluster.tenants]
    whole = _interval_row(interval, values, ids, view.cluster.resources) | {"with_floors": with_floors}
    took_part = np.flatnonzero(_took_part(values.columns))
    columns = {name: column.take(took_part, axis=0) for name, column in values.columns.items()}
    named = cache(lambda units: dict(zip(view.cluster.resources, units, strict=True)))  # most tenants have the same
    units = {name: list(map(named, map(tuple, columns.pop(name).tolist()))) for name in UNITS}
    columns["tenant_id"] = np.array(ids, np.int64)[took_part]
    return FairnessValues(whole, columns, units)


def _alone(policy: Policy, view: View, *, with_floors: bool) -> Mapping[int, Plan]:
    return alone_floors(cast(Promising, policy), view) if with_floors else alone_plans(policy, view)


def _store(rows: FairnessRows) -> bool:
    """Write both tables or neither. Two processes that write the same rows meet at the interval's key, and the second
    writes nothing."""
    try:
        with transaction.atomic():
            rows.interval.save(force_insert=True)
            for row in rows.tenants:
                row.fairness = rows.interval
            rows_insert(rows.tenants)
            day_add(rows.interval, rows.tenants)
    except IntegrityError:
        if not IntervalFairness.objects.filter(interval=rows.interval.interval_id).exists():
            raise
        return False
    return True


def _open(pool_id: int, most: int) -> list[Interval]:
    if most <= 0:
        return []
    last = IntervalFairness.objects.filter(pool=pool_id).aggregate(last=Max("number"))["last"] or 0
    rows = Interval.objects.filter(pool=pool_id, number__gt=last)
    return list(rows.order_by("number").prefetch_related("base")[:most])


def _interval_row(
    interval: Interval, fairness: figures.Fairness, ids: Sequence[int], resources: Sequence[str]
) -> dict[str, Any]:
    """Return the columns of the interval's row."""
    return {
        "interval_id": interval.pk,
        "pool_id": interval.pool_id,
        "number": interval.number,
        "decided_at": interval.decided_at,
        "revenue": fairness.revenue,
        "ratio_variance": fairness.ratio_variance,
        "jain_index": fairness.jain_index,
        "reward_dispersion": fairness.reward_dispersion,
        "worst_off": None if fairness.worst_off is None else ids[fairness.worst_off],
        "certificates": fairness.certificates,
        "broken_count": len(fairness.broken),
        "broken": [_broken(certificate, ids) for certificate in fairness.broken],
        "renters": fairness.renters,
        "top_prices": dict(zip(resources, fairness.top_prices, strict=False)),
        "unsold": dict(zip(resources, fairness.unsold, strict=True)),
        "waiting_for": dict(fairness.waiting_for),
    }


def _broken(certificate: Certificate, ids: Sequence[int]) -> dict[str, Any]:
    return {
        "job": certificate.job,
        "tenant": ids[certificate.tenant],
        "got": certificate.gain,
        "alone": certificate.alone,
        "broken": certificate.broken,
    }


def _took_part(columns: Mapping[str, npt.NDArray[Any]]) -> BoolArray:
    """Return for each tenant whether it had work, or cells that could be sold, or a part of the quotas while others
    gained and it did not."""
    some: BoolArray = ~np.isnan(columns["ratio"]) | columns["kept"].any(axis=1)
    for name in ("own_value", "rented_value", "paid", "received", "alone", "contributed", "waiting"):
        some |= columns[name] != 0
    return some
