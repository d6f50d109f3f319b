"""Place gangs round robin: a cursor goes round the servers, and every unit goes to the next server with room.

Parameter servers are placed after the workers with a cursor of their own, so that on a cluster split into machines
for workers and machines for parameter servers each kind goes round its own machines.

Units are dealt one by one over plain lists: the next server nearly always has room, so checking one or two of them
takes less time than one array operation over all. Servers without room for a unit are marked, so that they are not
checked again for an equal unit until something is given back there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import not_

from scheduling.core.gangs import GangUnits
from scheduling.core.occupancy import ROUNDING, fits
from scheduling.core.types import CENTRALIZED, DISTRIBUTED, Allocation, Cluster, Demand, FloatArray, Job, UnitType


@dataclass(frozen=True, slots=True)
class Cursors:
    """The servers at which the next worker and the next parameter server are tried first."""

    workers: int = 0
    ps: int = 0

    @classmethod
    def read(cls, memory: Mapping[str, int]) -> Cursors:
        """Return the cursors in the memory of the last plan; a cursor that is not there begins at the first server."""
        return cls(memory.get("workers_cursor", 0), memory.get("ps_cursor", 0))

    def memory(self) -> dict[str, int]:
        """Return the cursors as a plan's memory holds them."""
        return {"workers_cursor": self.workers, "ps_cursor": self.ps}


@dataclass(frozen=True, slots=True)
class Placement:
    """The servers of a gang's units, in the order in which they were dealt, and the cursors after them."""

    gang: GangUnits
    workers: Sequence[int]
    ps: Sequence[int]
    cursors: Cursors

    @property
    def kind(self) -> str:
        """CENTRALIZED if all units are on one server, with at most one parameter server; else DISTRIBUTED."""
        server = self.ps[0] if self.ps else self.workers[0]
        centralized = len(self.ps) <= 1 and self.workers.count(server) == len(self.workers)
        return CENTRALIZED if centralized else DISTRIBUTED

    @property
    def spread(self) -> int:
        """The number of servers that hold some of the workers."""
        return len(set(self.workers))

    def rate(self, job: Job, slot_seconds: float) -> float:
        """Return the mini-batches that the gang trains in a slot on this placement."""
        centralized, spread = self.kind == CENTRALIZED, self.spread if job.all_reduce else None
        return self.gang.rate(job, slot_seconds, centralized=centralized, servers=spread)

    def allocation(self, start: int, end: int) -> tuple[Allocation, ...]:
        """Return the rows of an allocation with these units in every slot of [start, end), one for each server."""
        return rows_of(self.counts(), start, end)

    def counts(self) -> list[tuple[int, int, int]]:
        """Return (server, workers, parameter servers) for each server that holds some of the gang, in order."""
        workers, ps = _counts(self.workers), _counts(self.ps)
        return [(server, workers.get(server, 0), ps.get(server, 0)) for server in sorted(workers | ps)]


def share_a_resource(worker: UnitType, ps: UnitType) -> bool:
    """Return whether both take something of one resource. Where they do, the servers that the workers are on decide
    whether there is room for the parameter servers."""
    return not {resource for resource, _ in worker.named}.isdisjoint(resource for resource, _ in ps.named)


def rows_of(counts: Sequence[Sequence[int]], start: int, end: int) -> tuple[Allocation, ...]:
    """Return the rows of an allocation that is the same in every slot of [start, end). `counts` has (server, workers,
    parameter servers) for each server."""
    return tuple([Allocation(server, start, end, workers, ps) for server, workers, ps in counts])


def _counts(servers: Sequence[int]) -> dict[int, int]:
    """Return how often each server is named."""
    counts = dict.fromkeys(servers, 1)
    if len(counts) == len(servers):  # most gangs have no two units on one server
        return counts
    counts = dict.fromkeys(counts, 0)
    for server in servers:
        counts[server] += 1
    return counts


@dataclass(slots=True)
class _Marks:
    """The marks for one kind of unit: for each server 1 if it does not host the unit or had no room for it, else 0."""

    full: bytearray
    hosted: bytes  # the marks before anything was dealt
    returns: int = 0  # how many entries of `Vacancies._returned` are taken into account


