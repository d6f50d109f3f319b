"""The rows that some intervals left behind, read for all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from scheduling.models import Award, Interval, IntervalFairness, JobFloor, TenantFairness, TrainingJob


@dataclass(frozen=True)
class Rows:
    """By the interval's id. `attempts`: how often each job with an award was queued, as its own row says."""

    awards: Mapping[int, list[Award]]
    attempts: Mapping[int, int]
    floors: Mapping[int, list[JobFloor]]
    fairness: Mapping[int, IntervalFairness]
    tenants: Mapping[int, list[TenantFairness]]

    @property
    def all_awards(self) -> list[Award]:
        return list(chain.from_iterable(self.awards.values()))


def rows_of(intervals: Sequence[Interval]) -> Rows:
    ids = [interval.pk for interval in intervals]
    awards = _by_interval(Award.objects.filter(interval__in=ids).order_by("pk"))
    jobs = {award.job_id for award in chain.from_iterable(awards.values())}
    fairness = {row.interval_id: row for row in IntervalFairness.objects.filter(interval__in=ids)}
    of_interval = {row.pk: row.interval_id for row in fairness.values()}
    tenants: defaultdict[int, list[TenantFairness]] = defaultdict(list)
    for row in TenantFairness.objects.filter(fairness__in=of_interval).order_by("pk"):
        tenants[of_interval[row.fairness_id]].append(row)
    return Rows(
        awards,
        dict(TrainingJob.objects.filter(pk__in=jobs).values_list("pk", "attempt")),
        _by_interval(JobFloor.objects.filter(interval__in=ids)),
        fairness,
        tenants,
    )


def _by_interval(rows: Any) -> Mapping[int, list[Any]]:
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.interval_id].append(row)
    return found
