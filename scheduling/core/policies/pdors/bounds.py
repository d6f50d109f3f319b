"""Price bounds proposed from past jobs (rule P3, with the readings A6 to A10)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from scheduling.core.policies.pdors.work import speed_of
from scheduling.core.posted.bounds import PriceBounds, WorthBounds, proposed_floor
from scheduling.core.posted.menu import best_value
from scheduling.core.speed import most_servers
from scheduling.core.types import Cluster, Job


def propose(cluster: Cluster, jobs: Iterable[Job], mode: str) -> PriceBounds:
    """Propose one floor for all resources, and a ceiling for each.

    The ceiling is the largest value of a shortest run, at the internal speed and with all workers, per amount of the
    resource in a worker and a parameter server. The floor is a quarter of the median value per amount and slot at the
    external speed, over the jobs that are not hopeless.
    """
    worth: list[WorthBounds] = []
    ceiling: dict[str, float] = {}
    for job in jobs:
        for worker in job.worker_types:
            ps = job.ps_types[0]
            speed = speed_of(job, worker, ps, cluster.slot_seconds, most_servers(job, cluster))
            shortest = max(1, math.ceil(speed.samples * speed.internal / speed.most))
            best = best_value(job, shortest, mode)
            demand = worker.demand + ps.demand
            if not (math.isfinite(best) and best > 0 and demand.any()):
                continue
            work = max(1, math.ceil(speed.samples * speed.external))
            amount = float(worker.demand.sum())
            if speed.ps_ratio is not None:
                amount += float(ps.demand.sum() / float(speed.ps_ratio))
            worth.append(WorthBounds(best, best / (work * amount)))
            for resource in np.flatnonzero(demand > 0).tolist():
                name = cluster.resources[resource]
                ceiling[name] = max(ceiling.get(name, 0.0), best / float(demand[resource]))
    floor = proposed_floor(worth)
    return PriceBounds(floor, {name: max(floor, most) for name, most in ceiling.items()})
