"""What Optimus knows of each job: types, limits, what it held, and how fast it would run with other numbers.

The lists that are remembered of a job are passed from plan to view and on to the next plan without a copy. So they are
never changed: code that has something new to remember makes a new list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from scheduling.core.estimates import speeds
from scheduling.core.policies.optimus.placing import Needs, Row, needs_of
from scheduling.core.speed import elastic_rate
from scheduling.core.types import FloatArray, Job, UnitType

Pair = tuple[int, int]  # parameter servers, workers
MOST_MEASUREMENTS = 20  # the most measurements that are kept of a job


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a job that do not change while it waits. `own` are coefficients that its owner gave, in which case
    nothing is probed or fitted. The speed function then counts steps of the owner's `mode`, `length` mini-batches each,
    whose workers share a batch of M. Without them it counts single mini-batches."""

    least: Pair
    most: Pair
    own: tuple[float, ...]
    mode: str
    length: int
    batch: int


@lru_cache(maxsize=2**12)
def facts_of(job: Job, max_ps: int, max_workers: int) -> Facts:
    """Return the facts of a job where no job may have more than `max_ps` and `max_workers`."""
    ps = max_ps if job.max_ps is None else min(max_ps, job.max_ps)
    if job.all_reduce:
        ps = 0
    workers = max(job.min_workers, min(job.max_workers, max_workers))
    own = job.samples.speed
    mode = job.samples.mode if own else speeds.ASYNC
    length = job.chunks if mode == speeds.SYNC else 1
    batch = job.samples.batch_size or job.chunks
    return Facts((job.least_ps, job.min_workers), (ps, workers), own, mode, length, batch)


@dataclass(eq=False)
class ElasticJob:
    """A waiting job. `held` is where it was in the last slot, by server, and `numbers` what it had there; both are None
    if it did not run then. `probed` is the most that it was allowed when its speed function was fitted, None before."""

    job: Job
    facts: Facts
    remaining: float  # mini-batches
    types: Pair = (0, 0)  # worker type, parameter server type
    coefficients: Sequence[float] = ()  # of the speed function, none before it is fitted
    measurements: Sequence[Sequence[float]] = ()  # ps, workers, mini-batches a second
    held: Sequence[list[int]] | None = None
    restarts: int = 0
    probed: Sequence[int] | None = None
    numbers: Pair | None = None  # parameter servers, workers

    @classmethod
    def read(cls, job: Job, facts: Facts, remaining: float, row: Mapping[str, Any] | None) -> ElasticJob:
        """Return the job with what the last plan remembered of it."""
        if row is None:
            return cls(job, facts, remaining)
        worker, server = row["types"]
        held, numbers = row["held"], _counted(row["held"])
        past = row["speed"], row["seen"], held, row["restarts"], row.get("probed"), numbers
        return cls(job, facts, remaining, (worker, server), *past)

    def memory(self) -> dict[str, Any]:
        """Return what a plan remembers of the job, as plain JSON."""
        return {
            "types": list(self.types),
            "speed": list(self.coefficients),
            "seen": self.measurements if self.measurements else [],
            "held": self.held,
            "restarts": self.restarts,
            "probed": self.probed,
        }

    @property
    def units(self) -> tuple[UnitType, UnitType]:
        """Return the types that the job runs on: worker, parameter server."""
        return self.job.worker_types[self.types[0]], self.job.ps_types[self.types[1]]

    @property
    def needs(self) -> Needs:
        """Return what any numbers of its workers and parameter servers take."""
        return needs_of(*self.units)

    def choose(self, types: Pair) -> None:
        """Set the types that the job runs on. If they change, the measurements on the old ones are dropped."""
        if types != self.types:
            self.types, self.coefficients, self.measurements, self.held, self.numbers = types, (), (), None, None

    def put(self, rows: Sequence[Row] | None) -> bool:
        """Set where the job runs in the coming slot, None for nowhere. Return whether its places have changed."""
        before = self.held
        if rows is before:
            return False
        self.held = None if rows is None else sorted([list(row) for row in rows])
        self.numbers = _counted(self.held)
        return before is None or self.held is None or sorted(before) != self.held

    def note(self, numbers: Pair, speed: float) -> None:
        """Remember a measured speed. One that is known already changes nothing."""
        if self.facts.own:
            return
        point = [*numbers, speed]
        if point not in self.measurements:
            self.measurements = [*self.measurements, point][-MOST_MEASUREMENTS:]
            self.coefficients = ()


