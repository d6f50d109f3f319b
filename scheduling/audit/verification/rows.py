"""The rows that some intervals left behind, read for all of them at once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.db.models import Max

from scheduling.audit.verification.fairness import NOBODY, Columns, Tenants, tenants_of
from scheduling.audit.verification.ticks import TickPlace, Ticks
from scheduling.models import (
    Award,
    FeedSeal,
    InstantAnswer,
    Interval,
    IntervalFairness,
    JobFloor,
    Lane,
    PriceTick,
    TrainingJob,
)


@dataclass(frozen=True)
class Rows:
    """Rows by the interval's id. `attempts` says how often each job with an award or a floor was queued, as its row
    says."""

    awards: Mapping[int, list[Award]]
    attempts: Mapping[int, int]
    floors: Mapping[int, list[JobFloor]]
    fairness: Mapping[int, IntervalFairness]
    tenants: Tenants
    fairness_until: int  # the number of the last interval whose fairness was worked out
    answers: Mapping[int, str]  # number -> digest, of the answers that the intervals name as the last
    seals: Mapping[int, str]  # the same of the seals of the feed
    ticks: Ticks  # posted by the batch lane in the slots of these intervals

    def tenants_in(self, interval: Interval) -> Columns:
        """Return the fairness of each tenant in the interval."""
        whole = self.fairness.get(interval.pk)
        return NOBODY if whole is None else self.tenants.get(whole.pk, NOBODY)


def rows_of(intervals: Sequence[Interval]) -> Rows:
    ids = [interval.pk for interval in intervals]
    awards = _by_interval(Award.objects.filter(interval__in=ids).order_by("pk"))
    floors = _by_interval(JobFloor.objects.filter(interval__in=ids).order_by("pk"))
    jobs = {row.job_id for rows in (awards, floors) for row in chain.from_iterable(rows.values())}
    # Not in the model's order: that would join the pools, and leave out a row that was moved to a pool that does not
    # exist.
    fairness = {row.interval_id: row for row in IntervalFairness.objects.filter(interval__in=ids).order_by("pk")}
    pool_ids = {interval.pool_id for interval in intervals}
    pools = IntervalFairness.objects.filter(pool__in=pool_ids)
    answers, seals = _heads(intervals, "answers"), _heads(intervals, "feed")
    return Rows(
        awards,
        dict(TrainingJob.objects.filter(pk__in=jobs).values_list("pk", "attempt")),
        floors,
        fairness,
        tenants_of(row.pk for row in fairness.values()),
        pools.aggregate(last=Max("number"))["last"] or 0,
        dict(InstantAnswer.objects.filter(pool__in=pool_ids, number__in=answers).values_list("number", "digest")),
        dict(FeedSeal.objects.filter(number__in=seals).values_list("number", "digest")),
        _ticks(intervals),
    )


def _ticks(intervals: Sequence[Interval]) -> Ticks:
    """Return the posted prices in the slots of the intervals' windows; for an elastic pool, which has none, in the
    slots of the intervals themselves."""
    first = min((min(i.slot, i.window_start or i.slot) for i in intervals), default=0)
    end = max((max(i.slot + 1, i.window_end or 0) for i in intervals), default=0)
    rows = PriceTick.objects.filter(pool__in={interval.pool_id for interval in intervals}, lane=Lane.BATCH)
    near = rows.filter(slot__gte=first, slot__lt=end).order_by()
    return {
        TickPlace(name, slot): (price, offered, sold)
        for name, slot, price, offered, sold in near.values_list("resource__name", "slot", "price", "offered", "sold")
    }


def _heads(intervals: Sequence[Interval], chain: str) -> set[int]:
    """Return the numbers of the last links of a chain that these intervals saw, and none for bytes that cannot be
    read."""
    heads = set()
    for interval in intervals:
        try:
            heads.add(json.loads(bytes(interval.heads) or b"{}").get(chain, [0])[0])
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
    return {number for number in heads if isinstance(number, int)}


def _by_interval(rows: Any) -> Mapping[int, list[Any]]:
    rows_by_interval: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        rows_by_interval[row.interval_id].append(row)
    return rows_by_interval
