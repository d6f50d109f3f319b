"""Round-robin placement of gangs: a cursor goes round the servers, and every unit goes to the next with room.

Parameter servers follow the workers under a cursor of their own, so that on a cluster split into machines for
workers and machines for parameter servers each kind goes round its own machines.

Units are dealt one by one over plain lists: the next server nearly always has room, so looking at one or two of
them costs less than one array operation over all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.occupancy import ROUNDING
from scheduling.core.speed import TOLERANCE, elastic_rate, minibatches_per_slot, parameter_servers
from scheduling.core.types import (
    CENTRALIZED,
    DISTRIBUTED,
    Allocation,
    Booking,
    Cluster,
    FloatArray,
    Job,
    UnitType,
    View,
)


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


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a gang's units are: the server of each, in the order they were dealt in; and the cursors after them."""

    gang: Gang
    workers: Sequence[int]
    ps: Sequence[int]
    cursors: Cursors

    @property
    def kind(self) -> str:
        """Centralized is all on one server with one parameter server; everything else is distributed."""
        centralized = len(self.ps) == 1 and all(server == self.ps[0] for server in self.workers)
        return CENTRALIZED if centralized else DISTRIBUTED

    def allocation(self, start: int, end: int) -> tuple[Allocation, ...]:
        """The same units in every slot of [start, end), a row for each server."""
        counts: dict[int, list[int]] = {}
        for kind, servers in enumerate((self.workers, self.ps)):
            for server in servers:
                counts.setdefault(server, [0, 0])[kind] += 1
        return tuple(Allocation(server, start, end, *counts[server]) for server in sorted(counts))


class Vacancies:
    """What is free on each server in every one of the next `slots` slots; it shrinks as units are dealt."""

    def __init__(self, cluster: Cluster, occupied: FloatArray, slots: int = 1) -> None:
        free = cluster.capacity - occupied[:, :slots].max(axis=1, initial=0.0) + ROUNDING
        self.free: list[list[float]] = free.T.tolist()  # by server, then by resource
        self.hosts_workers: list[bool] = cluster.hosts_workers.tolist()
        self.hosts_ps: list[bool] = cluster.hosts_ps.tolist()
        self._named: dict[int, list[tuple[int, float]]] = {}

    def place(self, job: Job, gang: Gang, cursors: Cursors) -> Placement | None:
        """Deal a whole gang out. If it does not fit nothing changes, and there is no placement."""
        worker, ps = job.worker_types[gang.worker_type], job.ps_types[gang.ps_type]
        workers = self.deal(worker, gang.workers, cursors.workers, self.hosts_workers)
        if workers is None:
            return None
        servers = self.deal(ps, gang.ps, cursors.ps, self.hosts_ps)
        if servers is None:
            self.give_back(worker, workers)
            return None
        behind = Cursors((workers[-1] + 1) % len(self.free), (servers[-1] + 1) % len(self.free))
        return Placement(gang, workers, servers, behind)

    def deal(self, unit: UnitType, count: int, cursor: int, hosts: Sequence[bool]) -> list[int] | None:
        """The servers of so many units: from the cursor on each goes to the next server that has room for it."""
        demand = self._demand(unit)
        dealt: list[int] = []
        passed = 0  # servers without room since the last unit
        while len(dealt) < count:
            free = self.free[cursor]
            if hosts[cursor] and all(free[resource] >= amount for resource, amount in demand):
                for resource, amount in demand:
                    free[resource] -= amount
                dealt.append(cursor)
                passed = 0
            else:
                passed += 1
                if passed == len(self.free):
                    self.give_back(unit, dealt)
                    return None
            cursor = (cursor + 1) % len(self.free)
        return dealt

    def give_back(self, unit: UnitType, servers: Sequence[int]) -> None:
        """Free one unit on each of the servers named."""
        for server in servers:
            for resource, amount in self._demand(unit):
                self.free[server][resource] += amount

    def take(self, unit: UnitType, servers: Sequence[int]) -> None:
        """Take one unit on each of the servers named, as a deal did elsewhere."""
        for server in servers:
            for resource, amount in self._demand(unit):
                self.free[server][resource] -= amount

    def _demand(self, unit: UnitType) -> list[tuple[int, float]]:
        """The resources that a unit takes something of, and how much."""
        demand = self._named.get(id(unit))
        if demand is None:
            demand = [(resource, amount) for resource, amount in enumerate(unit.demand.tolist()) if amount > 0]
            self._named[id(unit)] = demand
        return demand


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


def workers_asked(job: Job, workers: int | tuple[int, int], seed: int) -> int:
    """The workers a job asks for: a number, or its own draw from a range, within what the job can use.

    A draw depends on the seed and the job alone, not on when it is made.
    """
    if not isinstance(workers, int):
        least, most = workers
        workers = int(np.random.default_rng((seed, job.number)).integers(least, most + 1))
    return max(job.min_workers, min(workers, job.max_workers))


def fits_empty(job: Job, gang: Gang, cluster: Cluster) -> bool:
    """Whether the gang could ever run: whether a cluster with nothing on it holds it."""
    nothing = np.zeros((len(cluster.resources), 0, len(cluster.servers)))
    return Vacancies(cluster, nothing).place(job, gang, Cursors()) is not None


def slot_booking(job: Job, remaining: float, placement: Placement, view: View) -> Booking:
    """The coming slot on a placement with any number of parameter servers. What the run is worth stands on the
    booking that completes the job."""
    gang, kind, end = placement.gang, placement.kind, view.slot + 1
    types, seconds = (gang.worker_type, gang.ps_type), view.cluster.slot_seconds
    rate = elastic_rate(job, gang.workers, gang.ps, types, seconds, centralized=kind == CENTRALIZED)
    completes = rate >= remaining - TOLERANCE * job.work
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placement.allocation(view.slot, end),
        work=remaining if completes else rate,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        placement=kind,
        value=float(job.value(end - job.arrival)) if completes else 0.0,
        ideal=float(job.value(end - job.first_slot)) if completes else 0.0,
    )


def even_gangs(job: Job, workers: int) -> Iterator[Gang]:
    """Like `gangs`, with a parameter server for each worker, or as many as the job allows if these are fewer."""
    while workers >= job.min_workers:
        ps = workers if job.max_ps is None else min(workers, job.max_ps)
        for worker_type in range(len(job.worker_types)):
            for ps_type in range(len(job.ps_types)):
                yield Gang(workers, ps, worker_type, ps_type)
        workers //= 2


class EmptyCluster:
    """Asked which gangs it holds, and remembers by demand: most jobs ask for the same."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.known: dict[tuple[object, ...], bool] = {}

    def holds(self, job: Job, gang: Gang) -> bool:
        """Whether the gang could ever run."""
        worker, ps = job.worker_types[gang.worker_type].demand, job.ps_types[gang.ps_type].demand
        key = (gang.workers, gang.ps, worker.tobytes(), ps.tobytes())
        if key not in self.known:
            self.known[key] = fits_empty(job, gang, self.cluster)
        return self.known[key]
