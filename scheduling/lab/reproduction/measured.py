"""The speeds that DL2's authors measured, one function for each model, and asynchronous training by Optimus' Table 2.

A synchronous job with w workers and p parameter servers is so many times as fast as with one of each:

    f(p, w) / f(1, 1) = 1 / (a0 / w + a1 + a2 w / p + a3 w + a4 p)

The coefficients are our fit to 56 to 210 pairs a model, with a mean error of 3 to 11 %. Nobody measured more than 23
parameter servers or 12 workers: larger numbers are extrapolated. No number of units makes a job more than about
twice as fast, and many make it slower. The asynchronous function is the one that Optimus prints, of a ResNet-50.

A job with one of each is as fast as in the workload. The measurements had all units apart, and so the function does not
know where they are. `by_place` counts for w / p only what crosses the network, as the figures of training modes do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from scheduling.core.estimates.speeds import ASYNC, terms
from scheduling.core.scenario import Scenario
from scheduling.core.speed import elastic_rate
from scheduling.core.types import Job
from scheduling.lab.reproduction.training_modes import CROSSING, TABLE_2, Row, crossing, in_modes

FITS: Mapping[str, tuple[float, float, float, float, float]] = {  # a0 to a4 of each model
    "resnet-50": (0.130, 0.430, 0.433, 0.008, 0.0),
    "vgg-16": (0.262, 0.281, 0.391, 0.066, 0.0),
    "resnext-110": (0.194, 0.438, 0.310, 0.056, 0.003),
    "inception-bn": (0.537, 0.208, 0.225, 0.026, 0.004),
    "seq2seq": (0.421, 0.343, 0.154, 0.083, 0.0),
    "ctc": (0.492, 0.454, 0.031, 0.022, 0.0),
    "dssm": (0.760, 0.225, 0.0, 0.014, 0.0),
    "wlm": (0.180, 0.458, 0.303, 0.059, 0.0),
}


def as_measured(scenario: Scenario, settings: Mapping[str, Any], part: float) -> tuple[Scenario, Mapping[str, Any]]:
    """Let `part` of the jobs, which are drawn, train synchronously, the rest asynchronously; each brings its true
    function."""
    jobs = [
        replace(job, samples=replace(job.samples, speed=coefficients(job))) for job in in_modes(scenario.jobs, part)
    ]
    return replace(scenario, jobs=tuple(jobs)), settings


def uncapped(scenario: Scenario, settings: Mapping[str, Any], times: float) -> tuple[Scenario, Mapping[str, Any]]:
    """Let `times` times as many workers share a job: it has as many times more chunks, and its mini-batches are as much
    shorter."""
    jobs = [
        replace(
            job,
            chunks=round(job.chunks * times),
            max_workers=round(job.max_workers * times),
            gradient_mb=job.gradient_mb / times,
            worker_types=tuple(replace(unit, seconds=unit.seconds / times) for unit in job.worker_types),
            ps_types=tuple(replace(unit, seconds=unit.seconds / times) for unit in job.ps_types),
        )
        for job in scenario.jobs
    ]
    return replace(scenario, jobs=tuple(jobs)), settings


@lru_cache(maxsize=2**10)
def coefficients(job: Job) -> tuple[float, ...]:
    """Return the coefficients of the speed function in the job's mode, in seconds; a synchronous step is a mini-batch
    of every chunk."""
    seconds = 1.0 / elastic_rate(job, 1, 1, (0, 0), 1.0, centralized=False)  # seconds of a mini-batch, with one of each
    if job.samples.mode == ASYNC:
        table = TABLE_2[ASYNC]
        return tuple(part / sum(table) * seconds for part in table)
    shared, *rest = FITS[job.samples.model]
    return (shared * seconds, *(part * seconds * job.chunks for part in rest))


def minibatches_per_second(job: Job, rows: Sequence[Row]) -> float:
    """Return the speed of a gang, wherever its units are."""
    return _rate(job, rows, sum(row[1] for row in rows) / sum(row[2] for row in rows))


def by_place(job: Job, rows: Sequence[Row]) -> float:
    """Return the speed of a gang that depends on where its units are."""
    return _rate(job, rows, crossing(rows))


def _rate(job: Job, rows: Sequence[Row], crosses: float) -> float:
    """Return the mini-batches a second where `crosses` gradients cross the network at a parameter server."""
    workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
    mode = job.samples.mode
    parts = terms(ps, workers, mode, job.chunks)
    parts[CROSSING[mode]] = crosses
    seconds = float(parts @ np.array(coefficients(job)))
    return (workers if mode == ASYNC else job.chunks) / seconds
