"""The values that describe one event of Dorm: which jobs want units, which hold some, and what is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.occupancy import ROUNDING
from scheduling.core.types import Cluster, FloatArray, Job, UnitType


@dataclass(frozen=True)
class HeldUnits:
    """What a job holds: (server, workers, parameter servers) in order of the servers."""

    rows: tuple[tuple[int, int, int], ...]

    @property
    def workers(self) -> int:
        return sum(workers for _, workers, _ in self.rows)

    @property
    def ps(self) -> int:
        return sum(ps for _, _, ps in self.rows)

    def places(self) -> tuple[list[int], list[int]]:
        """Return the server of each worker, and of each parameter server."""
        workers = [server for server, count, _ in self.rows for _ in range(count)]
        return workers, [server for server, _, count in self.rows for _ in range(count)]


@dataclass(frozen=True, eq=False)
class JobWish:
    """A job that wants units, and the types it runs on."""

    job: Job
    worker_type: int
    ps_type: int

    @property
    def units(self) -> tuple[UnitType, UnitType]:
        return self.job.worker_types[self.worker_type], self.job.ps_types[self.ps_type]

    @property
    def per_worker(self) -> float:
        """Return the parameter servers for each worker, before rounding up."""
        worker, ps = self.units
        return worker.mbps / ps.mbps

    def allows(self, held: HeldUnits) -> bool:
        """Return whether the job may have that many units."""
        return held.workers <= self.job.max_workers and (self.job.max_ps is None or held.ps <= self.job.max_ps)


@dataclass(frozen=True, eq=False)
class SharingProblem:
    """One event: the jobs that want units (`wishes`), what jobs held `before`, where they still may hold as much, and
    what is free."""

    cluster: Cluster
    free: FloatArray  # (resources, servers)
    wishes: tuple[JobWish, ...]
    before: Mapping[int, HeldUnits]
    fairness: float
    adjustment: float

    def room_for_held(self) -> bool:
        """Return whether what was held before still fits, on servers that still host it."""
        used = np.zeros_like(self.free)
        hosts_workers, hosts_ps = self.cluster.hosts_workers, self.cluster.hosts_ps
        for wish in self.wishes:
            worker, ps = wish.units
            for server, workers, servers in self.before.get(wish.job.number, HeldUnits(())).rows:
                if (workers and not hosts_workers[server]) or (servers and not hosts_ps[server]):
                    return False
                used[:, server] += workers * worker.demand + servers * ps.demand
        return bool((used <= self.free + ROUNDING).all())

    @property
    def is_short(self) -> bool:
        """Return whether some of the cluster is missing: servers that host nothing, or units that others use."""
        return bool(len(self.cluster.closed)) or bool((self.free < self.cluster.capacity - ROUNDING).any())

    def room(self) -> list[list[float]]:
        """Return (kinds, resources) what is free on servers that host workers, and on those that host parameter
        servers, in plain numbers."""
        hosts = (self.cluster.hosts_workers, self.cluster.hosts_ps)
        return [self.free[:, servers].sum(axis=1).tolist() for servers in hosts]

    def has_more_than(self, before: Sequence[Sequence[float]] | None) -> bool:
        """Return whether there is more room than there was before. None: no room was missing then."""
        return before is not None and bool((np.array(self.room()) > np.array(before) + ROUNDING).any())
