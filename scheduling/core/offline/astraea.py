"""Compute an upper bound of Astraea's problem: whole runs of one size, with the cluster as one machine.

On one machine nothing is lost between servers, so the bound is at least the offline optimum, and a performance ratio
against it is at most the true one. What a single server has to hold is still checked: all workers of a run on one
server, or all its parameter servers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.occupancy import room
from scheduling.core.offline.program import IntegerProgram
from scheduling.core.policies.batchsche.ways import ways
from scheduling.core.speed import parameter_servers
from scheduling.core.types import Cluster, FloatArray, Job

Key = tuple[int, int, int]  # job, number of the run's kind, start


@dataclass(frozen=True)
class _OfflineRun:
    slots: int
    takes: FloatArray  # (resources,) in each slot


def upper_bound(cluster: Cluster, jobs: Sequence[Job], slots: int) -> float:
    """Return the largest sum of values f(end - arrival) of runs that end by `slots`, or a number above it."""
    program: IntegerProgram[Key] = IntegerProgram()
    used: dict[tuple[int, int], list[tuple[Key, float]]] = defaultdict(list)
    for i, job in enumerate(jobs):
        mine: list[tuple[Key, float]] = []
        for number, run in enumerate(_runs(job, cluster)):
            for start in range(job.first_slot, slots - run.slots + 1):
                value = float(job.value(start + run.slots - job.arrival))
                if value <= 0:
                    break
                key = (i, number, start)
                program.column(key, value, 1.0)
                mine.append((key, 1.0))
                for resource in np.flatnonzero(run.takes).tolist():
                    for t in range(start, start + run.slots):
                        used[resource, t].append((key, float(run.takes[resource])))
        if mine:
            program.row(mine, 0, 1)
    for (resource, _), terms in used.items():
        program.row(terms, -math.inf, float(cluster.total[resource]))
    return program.bound()


def _runs(job: Job, cluster: Cluster) -> Iterator[_OfflineRun]:
    """Yield the runs that fit an empty cluster, with the fewest parameter servers that any placement needs. Workers
    without parameter servers lose nothing between servers here, however they are placed."""
    for way in ways(job, cluster.slot_seconds, 1):
        worker, ps = job.worker_types[way.types[0]], job.ps_types[way.types[1]]
        whole = np.where(cluster.hosts_workers, room(cluster.capacity, worker.demand), 0)
        largest = int(np.where(cluster.hosts_ps | job.all_reduce, whole, 0).max())
        if way.workers > whole.sum() or (way.central and way.workers > largest):
            continue
        beside = way.workers if way.central else min(way.workers - 1, largest)
        count = job.least_ps if way.central else parameter_servers(way.workers - beside, worker.mbps, ps.mbps)
        if not count or count <= int(np.where(cluster.hosts_ps, room(cluster.capacity, ps.demand), 0).max()):
            yield _OfflineRun(way.slots, way.workers * worker.demand + count * ps.demand)
