"""Decide which gangs an empty cluster has room for, and so which jobs could ever run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np

from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Cursors, Vacancies
from scheduling.core.types import Cluster, Job


class EmptyCluster:
    """A cluster with nothing on it, and which gangs fit there. The answers are remembered: most jobs request the same
    gangs, and again in every slot in which they wait."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.answers = _answers(cluster)

    def holds(self, job: Job, gang: GangUnits) -> bool:
        """Return whether the gang could ever run."""
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
    """Return the dictionary of a cluster's answers, from gang and demand to whether it fits. They depend on the cluster
    alone, which never changes."""
    del cluster
    return {}


def possible_types(job: Job, cluster: Cluster) -> tuple[tuple[int, int], ...]:
    """Return the pairs (worker type, parameter-server type) on which the job could ever run its least gang, in their
    order. The answers are remembered: neither job nor cluster changes, and every slot in which the job waits needs
    them again."""
    return _possible_types(cluster)(job)


@lru_cache(maxsize=16)
def _possible_types(cluster: Cluster) -> Callable[[Job], tuple[tuple[int, int], ...]]:
    """Return a function from a job to its pairs, which remembers many jobs. Few clusters are remembered: they are
    large, and a verification reads another one for each interval."""

    @lru_cache(maxsize=2**12)
    def types_of(job: Job) -> tuple[tuple[int, int], ...]:
        empty = EmptyCluster(cluster)
        pairs = [(worker, ps) for worker in range(len(job.worker_types)) for ps in range(len(job.ps_types))]
        return tuple([types for types in pairs if empty.holds(job, GangUnits(job.min_workers, job.least_ps, *types))])

    return types_of


def fits_empty(job: Job, gang: GangUnits, cluster: Cluster) -> bool:
    """Return whether the gang could ever run: whether it fits on the cluster with nothing on it."""
    return EmptyCluster(cluster).holds(job, gang)
