"""Compute the seconds that a job still takes with given workers and parameter servers: by its owner's speed function,
or else at the speed that a probe would measure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.core.estimates.speeds import COEFFICIENTS, SYNC, steps_per_second
from scheduling.core.scenario.fields import BadScenario
from scheduling.core.speed import elastic_rate
from scheduling.core.types import Job


def seconds_left(job: Job, remaining: float, workers: int, ps: int, types: tuple[int, int] = (0, 0)) -> float:
    """Return the seconds that a job takes for its `remaining` mini-batches.

    A step of a synchronous job is a mini-batch of every chunk, a step of an asynchronous one a single mini-batch. The
    batch M is `batch_size`, or else the number of chunks.
    """
    samples = job.samples
    if not samples.speed:
        return remaining / elastic_rate(job, workers, ps, types, 1.0, centralized=False)
    steps = remaining / job.chunks if samples.mode == SYNC else remaining
    batch = samples.batch_size or job.chunks
    return steps / float(steps_per_second(np.array(samples.speed), ps, workers, samples.mode, batch))


def check_speeds(jobs: Iterable[Job]) -> None:
    """Check that owners' speed functions have as many coefficients as their mode needs, and that none is negative;
    raise `BadScenario` otherwise."""
    for job in jobs:
        speeds, needed = job.samples.speed, COEFFICIENTS[job.samples.mode]
        if len(speeds) not in (0, needed):
            message = f"a speed function of mode {job.samples.mode} has {needed} coefficients, not {len(speeds)}"
            raise BadScenario(f"jobs[{job.number}].speed", message)
        if any(coefficient < 0 for coefficient in speeds):
            raise BadScenario(f"jobs[{job.number}].speed", "must not have negative coefficients")
