"""Dominant-resource-fair shares of a cluster taken as one server. Dorm measures the distances of jobs from them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from scheduling.core.occupancy import ROUNDING
from scheduling.core.speed import parameter_servers
from scheduling.core.types import FloatArray, Job, UnitType


def dominant_resource(worker: UnitType, ps: UnitType, total: FloatArray) -> int:
    """Return the resource of which a worker with its part of a parameter server takes the largest share."""
    demand = worker.demand + ps.demand * worker.mbps / ps.mbps
    return int(np.argmax(np.divide(demand, total, out=np.zeros_like(demand), where=total > 0)))


def fair_shares(jobs: Sequence[tuple[Job, UnitType, UnitType]], total: FloatArray, free: FloatArray) -> list[float]:
    """Return each job's share of its dominant resource if the job with the smallest share always gets the next worker.

    A worker comes with the parameter servers that it needs. `free` (resources,) is dealt out as if it were on one
    server.
    """
    rest = free + ROUNDING
    counts = [(0, 0)] * len(jobs)
    shares = [0.0] * len(jobs)
    queue = [(0.0, job.arrival, job.number, k) for k, (job, _, _) in enumerate(jobs)]
    heapq.heapify(queue)
    while queue:
        _, arrival, number, k = heapq.heappop(queue)
        job, worker, ps = jobs[k]
        workers = max(counts[k][0] + 1, job.min_workers)
        servers = parameter_servers(workers, worker.mbps, ps.mbps)
        more = (workers - counts[k][0]) * worker.demand + (servers - counts[k][1]) * ps.demand
        fits = workers <= job.max_workers and (job.max_ps is None or servers <= job.max_ps)
        if not fits or (more > rest).any():
            continue
        rest = rest - more
        counts[k] = (workers, servers)
        resource = dominant_resource(worker, ps, total)
        used = workers * worker.demand[resource] + servers * ps.demand[resource]
        shares[k] = float(used / total[resource]) if total[resource] > 0 else 0.0
        heapq.heappush(queue, (shares[k], arrival, number, k))
    return shares
