"""The room in a range of slots: free amounts by server, and how many units of a job's types fit in them."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.policies.astraea.ways.candidates import MOST_UNITS, IntArray, Pair
from scheduling.core.types import Allocation, BoolArray, FloatArray

Units = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Windows:
    """What fits in each window of one duration, (starts,): bounds like those of PairRoom, but over whole windows."""

    version: int
    beside: Units
    together: npt.NDArray[np.int32]
    most_ps: Units


class PairRoom:
    """How many whole workers and parameter servers of one pair of types fit (slots, servers), with figures per slot.

    No placement in a slot can exceed the figures: `beside` workers on one server with room for a parameter server
    (centralized), `together` workers on all servers, `most_ps` parameter servers on one server.
    """

    def __init__(self, pair: Pair, free: FloatArray, hosts_workers: BoolArray, hosts_ps: BoolArray) -> None:
        self._demands = (pair.worker.demand, pair.ps.demand)
        if pair.ps.absent:
            hosts_ps = hosts_workers  # without parameter servers, any server that hosts workers will do
        self._hosts = (hosts_workers, hosts_ps)
        slots = free.shape[1]
        self.workers: Units = _whole(free, pair.worker.demand, hosts_workers).astype(np.int16)  # (slots, servers)
        self.ps: Units = _whole(free, pair.ps.demand, hosts_ps).astype(np.int16)
        self.figures: IntArray = np.zeros((3, slots), dtype=np.int64)
        self._doubled: tuple[list[Units], list[Units]] = ([self.workers], [self.ps])
        self._windows: dict[int, Windows] = {}
        self._version = 0
        self._measure(slice(0, slots))

    @property
    def beside(self) -> IntArray:
        """(slots,) the most workers on one server that has room for a parameter server as well."""
        return self.figures[0]

    @property
    def together(self) -> IntArray:
        """(slots,) the workers on all servers."""
        return self.figures[1]

    @property
    def most_ps(self) -> IntArray:
        """(slots,) the most parameter servers on one server."""
        return self.figures[2]

    def copy(self) -> PairRoom:
        """Return a copy in which other units may be taken. It shares what was measured so far, which is only read."""
        other = copy(self)
        other.workers, other.ps, other.figures = self.workers.copy(), self.ps.copy(), self.figures.copy()
        other._doubled = (list(self._doubled[0]), list(self._doubled[1]))
        other._windows = dict(self._windows)
        return other

    def refresh(self, free: FloatArray, slots: slice, servers: IntArray) -> None:
        """Count the units anew on some servers in some slots; `free` is (resources, all slots, all servers)."""
        amounts = free[:, slots, servers]
        for units, demand, hosts in zip((self.workers, self.ps), self._demands, self._hosts, strict=True):
            units[slots, servers] = _whole(amounts, demand, hosts[servers])
        self._measure(slots)

    def _measure(self, slots: slice) -> None:
        """Work out the figures of these slots, after their units were counted."""
        workers, ps = self.workers[slots], self.ps[slots]
        if workers.shape[1]:
            self.beside[slots] = np.where(ps > 0, workers, 0).max(axis=1)
            self.together[slots] = workers.sum(axis=1, dtype=np.int64)
            self.most_ps[slots] = ps.max(axis=1)
        self._doubled = ([self.workers], [self.ps])
        self._version += 1

    def windows(self, duration: int, *, fresh: bool) -> Windows:
        """Return what fits in each window of a duration. Unless `fresh` is set, it may date from before units were
        taken, and so be too much, but never too little."""
        windows = self._windows.get(duration)
        if windows is None or (fresh and windows.version < self._version):
            windows = self._windows[duration] = self._measured(duration)
        return windows

    def is_fresh(self, windows: Windows) -> bool:
        """Return whether no units were taken since these windows were measured."""
        return windows.version == self._version

    def forget_windows(self) -> None:
        """Drop all windows after units were given back, as what was measured before may be too little."""
        self._windows.clear()

    def _measured(self, duration: int) -> Windows:
        workers, ps = (self._minima(units, duration) for units in self._doubled)
        beside = np.where(ps > 0, workers, 0).max(axis=1, initial=0)
        together = workers.sum(axis=1, dtype=np.int32)
        return Windows(self._version, beside, together, ps.max(axis=1, initial=0))

    def _minima(self, doubled: list[Units], duration: int) -> Units:
        """Return (starts, servers) minima over windows, from those over windows of 1, 2, 4, ... slots."""
        level = duration.bit_length() - 1
        while len(doubled) <= level:
            half, last = 1 << (len(doubled) - 1), doubled[-1]
            doubled.append(np.minimum(last[:-half], last[half:]))
        rest = duration - (1 << level)
        last = doubled[level]
        return np.minimum(last[: len(last) - rest], last[rest:]) if rest else last

    def least(self, start: int, end: int) -> tuple[Units, Units]:
        """Return the workers and parameter servers, (servers,) each, that are free in every slot of [start, end)."""
        return self.workers[start:end].min(axis=0), self.ps[start:end].min(axis=0)


def _whole(amounts: FloatArray, demand: FloatArray, hosts: BoolArray) -> FloatArray:
    """Return (slots, servers) the whole units that fit into the amounts, on servers that host them."""
    units: FloatArray = np.where(hosts, np.clip(room(amounts, demand), 0, MOST_UNITS), 0)
    return units


class Room:
    """The free amounts (resources, slots, servers). Slots count from the beginning of the range."""

    def __init__(self, free: FloatArray, hosts_workers: BoolArray, hosts_ps: BoolArray) -> None:
        self.free = free
        self._hosts = (hosts_workers, hosts_ps)
        self._pairs: dict[tuple[bytes, bytes], PairRoom] = {}

    def copy(self) -> Room:
        """Return a copy of the room, in which other units may be taken."""
        other = Room(self.free.copy(), *self._hosts)
        other._pairs = {key: pair_room.copy() for key, pair_room in self._pairs.items()}
        return other

    def of(self, pair: Pair) -> PairRoom:
        """Return the room in units of this pair of types."""
        pair_room = self._pairs.get(pair.key)
        if pair_room is None:
            pair_room = self._pairs[pair.key] = PairRoom(pair, self.free, *self._hosts)
        return pair_room

    def take(self, rows: Iterable[Allocation], worker: FloatArray, ps: FloatArray, sign: int = 1) -> None:
        """Use what the rows take, or give it back with sign -1. Their slots and servers are indices of the room."""
        rows = [row for row in rows if row.start < row.end]
        if not rows:
            return
        for row in rows:
            self.free[:, row.start : row.end, row.server] -= sign * (row.workers * worker + row.ps * ps)[:, None]
        slots = slice(min(row.start for row in rows), max(row.end for row in rows))
        servers = np.array([row.server for row in rows])
        for pair_room in self._pairs.values():
            pair_room.refresh(self.free, slots, servers)
            if sign < 0:
                pair_room.forget_windows()


def within(rows: Iterable[Allocation], start: int, end: int) -> list[Allocation]:
    """Return the rows cut to the slots [start, end), with slots counted from `start`."""
    cut = (replace(row, start=max(row.start, start) - start, end=min(row.end, end) - start) for row in rows)
    return [row for row in cut if row.start < row.end]
