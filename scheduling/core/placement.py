"""Round-robin placement of gangs: a cursor goes round the servers, and every unit goes to the next with room.

Parameter servers follow the workers under a cursor of their own, so that on a cluster split into machines for
workers and machines for parameter servers each kind goes round its own machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.speed import minibatches_per_slot, parameter_servers
from scheduling.core.types import (
    CENTRALIZED,
    DISTRIBUTED,
    Allocation,
    Cluster,
    FloatArray,
    Job,
)

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gang:
    """The units a job asks for together: all of them, or none."""

    workers: int
    ps: int
    worker_type: int = 0
    ps_type: int = 0

    def rate(self, job: Job, slot_seconds: float, *, centralized: bool = False) -> float:
        """Mini-batches the gang trains in a slot; when not on one server, gradients cross the network."""
        each = minibatches_per_slot(job, self.worker_type, self.ps_type, slot_seconds, centralized=centralized)
        return each * self.workers


@dataclass(frozen=True, slots=True)
class Cursors:
    """The servers at which the next worker and the next parameter server are tried first."""

    workers: int = 0
    ps: int = 0

    @classmethod
    def read(cls, memory: Mapping[str, int]) -> Cursors:
        """Those of the last plan's memory; the first server where nothing is remembered."""
        return cls(memory.get("workers_cursor", 0), memory.get("ps_cursor", 0))

    def memory(self) -> dict[str, int]:
        """What a plan remembers of them."""
        return {"workers_cursor": self.workers, "ps_cursor": self.ps}


@dataclass(frozen=True, eq=False, slots=True)
class Placement:
    """Where a gang's units are: counts on the servers that hold any, and the cursors after them."""

    gang: Gang
    servers: Counts  # (k,) ascending
    workers: Counts  # (k,)
    ps: Counts  # (k,)
    cursors: Cursors

    @property
    def kind(self) -> str:
        """Centralized is all on one server with one parameter server; everything else is distributed."""
        return CENTRALIZED if len(self.servers) == 1 and self.gang.ps == 1 else DISTRIBUTED

    def rate(self, job: Job, slot_seconds: float) -> float:
        """Mini-batches the gang trains in a slot where it is."""
        return self.gang.rate(job, slot_seconds, centralized=self.kind == CENTRALIZED)

    def demand(self, job: Job) -> FloatArray:
        """(resources, k) amounts taken on each of the servers."""
        worker = job.worker_types[self.gang.worker_type].demand
        ps = job.ps_types[self.gang.ps_type].demand
        taken: FloatArray = worker[:, None] * self.workers + ps[:, None] * self.ps
        return taken

    def allocation(self, start: int, end: int) -> tuple[Allocation, ...]:
        """The same units in every slot of [start, end)."""
        columns = zip(self.servers.tolist(), self.workers.tolist(), self.ps.tolist(), strict=True)
        return tuple(Allocation(server, start, end, workers, ps) for server, workers, ps in columns)


def gangs(job: Job, workers: int) -> Iterator[Gang]:
    """The gang of so many workers, then of half as many, and so on, for every pair of unit types in their order.

    Each has the parameter servers that its workers need. None has fewer workers or more parameter servers than
    the job allows.
    """
    while workers >= job.min_workers:
        for worker_type, worker in enumerate(job.worker_types):
            for ps_type, server in enumerate(job.ps_types):
                ps = parameter_servers(workers, worker.mbps, server.mbps)
                if job.max_ps is None or ps <= job.max_ps:
                    yield Gang(workers, ps, worker_type, ps_type)
        workers //= 2


def place(job: Job, gang: Gang, cluster: Cluster, free: FloatArray, cursors: Cursors) -> Placement | None:
    """The gang dealt out on the free amounts (resources, servers); None if it does not fit as a whole."""
    worker = job.worker_types[gang.worker_type].demand
    ps = job.ps_types[gang.ps_type].demand
    workers = deal(np.where(cluster.hosts_workers, room(free, worker), 0), gang.workers, cursors.workers)
    if workers is None:
        return None
    if worker @ ps > 0:  # they draw on the same resource
        free = free - worker[:, None] * np.bincount(workers, minlength=free.shape[1])
    servers = deal(np.where(cluster.hosts_ps, room(free, ps), 0), gang.ps, cursors.ps)
    if servers is None:
        return None
    return _placement(gang, workers, servers, free.shape[1])


def deal(room: FloatArray, count: int, cursor: int) -> Counts | None:
    """The servers of `count` units in the order they are dealt in, or None if there is not room for so many.

    From the cursor on each unit goes to the next server, cyclically, that has room for one more; `room` (servers,)
    is for how many there is at the start.
    """
    lap = np.flatnonzero(room > 0)
    first = int(np.searchsorted(lap, cursor))
    dealt: Counts = np.concatenate([lap[first:], lap[:first]])[:count]
    if len(dealt) == count:  # one lap is enough: the usual case
        return dealt
    if np.minimum(room, count).sum() < count:
        return None
    laps = [dealt]
    while (missing := count - sum(map(len, laps))) > 0:
        laps.append(laps[-1][room[laps[-1]] > len(laps)][:missing])
    return np.concatenate(laps)


def _placement(gang: Gang, workers: Counts, ps: Counts, servers: int) -> Placement:
    """Both deals as counts per server. A cursor stops behind the last server that got a unit."""
    cursors = Cursors((int(workers[-1]) + 1) % servers, (int(ps[-1]) + 1) % servers)
    worker_counts, ps_counts = np.bincount(workers, minlength=servers), np.bincount(ps, minlength=servers)
    used = np.flatnonzero(worker_counts + ps_counts)
    return Placement(gang, used, worker_counts[used], ps_counts[used], cursors)