class Vacancies:
    """The amounts that are free on each server in all of the next `slots` slots; they shrink as units are dealt."""

    def __init__(self, cluster: Cluster, occupied: FloatArray, slots: int = 1) -> None:
        free = cluster.capacity - occupied[:, :slots].max(axis=1, initial=0.0) + ROUNDING
        self.free: list[list[float]] = free.T.tolist()  # by server, then by resource
        self.hosts_workers: list[bool] = cluster.hosts_workers.tolist()
        self.hosts_ps: list[bool] = cluster.hosts_ps.tolist()
        self._hosted: dict[int, bytes] = {}  # by identity of a list of hosts: for each server, 1 if it is not a host
        self._marks: dict[tuple[object, ...], _Marks] = {}
        self._returned: list[int] = []  # servers on which something was given back, in order

    def place(self, job: Job, gang: GangUnits, cursors: Cursors) -> Placement | None:
        """Deal out a whole gang and return its placement. If it does not fit, change nothing and return None."""
        worker, ps = job.worker_types[gang.worker_type], job.ps_types[gang.ps_type]
        workers = self.deal(worker, gang.workers, cursors.workers, self.hosts_workers)
        if workers is None:
            return None
        servers = self.deal(ps, gang.ps, cursors.ps, self.hosts_ps)
        if servers is None:
            self.give_back(worker, workers)
            return None
        last = servers[-1] if servers else cursors.ps - 1
        behind = Cursors((workers[-1] + 1) % len(self.free), (last + 1) % len(self.free))
        return Placement(gang, workers, servers, behind)

    def deal(self, unit: UnitType, count: int, cursor: int, hosts: Sequence[bool]) -> list[int] | None:
        """Deal `count` units and return their servers: from the cursor on, each goes to the next server that has room.
        If they do not all fit, change nothing and return None."""
        demand = unit.named
        full = self.marks(demand, hosts)
        dealt: list[int] = []
        for _ in range(count):
            server = self._next(demand, full, cursor)
            if server is None:
                self.give_back(unit, dealt)
                return None
            free = self.free[server]
            for resource, amount in demand:
                free[resource] -= amount
            dealt.append(server)
            cursor = server + 1
        return dealt

    def deal_one(self, unit: UnitType, cursor: int, hosts: Sequence[bool]) -> int | None:
        """Deal one unit and return its server, or None if none has room. Most of what policies deal is single units."""
        return self.deal_marked(unit.named, self.marks(unit.named, hosts), cursor)

    def deal_marked(self, demand: Demand, full: bytearray, cursor: int) -> int | None:
        """Deal one unit as `deal_one` does, for callers that have the marks of such a unit. They have to call `marks`
        again after units were given back."""
        server = self._next(demand, full, cursor)
        if server is not None:
            free = self.free[server]
            for resource, amount in demand:
                free[resource] -= amount
        return server

    def pack(self, unit: UnitType, count: int, hosts: Sequence[bool]) -> list[int] | None:
        """Deal `count` units and return their servers: each goes to the first server that has room for it. If they do
        not all fit, change nothing and return None."""
        demand = unit.named
        full = self.marks(demand, hosts)
        dealt: list[int] = []
        while missing := count - len(dealt):
            server = self._next(demand, full, 0)
            if server is None:
                self.give_back(unit, dealt)
                return None
            held = _take_most(demand, self.free[server], missing)
            dealt += [server] * held
            if held < missing:
                full[server] = 1
        return dealt

    def first_with_room(self, demand: Demand, hosts: Sequence[bool]) -> int | None:
        """Return the first server that may host a unit and has room for it."""
        return self._next(demand, self.marks(demand, hosts), 0)

    def last_with_room(self, demand: Demand, hosts: Sequence[bool]) -> int | None:
        """Return the last server that may host a unit and has room for it. Where units are dealt from the first server
        on, this is the one that keeps its room longest."""
        full = self.marks(demand, hosts)
        while (server := full.rfind(0)) >= 0 and not fits(demand, self.free[server]):
            full[server] = 1
        return server if server >= 0 else None

    def _next(self, demand: Demand, full: bytearray, cursor: int) -> int | None:
        """Return the first server with room, from the cursor on and then from the first; mark those without room."""
        while True:
            server = full.find(0, cursor)
            if server < 0 and (server := full.find(0, 0, cursor)) < 0:
                return None
            free = self.free[server]
            for resource, amount in demand:
                if free[resource] < amount:
                    full[server] = 1
                    break
            else:
                return server
            cursor = server

    def marks(self, demand: Demand, hosts: Sequence[bool]) -> bytearray:
        """Return the marks for such a unit; servers where something has been given back since are not marked full."""
        key = (id(hosts), demand)
        marks = self._marks.get(key)
        if marks is None:
            hosted = self._not_hosted(hosts)
            marks = self._marks[key] = _Marks(bytearray(hosted), hosted, len(self._returned))
        elif marks.returns < len(self._returned):
            for server in self._returned[marks.returns :]:
                marks.full[server] = marks.hosted[server]
            marks.returns = len(self._returned)
        return marks.full

    def _not_hosted(self, hosts: Sequence[bool]) -> bytes:
        """Return for each server 1 if it is not one of the hosts, else 0."""
        if id(hosts) not in self._hosted:
            self._hosted[id(hosts)] = bytes(map(not_, hosts))
        return self._hosted[id(hosts)]

    def give_back(self, unit: UnitType, servers: Sequence[int]) -> None:
        """Free one unit on each of the servers named."""
        self._returned.extend(servers)
        for server in servers:
            free = self.free[server]
            for resource, amount in unit.named:
                free[resource] += amount

    def take(self, unit: UnitType, servers: Sequence[int]) -> None:
        """Take one unit on each of the servers named, as it was dealt on another copy of the vacancies."""
        for server in servers:
            free = self.free[server]
            for resource, amount in unit.named:
                free[resource] -= amount

    def take_again(self, units: Sequence[UnitType], places: Sequence[Sequence[int]]) -> bool:
        """Take the servers on which the workers and the parameter servers of a gang were before, if these servers still
        host them and have room for the whole gang. Return whether they do."""
        for servers, hosts in zip(places, (self.hosts_workers, self.hosts_ps), strict=True):
            if not all(hosts[server] for server in servers):
                return False
        for unit, servers in zip(units, places, strict=True):
            self.take(unit, servers)
        if all(min(self.free[server]) >= 0 for servers in places for server in servers):
            return True
        for unit, servers in zip(units, places, strict=True):
            self.give_back(unit, servers)
        return False


def _take_most(demand: Demand, free: list[float], most: int) -> int:
    """Take as many units as a server holds, at most `most`, from `free`, and return how many they are."""
    count = 0
    if len(demand) == 1:
        ((resource, amount),) = demand
        room = free[resource]
        while count < most and room >= amount:
            room -= amount
            count += 1
        free[resource] = room
        return count
    while count < most and fits(demand, free):
        for resource, amount in demand:
            free[resource] -= amount
        count += 1
    return count
