"""First fit, communication ignored: one server if any holds the gang, else as many as it takes."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.core.placement import Cursors, Placement, Vacancies
from scheduling.core.policies.gandiva_fair.turns import Turn
from scheduling.core.types import UnitType, View


class FirstFit:
    """One slot's room. It only shrinks, so a server that once had no room for something is not looked at again."""

    def __init__(self, view: View) -> None:
        self.room = Vacancies(view.cluster, view.occupied)
        self.hosts = (self.room.hosts_workers, self.room.hosts_ps)
        self.both = [all(pair) for pair in zip(*self.hosts, strict=True)]
        self.first: dict[tuple[int, tuple[float, ...]], int] = {}

    def place(self, turn: Turn, *, stay: bool) -> Placement | None:
        """Where the job was, if it shall stay; else the first server that holds the gang; else unit by unit."""
        job, gang, places = turn.job, turn.gang, turn.past.places
        units = (job.worker_types[gang.worker_type], job.ps_types[gang.ps_type])
        if stay and places and self._takes(units, places):
            return Placement(gang, places[0], places[1], Cursors())
        whole = tuple((gang.workers * units[0].demand + units[1].demand).tolist())
        server = self._next(whole, self.both, 2)
        if server is not None:
            self.room.take(units[0], [server] * gang.workers)
            self.room.take(units[1], [server])
            return Placement(gang, [server] * gang.workers, [server], Cursors())
        workers = self._deal(units[0], gang.workers, 0)
        servers = None if workers is None else self._deal(units[1], 1, 1)
        if workers is None or servers is None:
            self._undo(units[0], workers or ())
            return None
        return Placement(gang, workers, servers, Cursors())

    def _undo(self, unit: UnitType, servers: Sequence[int]) -> None:
        """Give back the units of a gang that found no room for the others."""
        if servers:
            self.room.give_back(unit, servers)
            self.first.clear()

    def _deal(self, unit: UnitType, count: int, kind: int) -> list[int] | None:
        demand = tuple(unit.demand.tolist())
        dealt: list[int] = []
        while len(dealt) < count:
            server = self._next(demand, self.hosts[kind], kind)
            if server is None:
                self._undo(unit, dealt)
                return None
            self.room.take(unit, [server])
            dealt.append(server)
        return dealt

    def _next(self, demand: tuple[float, ...], hosts: Sequence[bool], kind: int) -> int | None:
        """The first server that may host it and has room for it."""
        free, key = self.room.free, (kind, demand)
        for server in range(self.first.get(key, 0), len(free)):
            if hosts[server] and all(have >= need for have, need in zip(free[server], demand, strict=True) if need):
                self.first[key] = server
                return server
        self.first[key] = len(free)
        return None

    def _takes(self, units: Sequence[UnitType], places: Sequence[Sequence[int]]) -> bool:
        """Take the same servers as before if all of it still fits there."""
        for unit, servers in zip(units, places, strict=True):
            self.room.take(unit, servers)
        if all(min(self.room.free[server]) >= 0 for servers in places for server in servers):
            return True
        for unit, servers in zip(units, places, strict=True):
            self.room.give_back(unit, servers)
        return False
