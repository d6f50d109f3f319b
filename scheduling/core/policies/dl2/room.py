"""Servers with room for single units, dealt out round robin as in `placement`, where `has` answers at once.

Every decision needs to know which jobs' units fit anywhere. So one server with room is remembered for each kind of
unit, and another one is searched for only when that server changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.occupancy import fits
from scheduling.core.placement import Vacancies
from scheduling.core.types import FloatArray, UnitType, View

WORKER, PS = 0, 1


class SlotRoom:
    """What is free in the coming slot. A kind of unit, which is a role and a demand, is named by its index."""

    def __init__(self, view: View, units: Sequence[tuple[int, UnitType]]) -> None:
        self.vacancies = Vacancies(view.cluster, view.occupied)
        self.hosts = (self.vacancies.hosts_workers, self.vacancies.hosts_ps)
        self.kinds: dict[tuple[int, tuple[float, ...]], int] = {}
        self.units: list[tuple[int, UnitType]] = []  # by kind
        for role, unit in units:
            if self.kinds.setdefault((role, unit.amounts), len(self.units)) == len(self.units):
                self.units.append((role, unit))
        demands = [unit.amounts for _, unit in self.units]
        self.demand: FloatArray = np.array(demands).reshape(len(demands), len(view.cluster.resources))
        self.marks = [self._marks(kind) for kind in range(len(self.units))]  # by kind, servers without room for it
        self.cursors = [0, 0]
        self.narrowed = False  # whether a kind lost its last server since this was reset
        self.spot: list[int | None] = [None] * len(self.units)  # by kind, a server with room for it
        self.kinds_at: dict[int, list[int]] = {}  # by server, the kinds whose spot it is
        for kind in range(len(self.units)):
            self._look(kind)

    def kind(self, role: int, unit: UnitType) -> int:
        """Return the index of the kind of a unit. It must be one of those given at the start."""
        return self.kinds[role, unit.amounts]

    def has(self, kind: int) -> bool:
        """Return whether any server has room for one unit of a kind."""
        return self.spot[kind] is not None

    def deal_one(self, kind: int) -> int | None:
        """Choose the server for one unit of a kind, and move the cursor past it. Return None if there is no room."""
        if self.spot[kind] is None:
            return None
        role, unit = self.units[kind]
        server = self.vacancies.deal_marked(unit.named, self.marks[kind], self.cursors[role])
        if server is not None:
            self.cursors[role] = server + 1
            if server in self.kinds_at:
                self._changed(server)
        return server

    def deal(self, kind: int, count: int) -> list[int] | None:
        """Choose the servers for `count` units of a kind, and move the cursor past the last one. If they do not fit,
        return None and change nothing."""
        if self.spot[kind] is None:
            return None if count else []
        role, unit = self.units[kind]
        dealt = self.vacancies.deal(unit, count, self.cursors[role], self.hosts[role])
        if dealt is None:
            self._look_again()
        for server in dealt or ():
            self.cursors[role] = server + 1
            if server in self.kinds_at:
                self._changed(server)
        return dealt

    def give_back(self, kind: int, servers: Sequence[int]) -> None:
        """Give back one unit of a kind on each of the servers."""
        self.vacancies.give_back(self.units[kind][1], servers)
        self._look_again()
        for other, spot in enumerate(self.spot if servers else ()):
            if spot is None:
                self._look(other)

    def _look_again(self) -> None:
        """Update the marks after units were given back, as servers may have room again."""
        for kind in range(len(self.units)):
            self._marks(kind)  # the same bytes, with those servers open again

    def _marks(self, kind: int) -> bytearray:
        role, unit = self.units[kind]
        return self.vacancies.marks(unit.named, self.hosts[role])

    def _changed(self, server: int) -> None:
        """Find other servers for the kinds that no longer fit on a server, after less is free there."""
        free = self.vacancies.free[server]
        for kind in self.kinds_at.pop(server):
            if fits(self.units[kind][1].named, free):
                self.kinds_at.setdefault(server, []).append(kind)
            else:
                self._look(kind)

    def _look(self, kind: int) -> None:
        role, unit = self.units[kind]
        before, spot = self.spot[kind], self.vacancies.last_with_room(unit.named, self.hosts[role])
        self.spot[kind] = spot
        if spot is not None:
            self.kinds_at.setdefault(spot, []).append(kind)
        elif before is not None:
            self.narrowed = True
