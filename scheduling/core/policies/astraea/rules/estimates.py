"""What a unit-slot is worth to given jobs (L7). The default price base and price floor follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scheduling.core.policies.astraea.ways.candidates import candidates
from scheduling.core.types import Cluster, FloatArray, Job


def values_per_unit_slot(cluster: Cluster, jobs: Sequence[Job], *, exact: bool) -> list[FloatArray]:
    """Return, for each resource, the positive values per unit and slot: one for each job whose best types take it.

    A job counts as in its shortest schedule, alone and at once: value / (units * slots) for one unit of demand.
    """
    figures: list[list[float]] = [[] for _ in cluster.resources]
    for job in jobs:
        for resource, figure in _of_one_job(job, cluster, exact):
            if figure > 0:
                figures[resource].append(figure)
    return [np.array(values) for values in figures]


def _of_one_job(job: Job, cluster: Cluster, exact: bool) -> Iterator[tuple[int, float]]:
    """Yield (resource, value per unit and slot) in the shortest schedule: fewest workers, centralized, lowest types.

    Centralized is never slower than distributed, so the shortest schedule takes one parameter server.
    """
    ways = candidates(job, cluster, exact=exact)
    central = np.flatnonzero(ways.central)
    if not len(central):
        return
    shortest = central[ways.duration[central].argmin()]
    slots, workers = int(ways.duration[shortest]), int(ways.workers[shortest])
    value = float(job.value(slots))
    pair = ways.pairs[ways.pair[shortest]]
    for demand, units in ((pair.worker.demand, workers), (pair.ps.demand, 1)):
        for resource in np.flatnonzero(demand > 0):
            yield int(resource), value / (units * slots) / float(demand[resource])
