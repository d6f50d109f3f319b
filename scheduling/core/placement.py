"""Round-robin placement of gangs: a cursor goes round the servers, and every unit goes to the next with room.

Parameter servers follow the workers under a cursor of their own, so that on a cluster split into machines for
workers and machines for parameter servers each kind goes round its own machines.

Units are dealt one by one over plain lists: the next server nearly always has room, so looking at one or two of
them costs less than one array operation over all. Servers found without room for a unit are marked, so that nobody
looks at them for the like of it again until something is given back there.
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
        """Those of the last plan's memory; the first server where nothing is remembered."""
        return cls(memory.get("workers_cursor", 0), memory.get("ps_cursor", 0))

    def memory(self) -> dict[str, int]:
        """What a plan remembers of them."""
        return {"workers_cursor": self.workers, "ps_cursor": self.ps}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a gang's units are: the server of each, in the order they were dealt in; and the cursors after them."""

    gang: GangUnits
    workers: Sequence[int]
    ps: Sequence[int]
    cursors: Cursors

    @property
    def kind(self) -> str:
        """Centralized is all on one server with one parameter server, or none; everything else is distributed."""
        server = self.ps[0] if self.ps else self.workers[0]
        centralized = len(self.ps) <= 1 and self.workers.count(server) == len(self.workers)
        return CENTRALIZED if centralized else DISTRIBUTED

    @property
    def spread(self) -> int:
        """Servers that hold some of its workers."""
        return len(set(self.workers))

    def rate(self, job: Job, slot_seconds: float) -> float:
        """Mini-batches that it trains in a slot."""
        centralized, spread = self.kind == CENTRALIZED, self.spread if job.all_reduce else None
        return self.gang.rate(job, slot_seconds, centralized=centralized, servers=spread)

    def allocation(self, start: int, end: int) -> tuple[Allocation, ...]:
        """The same units in every slot of [start, end), a row for each server."""
        return rows_of(self.counts(), start, end)

    def counts(self) -> list[tuple[int, int, int]]:
        """Each server that holds some of it, in order, with its workers and parameter servers."""
        workers, ps = _counts(self.workers), _counts(self.ps)
        return [(server, workers.get(server, 0), ps.get(server, 0)) for server in sorted(workers | ps)]


def rows_of(counts: Sequence[Sequence[int]], start: int, end: int) -> tuple[Allocation, ...]:
    """Rows of an allocation that is the same in every slot, from servers with their workers and parameter servers."""
    return tuple([Allocation(server, start, end, workers, ps) for server, workers, ps in counts])


def _counts(servers: Sequence[int]) -> dict[int, int]:
    """How often each is named."""
    counts = dict.fromkeys(servers, 1)
    if len(counts) == len(servers):  # most gangs go round the servers and come to none twice
        return counts
    counts = dict.fromkeys(counts, 0)
    for server in servers:
        counts[server] += 1
    return counts


@dataclass(slots=True)
class _Marks:
    """By server, 1 where one kind of unit is not hosted or had no room; and how many returns are counted in."""

    full: bytearray
    hosted: bytes  # as it was before anything was dealt
    returns: int = 0


class Vacancies:
    """What is free on each server in every one of the next `slots` slots; it shrinks as units are dealt."""

    def __init__(self, cluster: Cluster, occupied: FloatArray, slots: int = 1) -> None:
        free = cluster.capacity - occupied[:, :slots].max(axis=1, initial=0.0) + ROUNDING
        self.free: list[list[float]] = free.T.tolist()  # by server, then by resource
        self.hosts_workers: list[bool] = cluster.hosts_workers.tolist()
        self.hosts_ps: list[bool] = cluster.hosts_ps.tolist()
        self._hosted: dict[int, bytes] = {}  # by identity of the hosts, 1 where they host nothing
        self._marks: dict[tuple[object, ...], _Marks] = {}
        self._returned: list[int] = []  # servers on which something was given back, in order

    def place(self, job: Job, gang: GangUnits, cursors: Cursors) -> Placement | None:
        """Deal a whole gang out. If it does not fit nothing changes, and there is no placement."""
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
        """The servers of so many units: from the cursor on each goes to the next server that has room for it."""
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
        """The same for a single unit, which is what policies deal most."""
        return self.deal_marked(unit.named, self.marks(unit.named, hosts), cursor)

    def deal_marked(self, demand: Demand, full: bytearray, cursor: int) -> int | None:
        """The same for one who has the marks of such a unit, and asks for them again after units were given back."""
        server = self._next(demand, full, cursor)
        if server is not None:
            free = self.free[server]
            for resource, amount in demand:
                free[resource] -= amount
        return server

    def pack(self, unit: UnitType, count: int, hosts: Sequence[bool]) -> list[int] | None:
        """The servers of so many units: each goes to the first server that has room for it."""
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
        """The first server that may host a unit and has room for it."""
        return self._next(demand, self.marks(demand, hosts), 0)

    def last_with_room(self, demand: Demand, hosts: Sequence[bool]) -> int | None:
        """The last server that may host a unit and has room for it: of all that are dealt from the first on, the one
        that has room for longest."""
        full = self.marks(demand, hosts)
        while (server := full.rfind(0)) >= 0 and not fits(demand, self.free[server]):
            full[server] = 1
        return server if server >= 0 else None

    def _next(self, demand: Demand, full: bytearray, cursor: int) -> int | None:
        """The first server with room from the cursor on, all round; those without are marked."""
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
        """The marks for such a unit; where something has been given back since, a server is looked at again."""
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
        """By server, 1 where the hosts host nothing."""
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
        """Take one unit on each of the servers named, as a deal did elsewhere."""
        for server in servers:
            free = self.free[server]
            for resource, amount in unit.named:
                free[resource] -= amount


def _take_most(demand: Demand, free: list[float], most: int) -> int:
    """As many units as a server holds, at most so many, one after the other; how many they are."""
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
