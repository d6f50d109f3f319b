"""Price bounds proposed from past jobs (rules O6, O7; readings A6 to A8).

The paper's formula for the floor gives numbers like 1e-600, at which every price is 0 or not a number. So the
proposal uses the typical value of a unit instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.core.policies.oasis.work import chunk_slots, ps_counts, worker_slots
from scheduling.core.posted.bounds import PriceBounds, WorthBounds, proposed_floor
from scheduling.core.posted.menu import best_value
from scheduling.core.speed import most_servers
from scheduling.core.types import Cluster, FloatArray, Job


@dataclass(frozen=True)
class _Unit:
    """One kind of unit of one job: its demand, and what the job is worth per unit and slot at its shortest run."""

    demand: FloatArray  # (resources,)
    best: float  # value of the shortest run
    unit_slots: float  # units * slots that the whole job takes


def propose(cluster: Cluster, jobs: Iterable[Job], mode: str) -> tuple[PriceBounds, PriceBounds]:
    """Propose (worker bounds, parameter server bounds) from past jobs.

    The ceiling is the largest value of a shortest run per amount of the resource in one unit (O7). The floor is a
    quarter of the median value per amount and slot, over the jobs that are not hopeless.
    """
    workers, servers = [], []
    for job in jobs:
        for worker in job.worker_types:
            ps = job.ps_types[0]
            per_chunk = chunk_slots(job, worker, ps, cluster.slot_seconds, most_servers(job, cluster))
            work = worker_slots(job, per_chunk)
            shortest = math.ceil(work / job.max_workers)
            best = best_value(job, shortest, mode)
            if not (math.isfinite(best) and best > 0):
                continue
            ps_slots = work * ps_counts(job.max_workers, worker, ps)[-1] / job.max_workers
            workers.append(_Unit(worker.demand, best, float(work)))
            servers.append(_Unit(ps.demand, best, max(1.0, ps_slots)))
    return _proposal(workers, cluster.resources), _proposal(servers, cluster.resources)


def _proposal(units: Sequence[_Unit], resources: Sequence[str]) -> PriceBounds:
    demanding = [unit for unit in units if unit.demand.sum() > 0]
    if not demanding:
        return PriceBounds(1.0, {})
    floor = proposed_floor(
        [WorthBounds(unit.best, unit.best / (unit.unit_slots * unit.demand.sum())) for unit in demanding]
    )
    ceiling = {}
    for index, name in enumerate(resources):
        values = [unit.best / unit.demand[index] for unit in demanding if unit.demand[index] > 0]
        if values:
            ceiling[name] = max(floor, max(values))
    return PriceBounds(floor, ceiling)
