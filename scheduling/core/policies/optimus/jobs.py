"""What Optimus knows of each job: types, limits, what it held, and how fast it would run with other numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduling.core.estimates import speeds
from scheduling.core.policies.optimus.placing import Row
from scheduling.core.speed import elastic_rate
from scheduling.core.types import FloatArray, Job, UnitType

Pair = tuple[int, int]  # parameter servers, workers
MOST_SEEN = 20  # measurements that are kept of a job


@dataclass(eq=False)
class Elastic:
    """A waiting job. `held` is where it was in the last slot, None if it did not run then. `probed`: the most that it
    was allowed when its speed function was fitted, None before that."""

    job: Job
    remaining: float  # mini-batches
    types: Pair = (0, 0)  # worker type, parameter server type
    coefficients: list[float] = field(default_factory=list)  # of the speed function, [] before it is fitted
    seen: list[tuple[int, int, float]] = field(default_factory=list)  # ps, workers, mini-batches a second
    held: list[Row] | None = None
    restarts: int = 0
    probed: Pair | None = None
    _counted: tuple[list[Row], Pair] | None = None  # a list of rows that was held, and the numbers in it

    @classmethod
    def read(cls, job: Job, remaining: float, row: Mapping[str, Any] | None) -> Elastic:
        """The job with what the last plan remembered of it."""
        if row is None:
            return cls(job, remaining)
        held = None if row["held"] is None else [tuple(part) for part in row["held"]]
        seen = [tuple(point) for point in row["seen"]]
        probed = None if row.get("probed") is None else tuple(row["probed"])
        return cls(job, remaining, tuple(row["types"]), list(row["speed"]), seen, held, row["restarts"], probed)

    def memory(self) -> dict[str, Any]:
        """What a plan remembers of it, as plain JSON."""
        return {
            "types": list(self.types),
            "speed": self.coefficients,
            "seen": [list(point) for point in self.seen],
            "held": None if self.held is None else [list(row) for row in self.held],
            "restarts": self.restarts,
            "probed": None if self.probed is None else list(self.probed),
        }

    @property
    def units(self) -> tuple[UnitType, UnitType]:
        """The types it runs on: worker, parameter server."""
        return self.job.worker_types[self.types[0]], self.job.ps_types[self.types[1]]

    @property
    def numbers(self) -> Pair | None:
        """(parameter servers, workers) of the last slot."""
        if self.held is None:
            return None
        if self._counted is None or self._counted[0] is not self.held:
            workers, ps = sum([row[1] for row in self.held]), sum([row[2] for row in self.held])
            self._counted = self.held, (ps, workers)
        return self._counted[1]

    @property
    def own_speed(self) -> bool:
        """Whether the owner brought the coefficients, so that nothing is probed or fitted."""
        return bool(self.job.samples.speed)

    @property
    def steps(self) -> str:
        """What its speed function counts: steps of a mode that the owner says, else mini-batches one by one."""
        return self.job.samples.mode if self.own_speed else speeds.ASYNC

    def choose(self, types: Pair) -> None:
        """Run on these types; what was measured on others says nothing of them."""
        if types != self.types:
            self.types, self.coefficients, self.seen, self.held = types, [], [], None

    def note(self, numbers: Pair, speed: float) -> None:
        """Remember a measured speed; one that is known changes nothing."""
        point = (*numbers, speed)
        if not self.own_speed and point not in self.seen:
            self.seen = [*self.seen, point][-MOST_SEEN:]
            self.coefficients = []


def fit_speeds(jobs: Sequence[Elastic], most: Sequence[Pair]) -> None:
    """Fit the speed function of every job that has new measurements, or none at all: then it is probed first."""
    stale = [(each, limit) for each, limit in zip(jobs, most, strict=True) if _is_stale(each, limit)]
    for each, limit in stale:
        each.coefficients, each.probed = list(each.job.samples.speed), limit
    stale = [(each, limit) for each, limit in stale if not each.own_speed]
    if not stale:
        return
    points = np.full((3, len(stale), len(speeds.PROBES) + MOST_SEEN), np.nan)
    for row, (each, limit) in enumerate(stale):
        probed = [(ps, workers, _probe(each, ps, workers)) for ps, workers in speeds.probes(*limit)]
        measured = np.array([*probed, *each.seen]).T
        points[:, row, : measured.shape[1]] = measured
    fitted = speeds.fit(points[0], points[1], points[2], speeds.ASYNC)
    for (each, _), coefficients in zip(stale, fitted.tolist(), strict=True):
        each.coefficients = coefficients


def _is_stale(each: Elastic, limit: Pair) -> bool:
    """Not fitted, or when it was allowed less: a job whose money limited it was not tried with as much as it may have
    now."""
    grown = each.probed is not None and (limit[0] > each.probed[0] or limit[1] > each.probed[1])
    return not each.coefficients or (grown and not each.own_speed)


def _probe(each: Elastic, ps: int, workers: int) -> float:
    """Mini-batches a second in a short run, spread over servers as most runs are."""
    return elastic_rate(each.job, workers, ps, each.types, 1.0, centralized=False)


def remaining_seconds(jobs: Sequence[Elastic], least: FloatArray, shape: Pair) -> FloatArray:
    """(jobs, ps, workers) seconds to go with so many units more than the least: Q / f(p, w), as measured where it was.

    Without the owner's coefficients f counts mini-batches of all workers. With them a step of a synchronous job is a
    mini-batch of every chunk, and the batch M is `batch_size`, or else the number of chunks.
    """
    ps = least[:, 0, None, None] + np.arange(shape[0])[None, :, None]
    workers = least[:, 1, None, None] + np.arange(shape[1])[None, None, :]
    seconds: FloatArray = np.empty((len(jobs), *shape))
    for mode in (speeds.ASYNC, speeds.SYNC):
        chosen = [index for index, each in enumerate(jobs) if each.steps == mode]
        if chosen:
            theta = np.array([jobs[index].coefficients for index in chosen])[:, None, None, :]
            steps, batch = np.array([_steps_and_batch(jobs[index]) for index in chosen]).T[:, :, None, None]
            found = speeds.steps_per_second(theta, ps[chosen], workers[chosen], mode, batch)
            np.divide(steps, found, out=found)
            if len(chosen) == len(jobs):
                seconds = found
            else:
                seconds[chosen] = found
    for index, each in enumerate(jobs):
        for (p, w), speed in speeds.measured(each.seen).items():
            i, k = p - int(least[index, 0]), w - int(least[index, 1])
            if 0 <= i < shape[0] and 0 <= k < shape[1]:
                seconds[index, i, k] = each.remaining / speed
    return seconds


def _steps_and_batch(each: Elastic) -> tuple[float, float]:
    """Steps to go, and the batch M that workers share in one."""
    chunks = each.job.chunks
    return each.remaining / (chunks if each.steps == speeds.SYNC else 1), each.job.samples.batch_size or chunks
