"""A tenant's home: the private calendar of its own cells, in the world in which it is alone (G1, G2).

The calendar follows from the floors given so far. Whether a job really ran at home, rented or expired makes no
difference to it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

import numpy as np

from scheduling.core.occupancy import ROUNDING
from scheduling.core.policies.astraea.places.minima import WindowMinima, WindowMinimum
from scheduling.core.policies.astraea.places.room import PairRoom, Room
from scheduling.core.policies.astraea.ways.candidates import IntArray, Pair, PairCandidates
from scheduling.core.policies.astraea.window.round import cells_of
from scheduling.core.types import Allocation, Cluster, FloatArray, Floor, Job


class HomeCalendar:
    """One tenant's private calendar, (resources, slots, own servers), from slot `origin` on. After its last slot all
    is free."""

    def __init__(self, cluster: Cluster, tenant: int, origin: int) -> None:
        cells = cells_of(cluster, tenant)
        self.origin, self.reach = origin, 0  # `reach` slots from the origin on may hold a reservation
        self.servers: IntArray = np.flatnonzero(cells.any(axis=0))
        self._local = {int(server): index for index, server in enumerate(self.servers)}
        self._cells = cells[:, self.servers]
        self._hosts = cluster.hosts_workers[self.servers], cluster.hosts_ps[self.servers]
        self._starts, self._ends = [0], {0}
        self._starts_array: IntArray | None = None
        self._figures: dict[tuple[bytes, bytes], HomeFigures] = {}
        self.room = self._empty(64)

    def reserve(self, floor: Floor, job: Job) -> None:
        """Enter a floor. One that ended before the origin changes nothing."""
        begin, end = max(floor.start - self.origin, 0), floor.end - self.origin
        if end <= 0 or not floor.allocation:
            return
        self._grow(end + 1)
        self.reach = max(self.reach, end)
        if end not in self._ends:
            self._ends.add(end)
            insort(self._starts, end)
            self._starts_array = None
        rows = [Allocation(self._local[row.server], begin, end, row.workers, row.ps) for row in floor.allocation]
        self.room.take(rows, job.worker_types[floor.worker_type].demand, job.ps_types[floor.ps_type].demand)
        for figures in self._figures.values():
            figures.update(begin, end)

    def holds(self, floor: Floor, job: Job) -> bool:
        """Enter a floor, and return whether the cells as they are now have room for it beside all entered before."""
        hosts_workers, hosts_ps = self._hosts
        for row in floor.allocation:
            server = self._local.get(row.server)
            if server is None or (row.workers and not hosts_workers[server]) or (row.ps and not hosts_ps[server]):
                return False
        self.reserve(floor, job)
        resources = (job.worker_types[floor.worker_type].demand > 0) | (job.ps_types[floor.ps_type].demand > 0)
        free = self.room.free[resources, floor.start - self.origin : floor.end - self.origin]
        return all((free[..., self._local[row.server]] >= -ROUNDING).all() for row in floor.allocation)

    def starts(self) -> IntArray:
        """Return the slots to try as a start: the earliest that fits is the origin or the end of a reservation."""
        if self._starts_array is None:
            self._starts_array = np.array(self._starts, dtype=np.int64)
        return self._starts_array

    @property
    def slots(self) -> int:
        """Return the calendar's length. The last slot is free, and so are all after it."""
        return self.room.free.shape[1]

    def cut(self, levels: IntArray, durations: IntArray) -> tuple[IntArray, IntArray]:
        """Return durations, and their levels, cut to the calendar's length. A longer run reaches into the time when all
        is free."""
        return np.minimum(levels, self.slots.bit_length() - 1), np.minimum(durations, self.slots)

    def figures(self, pair: Pair) -> HomeFigures:
        """Return the window minima of the figures per slot, for one pair of types."""
        home_figures = self._figures.get(pair.key)
        if home_figures is None:
            home_figures = self._figures[pair.key] = HomeFigures(self.room.of(pair))
        return home_figures

    def used(self, slots: int) -> FloatArray:
        """Return (own servers,) the units reserved in the first `slots` slots."""
        free = self.room.free[:, :slots]
        used: FloatArray = (self._cells[:, None, :] - free).sum(axis=(0, 1))
        return used

    def global_rows(self, rows: Iterable[Allocation]) -> tuple[Allocation, ...]:
        """Return the rows with the slots and server indices of the cluster."""
        return tuple(
            Allocation(
                int(self.servers[row.server]), self.origin + row.start, self.origin + row.end, row.workers, row.ps
            )
            for row in rows
        )

    def _grow(self, slots: int) -> None:
        """Extend the calendar to at least `slots` slots. The last is always free, and stands for all later ones."""
        held = self.room.free
        if slots > held.shape[1]:
            self.room = self._empty(max(slots, 2 * held.shape[1]), held)
            self._figures.clear()

    def _empty(self, slots: int, held: FloatArray | None = None) -> Room:
        free = np.repeat(self._cells[:, None, :], slots, axis=1)
        if held is not None:
            free[:, : held.shape[1]] = held
        return Room(free, *self._hosts)


class HomeFigures:
    """Upper bounds of what fits at home over windows, from a PairRoom's figures per slot. Its last slot is free."""

    def __init__(self, space: PairRoom) -> None:
        self.space = space
        self._minima = WindowMinima(space.figures, space.figures[:, -1])
        self.beside, self.together, self.most_ps = self._minima.each

    def workers(self, central: bool) -> WindowMinimum:
        """Return the most workers of gangs on one server, or of those on several."""
        return self.beside if central else self.together

    def fitting(self, kind: PairCandidates) -> int:
        """Return how many candidates of a kind ever fit. They are the first ones: workers and parameter servers rise
        from each to the next."""
        by_workers = kind.workers.searchsorted(self.workers(kind.central).most[0], "right")
        return int(min(by_workers, kind.least_ps.searchsorted(self.most_ps.most[0], "right")))

    def update(self, begin: int, end: int) -> None:
        """Update the minima after units were taken in the slots [begin, end)."""
        self._minima.update(self.space.figures, begin, end)
