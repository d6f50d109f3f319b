"""Gangs: the workers and parameter servers that a job requests together, and how large a gang it requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scheduling.core.speed import minibatches_per_slot, parameter_servers
from scheduling.core.types import Job


@dataclass(frozen=True, slots=True)
class GangUnits:
    """The units that a job requests together: it gets all of them, or none."""

    workers: int
    ps: int
    worker_type: int = 0
    ps_type: int = 0

    def rate(self, job: Job, slot_seconds: float, *, centralized: bool = False, servers: int | None = None) -> float:
        """Return the mini-batches that the gang trains in a slot. Unless it is on one server (`centralized`), gradients
        cross the network. `servers` is the number of servers that hold its workers; None means one for each worker,
        the slowest case."""
        spread = self.workers if servers is None else servers
        each = minibatches_per_slot(
            job, self.worker_type, self.ps_type, slot_seconds, centralized=centralized, servers=spread
        )
        return each * self.workers


def halved(job: Job, workers: int) -> Iterator[int]:
    """Yield `workers`, then half as many, and so on, and last the job's least number."""
    while workers > job.min_workers:
        yield workers
        workers //= 2
    yield job.min_workers


def gangs(job: Job, workers: int) -> Iterator[GangUnits]:
    """Yield the gang of `workers` workers, then the smaller ones of `halved`, for every pair of unit types in order.

    Each has the parameter servers that its workers need. None has fewer workers or more parameter servers than
    the job allows.
    """
    for size in halved(job, workers):
        for worker_type, worker in enumerate(job.worker_types):
            for ps_type, server in enumerate(job.ps_types):
                ps = parameter_servers(size, worker.mbps, server.mbps)
                if job.max_ps is None or ps <= job.max_ps:
                    yield GangUnits(size, ps, worker_type, ps_type)


def even_gangs(job: Job, workers: int) -> Iterator[GangUnits]:
    """Yield gangs as `gangs` does, but with one parameter server for each worker, or as many as the job allows if these
    are fewer, and with none for a job without parameter servers."""
    for size in halved(job, workers):
        ps = 0 if job.all_reduce else size if job.max_ps is None else min(size, job.max_ps)
        for worker_type in range(len(job.worker_types)):
            for ps_type in range(len(job.ps_types)):
                yield GangUnits(size, ps, worker_type, ps_type)


def workers_asked(job: Job, workers: int | tuple[int, int], seed: int) -> int:
    """Return the number of workers that a job requests. If `workers` is a number, that is it; if it is a range, it is
    what the job's submitter asked for, or else the job's own draw from the range. Numbers and draws are limited to what
    the job can use.

    A draw depends on the seed and the job alone, not on when it is made.
    """
    if job.asked_workers is not None and not isinstance(workers, int):
        workers = job.asked_workers
    if not isinstance(workers, int):
        least, most = workers
        workers = _draw(seed, job.number, least, most)
    return max(job.min_workers, min(workers, job.max_workers))


@lru_cache(maxsize=2**16)
def _draw(seed: int, number: int, least: int, most: int) -> int:
    """Return a job's own draw from a range. It is remembered: every slot in which the job waits needs it again."""
    return int(np.random.default_rng((seed, number)).integers(least, most + 1))
