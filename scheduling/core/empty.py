"""Which gangs a cluster with nothing on it holds: who could ever run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np

from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Cursors, Vacancies
from scheduling.core.types import Cluster, Job


class EmptyCluster:
    """Asked which gangs it holds. Most jobs ask for the same, and again in every slot in which they wait."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.answers = _answers(cluster)

    def holds(self, job: Job, gang: GangUnits) -> bool:
        """Whether the gang could ever run."""
        worker, ps = job.worker_types[gang.worker_type], job.ps_types[gang.ps_type]
        key = (gang.workers, gang.ps, worker.named, ps.named)
        if key not in self.answers:
            placement = self._room.place(job, gang, Cursors())
            self.answers[key] = placement is not None
            if placement is not None:
                self._room.give_back(worker, placement.workers)
                self._room.give_back(ps, placement.ps)
        return self.answers[key]

    @cached_property
    def _room(self) -> Vacancies:
        return Vacancies(self.cluster, np.zeros((len(self.cluster.resources), 0, len(self.cluster.servers))))


@lru_cache(maxsize=16)
def _answers(cluster: Cluster) -> dict[tuple[object, ...], bool]:
    """By demand, what a cluster holds: it depends on the cluster alone, which never changes."""
    del cluster
    return {}


def possible_types(job: Job, cluster: Cluster) -> tuple[tuple[int, int], ...]:
    """(worker type, parameter server type) on which the job could ever run its least gang, in their order. Neither job
    nor cluster changes, and the same is asked in every slot in which the job waits."""
    return _possible_types(cluster)(job)


@lru_cache(maxsize=16)
def _possible_types(cluster: Cluster) -> Callable[[Job], tuple[tuple[int, int], ...]]:
    """Remembered for many jobs of few clusters: those are large, and a verification reads another for each interval."""

    @lru_cache(maxsize=2**12)
    def types_of(job: Job) -> tuple[tuple[int, int], ...]:
        empty = EmptyCluster(cluster)
        pairs = [(worker, ps) for worker in range(len(job.worker_types)) for ps in range(len(job.ps_types))]
        return tuple([types for types in pairs if empty.holds(job, GangUnits(job.min_workers, job.least_ps, *types))])

    return types_of


def fits_empty(job: Job, gang: GangUnits, cluster: Cluster) -> bool:
    """Whether the gang could ever run: whether a cluster with nothing on it holds it."""
    return EmptyCluster(cluster).holds(job, gang)