def _counted(rows: Sequence[Row] | None) -> Pair | None:
    """Return how many parameter servers and workers the rows have in all."""
    if rows is None:
        return None
    ps = workers = 0
    for _, some_workers, some_ps in rows:
        workers += some_workers
        ps += some_ps
    return ps, workers


def fit_speeds(jobs: Sequence[ElasticJob], most: Sequence[Pair]) -> None:
    """Fit the speed function of every job that has new measurements, or was not fitted yet. Probes are part of each
    fit."""
    stale = [(each, limit) for each, limit in zip(jobs, most, strict=True) if _is_stale(each, limit)]
    for each, limit in stale:
        each.coefficients, each.probed = each.facts.own, list(limit)
    stale = [(each, limit) for each, limit in stale if not each.facts.own]
    if not stale:
        return
    points = np.full((3, len(stale), len(speeds.PROBES) + MOST_MEASUREMENTS), np.nan)
    for row, (each, limit) in enumerate(stale):
        probed = [(ps, workers, _probe(each, ps, workers)) for ps, workers in speeds.probes(*limit)]
        measured = np.array([*probed, *each.measurements]).T
        points[:, row, : measured.shape[1]] = measured
    fitted = speeds.fit(points[0], points[1], points[2], speeds.ASYNC)
    for (each, _), coefficients in zip(stale, fitted.tolist(), strict=True):
        each.coefficients = coefficients


def _is_stale(each: ElasticJob, limit: Pair) -> bool:
    """Return whether the job's speed function must be fitted: it never was, or only when the job was allowed less. A
    job that its money limited then was not probed with as much as it may have now."""
    grown = each.probed is not None and (limit[0] > each.probed[0] or limit[1] > each.probed[1])
    return not each.coefficients or (grown and not each.facts.own)


def _probe(each: ElasticJob, ps: int, workers: int) -> float:
    """Return the mini-batches a second in a short run, spread over servers as most runs are."""
    return elastic_rate(each.job, workers, ps, each.types, 1.0, centralized=False)


def remaining_seconds(jobs: Sequence[ElasticJob], least: FloatArray, shape: Pair) -> FloatArray:
    """Return (jobs, ps, workers) the seconds to go with that many units more than the least: Q / f(p, w), or by the
    measured speed where there is one.

    Without the owner's coefficients f counts mini-batches of all workers. With them a step of a synchronous job is a
    mini-batch of every chunk, and the batch M is `batch_size`, or else the number of chunks.
    """
    alike = len(jobs) > 0 and bool((least == least[0]).all())  # one pair of grids for all
    lowest = least[:1] if alike else least
    ps = lowest[:, 0, None, None] + np.arange(shape[0])[None, :, None]
    workers = lowest[:, 1, None, None] + np.arange(shape[1])[None, None, :]
    seconds: FloatArray = np.empty((len(jobs), *shape))
    for mode in (speeds.ASYNC, speeds.SYNC):
        indexes = [index for index, each in enumerate(jobs) if each.facts.mode == mode]
        if indexes:
            some = [jobs[index] for index in indexes]
            theta = np.array([each.coefficients for each in some])[:, None, None, :]
            steps = np.array([each.remaining / each.facts.length for each in some])[:, None, None]
            batch = np.array([each.facts.batch for each in some])[:, None, None]
            grid = (ps, workers) if alike else (ps[indexes], workers[indexes])
            rates = speeds.steps_per_second(theta, *grid, mode, batch)
            np.divide(steps, rates, out=rates)
            if len(indexes) == len(jobs):
                seconds = rates
            else:
                seconds[indexes] = rates
    for index, (each, (least_ps, least_workers)) in enumerate(zip(jobs, least.tolist(), strict=True)):
        for (p, w), speed in speeds.measured(each.measurements).items():
            i, k = p - least_ps, w - least_workers
            if 0 <= i < shape[0] and 0 <= k < shape[1]:
                seconds[index, i, k] = each.remaining / speed
    return seconds
