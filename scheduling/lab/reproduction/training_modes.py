"""Jobs that train synchronously or asynchronously, as fast as Optimus' speed functions say (its equations 3 and 4).

The one speed of all policies (0060) has no modes. Here the coefficients of a ResNet-50 have the ratios of the paper's
Table 2. Those of other models differ as their computing and their gradients do, and one worker computes as long for a
mini-batch as in the workload. A synchronous step is a mini-batch of every chunk (0115), so M is their number.

The terms w/p hold for units that are all apart. What crosses the network between those of a gang depends on where they
are, as the paper's proof of Theorem 1 counts it, on the side of the parameter servers: there the paper finds the
bottleneck, and its equations have no other. Bandwidths are all equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.estimates.speeds import ASYNC, SYNC, fit, probes, terms
from scheduling.core.scenario import Scenario
from scheduling.core.speed import exchange_seconds
from scheduling.core.types import Job
from scheduling.core.workload.model_jobs import MBPS, MODELS

MODES_SEED = 16
MOST_UNITS = 16  # a speed function is fitted for so many workers and parameter servers
TABLE_2 = {ASYNC: (2.83, 3.92, 0.00, 0.11), SYNC: (1.02, 2.78, 4.92, 0.00, 0.02)}  # of a ResNet-50
CROSSING = {ASYNC: 1, SYNC: 2}  # the index of the coefficient of w/p
RESNET = next(model for model in MODELS if model.name == "resnet-50")
RESNET_EXCHANGE = exchange_seconds(RESNET.gradient_mb, MBPS) / RESNET.minibatch_seconds  # in the workload

Row = tuple[int, int, int]  # server, workers, parameter servers


def coefficients(job: Job) -> list[float]:
    """Return (coefficients,) of the speed function in the job's mode, in seconds."""
    mode, table = job.samples.mode, TABLE_2[job.samples.mode]
    worker = job.worker_types[0]
    computing = worker.seconds + job.ps_types[0].seconds
    exchange = exchange_seconds(job.gradient_mb, worker.mbps) / RESNET_EXCHANGE
    # How long one worker computes for a mini-batch, or for a mini-batch of every chunk.
    one = table[0] if mode == ASYNC else (table[0] * job.chunks + table[1]) / job.chunks
    return [part / one * (exchange if k == CROSSING[mode] else computing) for k, part in enumerate(table)]


def crossing(rows: Sequence[Row]) -> float:
    """Return what the busiest parameter server exchanges with workers on other servers, in parts of the gradients: w/p
    where all workers are elsewhere, nothing where a gang is on one server."""
    workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
    return max((workers - here) / ps for _, here, beside in rows if beside)


def minibatches_per_second(job: Job, rows: Sequence[Row]) -> float:
    """Return the speed of a gang by where its units are."""
    workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
    mode = job.samples.mode
    parts = terms(ps, workers, mode, job.chunks)
    parts[CROSSING[mode]] = crossing(rows)
    seconds = float(parts @ np.array(coefficients(job)))
    return (workers if mode == ASYNC else job.chunks) / seconds


def synchronous(scenario: Scenario, settings: Mapping[str, Any], part: float) -> tuple[Scenario, Mapping[str, Any]]:
    """Let `part` of the jobs, which are drawn, train synchronously, the rest asynchronously. Each brings the speed
    function that is fitted to short runs with its units apart."""
    return replace(scenario, jobs=tuple(_with_speed(job) for job in in_modes(scenario.jobs, part))), settings


def in_modes(jobs: Sequence[Job], part: float) -> list[Job]:
    """Return the jobs with `part` of them, which are drawn, in synchronous mode and the rest in asynchronous mode."""
    dice = np.random.default_rng([MODES_SEED, len(jobs)])
    modes = [SYNC if dice.random() < part else ASYNC for _ in jobs]
    return [
        replace(job, samples=replace(job.samples, mode=mode, batch_size=None))
        for job, mode in zip(jobs, modes, strict=True)
    ]


def _with_speed(job: Job) -> Job:
    mode, pairs = job.samples.mode, probes(MOST_UNITS, MOST_UNITS)
    steps = 1 if mode == ASYNC else job.chunks  # mini-batches in a step
    rates = [minibatches_per_second(job, _apart(workers, ps)) / steps for ps, workers in pairs]
    ps, workers = np.array(pairs, np.float64).T[:, None]
    fitted = fit(ps, workers, np.array([rates]), mode, job.chunks)[0]
    return replace(job, samples=replace(job.samples, speed=tuple(fitted.tolist())))


def _apart(workers: int, ps: int) -> list[Row]:
    """Return rows with every unit on a server of its own."""
    return [(n, 1, 0) for n in range(workers)] + [(workers + n, 0, 1) for n in range(ps)]
