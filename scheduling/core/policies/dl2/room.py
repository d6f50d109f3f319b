"""Servers with room for single units, dealt round robin as in `placement`, with the answer known before it is asked.

Every decision needs to know which jobs' units fit anywhere. Dealing a unit changes one server, so that is the only one
looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.occupancy import ROUNDING
from scheduling.core.types import UnitType, View

WORKER, PS = 0, 1


class Room:
    """What is free in the coming slot. A kind of unit (demand, and whether it is a worker) is known by its index."""

    def __init__(self, view: View, units: Sequence[tuple[int, UnitType]]) -> None:
        cluster = view.cluster
        free = cluster.capacity - view.occupied[:, :1].max(axis=1, initial=0.0) + ROUNDING
        self.free = np.ascontiguousarray(free.T)  # (servers, resources)
        self.kinds: dict[tuple[int, bytes], int] = {}
        demands: list[np.ndarray] = []
        for role, unit in units:
            key = (role, unit.demand.tobytes())
            if key not in self.kinds:
                self.kinds[key] = len(demands)
                demands.append(unit.demand)
        shape = (len(demands), len(cluster.resources))
        self.demand = np.array(demands).reshape(shape)  # (kinds, resources)
        self.needed = np.where(self.demand > 0, self.demand, -np.inf)  # what a unit does not take may be overbooked
        self.roles = [role for role, _ in self.kinds]
        hosts = np.array([cluster.hosts_workers, cluster.hosts_ps]).reshape(2, len(cluster.servers))
        self.hosts = hosts[self.roles] if self.roles else hosts[:0]  # (kinds, servers)
        self.fits = self.hosts & (self.free[None] >= self.needed[:, None]).all(axis=2)
        self.count = self.fits.sum(axis=1)  # (kinds,) servers with room
        self.cursors = [0, 0]
        self.narrowed = False  # whether a kind lost its last server since somebody looked

    def kind(self, role: int, unit: UnitType) -> int:
        """The index of a unit named at the beginning."""
        return self.kinds[role, unit.demand.tobytes()]

    def deal(self, kind: int, count: int = 1) -> list[int] | None:
        """The servers of so many units of a kind, or None and nothing changed. The cursor goes behind the last."""
        if not self.count[kind]:
            return None if count else []
        role = self.roles[kind]
        cursor = before = self.cursors[role]
        dealt: list[int] = []
        for _ in range(count):
            row = self.fits[kind]
            server = cursor + int(row[cursor:].argmax())
            if not row[server]:
                server = int(row.argmax())
                if not row[server]:
                    self.give_back(kind, dealt)
                    self.cursors[role] = before
                    return None
            self._take(kind, server)
            dealt.append(server)
            cursor = server + 1
            if cursor == len(row):
                cursor = 0
        self.cursors[role] = cursor
        return dealt

    def give_back(self, kind: int, servers: Sequence[int]) -> None:
        """Free one unit on each of the servers named."""
        for server in servers:
            self.free[server] += self.demand[kind]
            now = self.hosts[:, server] & (self.free[server] >= self.needed).all(axis=1)
            self.count += now.astype(self.count.dtype) - self.fits[:, server]
            self.fits[:, server] = now

    def _take(self, kind: int, server: int) -> None:
        free = self.free[server]
        free -= self.demand[kind]
        fitted = self.fits[:, server]
        lost = fitted & (free < self.needed).any(axis=1)
        if lost.any():
            fitted[lost] = False
            self.count[lost] -= 1
            if not self.count[lost].all():
                self.narrowed = True
