"""Alerts that are sent once when a figure of fairness passes the limit that an operator has set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from django.db import transaction

from scheduling.fairness.read_days import fairness_overview, period_of_days
from scheduling.fairness.read_values import Overview
from scheduling.feed import EventKind, event, events_append
from scheduling.models import Event, FairnessAlert, Pool
from tenants import history
from tenants.access import Access, Refused
from tenants.common.zones import day_of
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED, reason_refusal

DAYS = 7  # a figure is about so many days
PASSED, OVER, CONCERN = EventKind.FAIRNESS_ALERT, EventKind.FAIRNESS_ALERT_OVER, EventKind.FAIRNESS_CONCERN
UNKNOWN_MEASURE = Refused("invalid_measure", "There is no such figure to be told about.")
NO_NUMBER = Refused("invalid_threshold", "A limit is a number, zero or more.")

Value = Callable[[Overview], float | None]
Concerned = Callable[[Overview], Iterable[int]]


@dataclass(frozen=True)
class AlertMeasure:
    """A figure that may have a limit. `is_most` says that the limit is the most that is well; otherwise it is the
    least. `concerns` returns the tenants that are notified as well. `by_use`: an elastic pool has it, too."""

    title: str
    is_most: bool
    usual: float  # the limit that the form proposes
    value: Value
    concerns: Concerned = lambda overview: ()
    by_use: bool = False

    def is_beyond(self, value: float | None, threshold: float) -> bool:
        if value is None:
            return False
        return value > threshold if self.is_most else value < threshold


def _worst(overview: Overview) -> Iterable[int]:
    return [] if overview.spread.worst_off is None else [overview.spread.worst_off]


def _lowest(overview: Overview) -> Iterable[int]:
    return [one.tenant_id for one in overview.with_ratio[-1:]]


def _broken(overview: Overview) -> Iterable[int]:
    return [one.tenant_id for one in overview.tenants if one.broken]


MEASURES: Mapping[str, AlertMeasure] = MappingProxyType(
    {
        "broken_certificates": AlertMeasure(
            "Broken certificates", True, 0.0, lambda overview: float(overview.broken), _broken
        ),
        "ratio_variance": AlertMeasure(
            "Variance of the ratio", True, 0.5, lambda overview: overview.spread.ratio_variance, by_use=True
        ),
        "lowest_ratio": AlertMeasure(
            "Lowest ratio", False, 0.5, lambda overview: overview.spread.lowest_ratio, _lowest, by_use=True
        ),
        "jain_index": AlertMeasure(
            "Jain's index of reward", False, 0.8, lambda overview: overview.spread.jain_index, _worst
        ),
        "reward_dispersion": AlertMeasure(
            "Dispersion of reward", True, 0.5, lambda overview: overview.spread.reward_dispersion, _worst
        ),
        "one_bidder": AlertMeasure(
            "Part with one bidder", True, 0.5, lambda overview: overview.health.one_bidder_part, by_use=True
        ),
        "price_jumps": AlertMeasure("Price jumps", True, 10.0, lambda overview: float(overview.health.price_jumps)),
        "idle_beside_waiting": AlertMeasure(
            "Part with unsold units beside waiting work",
            True,
            0.5,
            lambda overview: overview.health.idle_beside_waiting_part,
        ),
    }
)


@transaction.atomic
def alerts_set(
    *, pool: Pool, thresholds: Mapping[str, float | None], by: Access, reason: str, at: datetime
) -> Refused | None:
    """Set the limits of a pool, by measure. None removes a limit, and a measure that is not named stays as it is. A
    limit that does not change is not reported again."""
    if refusal := _refusal(thresholds, by, reason):
        return refusal
    rows = {row.measure: row for row in FairnessAlert.objects.select_for_update().filter(pool=pool)}
    before = {name: row.threshold for name, row in rows.items()}
    after = {name: limit for name, limit in (before | dict(thresholds)).items() if limit is not None}
    if before == after:
        return None
    for name in before.keys() - after.keys():
        rows[name].delete()
    for name, limit in after.items():
        if before.get(name) != limit:
            changed = {"threshold": limit, "passed_at": None}
            FairnessAlert.objects.update_or_create(pool=pool, measure=name, defaults=changed)
    subject = f"pool {pool.slug}"
    history.append(
        at=at, by=by, action="fairness_alerts_set", subject=subject, reason=reason, before=before, after=after
    )
    return None


def alerts_look(*, at: datetime) -> int:
    """Compare every pool's figures of the last days with its limits. Return the number of limits newly passed."""
    pools = Pool.objects.filter(pk__in=FairnessAlert.objects.values("pool")).order_by("pk")
    return sum(_look(pool, at) for pool in pools)


@transaction.atomic
def _look(pool: Pool, at: datetime) -> int:
    first, last = period_of_days(DAYS, today=day_of(at, UTC))
    overview = fairness_overview(pool, first=first, last=last)
    events: list[Event] = []
    passed = 0
    for row in FairnessAlert.objects.select_for_update().filter(pool=pool):
        measure = MEASURES.get(row.measure)
        if measure is None:
            continue
        row.value = measure.value(overview)
        beyond = measure.is_beyond(row.value, row.threshold)
        if beyond != (row.passed_at is not None):
            passed += beyond
            events += _events(pool, row, measure, measure.concerns(overview) if beyond else (), beyond, at)
            row.passed_at = at if beyond else None
        row.save()
    events_append(events)
    return passed


def _events(
    pool: Pool, row: FairnessAlert, measure: AlertMeasure, concerned: Iterable[int], beyond: bool, at: datetime
) -> Iterator[Event]:
    data = {
        "measure": row.measure,
        "title": measure.title,
        "value": row.value,
        "threshold": row.threshold,
        "days": DAYS,
    }
    about: dict[str, Any] = {"pool_id": pool.pk, "subject": f"pool {pool.slug}", "at": at, "data": data}
    yield event(PASSED if beyond else OVER, **about)
    yield from (event(CONCERN, tenant_id=tenant_id, **about) for tenant_id in concerned)


def _refusal(thresholds: Mapping[str, float | None], by: Access, reason: str) -> Refused | None:
    if not by.allows(Permission.POLICIES_CHANGE):
        return NOT_ALLOWED
    if refusal := reason_refusal(reason):
        return refusal
    if not thresholds.keys() <= MEASURES.keys():
        return UNKNOWN_MEASURE
    limits = [limit for limit in thresholds.values() if limit is not None]
    return NO_NUMBER if any(not math.isfinite(limit) or limit < 0 for limit in limits) else None
