"""The rows that some intervals left behind, read for all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.db.models import Max

from scheduling.models import Award, Interval, IntervalFairness, JobFloor, TrainingJob
from scheduling.services.verification.fairness import NOBODY, Columns, Tenants, tenants_of


@dataclass(frozen=True)
class Rows:
    """By the interval's id. `attempts`: how often each job with an award was queued, as its own row says."""

    awards: Mapping[int, list[Award]]
    attempts: Mapping[int, int]
    floors: Mapping[int, list[JobFloor]]
    fairness: Mapping[int, IntervalFairness]
    tenants: Tenants
    fairness_until: int  # the number of the last interval whose fairness was worked out

    def tenants_in(self, interval: Interval) -> Columns:
        """The fairness of each tenant in the interval."""
        whole = self.fairness.get(interval.pk)
        return NOBODY if whole is None else self.tenants.get(whole.pk, NOBODY)


def rows_of(intervals: Sequence[Interval]) -> Rows:
    ids = [interval.pk for interval in intervals]
    awards = _by_interval(Award.objects.filter(interval__in=ids).order_by("pk"))
    jobs = {award.job_id for award in chain.from_iterable(awards.values())}
    # Not in the model's order, which would join the pools, and leave out a row that was moved to none of them.
    fairness = {row.interval_id: row for row in IntervalFairness.objects.filter(interval__in=ids).order_by("pk")}
    pools = IntervalFairness.objects.filter(pool__in={interval.pool_id for interval in intervals})
    return Rows(
        awards,
        dict(TrainingJob.objects.filter(pk__in=jobs).values_list("pk", "attempt")),
        _by_interval(JobFloor.objects.filter(interval__in=ids)),
        fairness,
        tenants_of(row.pk for row in fairness.values()),
        pools.aggregate(last=Max("number"))["last"] or 0,
    )


def _by_interval(rows: Any) -> Mapping[int, list[Any]]:
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.interval_id].append(row)
    return found
