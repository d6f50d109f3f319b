"""Cells: how many workers' worth of a server a gang takes, and what is left of every tenant's own cells.

Cells hold 1, 2, 4, 8, ... workers. Those of one server can always be joined and split, so they are counted, not
numbered: on a server of 8 workers two cells of 2 leave one of 4.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from scheduling.core.cells import deal_cells
from scheduling.core.gangs import GangUnits
from scheduling.core.occupancy import ROUNDING, room
from scheduling.core.placement import Cursors, Placement
from scheduling.core.types import OWN, Allocation, Booking, BoolArray, Cluster, Demand, FloatArray, Job, UnitType, View

MOST = 2**40


def cell(workers: int) -> int:
    """The smallest cell that holds so many workers."""
    return 1 << (workers - 1).bit_length()


@lru_cache(maxsize=16)
def homes(cluster: Cluster) -> FloatArray:
    """(resources, tenants, servers) virtual clusters; quotas that are mere counts are dealt to servers first."""
    return deal_cells(cluster.capacity, cluster.quota) if cluster.cells is None else cluster.cells


class Counted:
    """How many whole units of one demand every server holds, as plain numbers, and what is quickly found by them."""

    def __init__(self, counts: FloatArray, changes: int) -> None:
        self.counts: list[int] = counts.astype(np.int64).tolist()
        self.total = sum(self.counts)
        # (whole units, server), fewest first; servers with none are left out
        order = np.argsort(counts, kind="stable")
        order = order[counts[order] > 0]
        self.ranked: list[tuple[int, int]] = [(self.counts[server], server) for server in order.tolist()]
        self.changes = changes  # changes of servers that are counted in

    def change(self, server: int, count: int) -> None:
        """A server holds so many now."""
        before = self.counts[server]
        if count == before:
            return
        self.counts[server] = count
        self.total += count - before
        if before:
            del self.ranked[bisect_left(self.ranked, (before, server))]
        if count:
            insort(self.ranked, (count, server))


class WholeUnits:
    """How many whole units of a demand every server holds, of what is free there.

    A demand that comes again is followed: only servers that changed since are looked at. What is free is kept in
    lists, by server and resource, and changed number by number; arrays are slow for so few.
    """

    def __init__(self, free: FloatArray, cluster: Cluster) -> None:
        self.before, self.cluster = free, cluster  # (resources, servers)
        self.free: list[list[float]] = free.T.tolist()
        self.cache: dict[tuple[bool, Demand], Counted] = {}
        self.changed: list[int] = []  # servers, in order

    def workers(self, unit: UnitType) -> Counted:
        """Whole workers on servers that host them."""
        return self._counted(unit, self.cluster.hosts_workers, worker=True)

    def ps(self, unit: UnitType) -> Counted:
        """Whole parameter servers on servers that host them."""
        return self._counted(unit, self.cluster.hosts_ps, worker=False)

    def take(self, server: int, amounts: Sequence[float]) -> None:
        """So much of each resource is not free any more."""
        here = self.free[server]
        for resource, amount in enumerate(amounts):
            here[resource] -= amount
        self.changed.append(server)

    def _counted(self, unit: UnitType, hosts: BoolArray, *, worker: bool) -> Counted:
        key = (worker, unit.named)
        counted = self.cache.get(key)
        if counted is None:
            free = np.array(self.free).T if self.changed else self.before
            counts = np.where(hosts, np.clip(room(free, unit.demand), 0, MOST), 0)
            counted = self.cache[key] = Counted(counts, len(self.changed))
        elif counted.changes < len(self.changed):
            for server in self.changed[counted.changes :]:
                counted.change(server, whole(self.free[server], unit) if hosts[server] else 0)
            counted.changes = len(self.changed)
        return counted


Held = list[tuple[Booking, Job]]


@lru_cache(maxsize=16)
def _last(cluster: Cluster) -> list[tuple[Held, FloatArray, FloatArray]]:
    """The guaranteed jobs that held cells when this was last asked, and what they left: most go on for many slots. What
    is left depends on them, in their order, and on the cluster alone."""
    del cluster
    return []


class VirtualClusters:
    """What every tenant has left of its cells in the coming slot, once guaranteed jobs hold theirs."""

    def __init__(self, view: View) -> None:
        self.view, self.cluster = view, view.cluster
        held = [
            (booking, view.jobs[booking.job])
            for booking in view.active
            if booking.phase == OWN and booking.start <= view.slot and booking.job in view.jobs
        ]
        last = _last(view.cluster)
        before, rest, spare = last[0] if last else ([], homes(view.cluster), np.zeros_like(view.cluster.capacity))
        if held[: len(before)] != before:
            before, rest, spare = [], homes(view.cluster), np.zeros_like(view.cluster.capacity)
        self.rest: FloatArray = rest.copy()
        # (resources, servers) what a cell holds beyond its workers: nobody else's while the cell is
        self.spare: FloatArray = spare.copy()
        for booking, job in held[len(before) :]:
            units = (job.worker_types[booking.worker_type], job.ps_types[booking.ps_type])
            for row in booking.allocation:
                self._hold(job.tenant, row, units)
        last[:] = [(held, self.rest.copy(), self.spare.copy())]

    def could_hold(self, job: Job, gang: GangUnits) -> bool:
        """Whether what the tenant has left of its cells holds the workers, and the parameter servers if there
        were no workers: more than `place` could find, and quickly said no to."""
        rest, cluster = self.rest[:, job.tenant], self.cluster
        units = (job.worker_types[gang.worker_type], job.ps_types[gang.ps_type])
        kinds = ((units[0], cluster.hosts_workers, gang.workers), (units[1], cluster.hosts_ps, gang.ps))
        return all(np.maximum(room(rest, unit.demand), 0.0)[hosts].sum() >= count for unit, hosts, count in kinds)

    def place(self, job: Job, gang: GangUnits, free: FloatArray) -> Placement | None:
        """The gang in cells of its tenant that are `free` (resources, servers) as well, now taken; None: no room."""
        own = np.minimum(self.rest[:, job.tenant], free - self.spare)
        placement = place(job, gang, WholeUnits(own, self.cluster))
        if placement is not None:
            units = (job.worker_types[gang.worker_type], job.ps_types[gang.ps_type])
            for row in placement.allocation(0, 1):
                self._hold(job.tenant, row, units)
        return placement

    def _hold(self, tenant: int, row: Allocation, units: tuple[UnitType, UnitType]) -> None:
        """Take a cell for the workers, as large as what is left of the home allows; and the parameter servers."""
        rest: list[float] = self.rest[:, tenant, row.server].tolist()
        rest = [have - amount for have, amount in zip(rest, amounts_of(units, row.workers, row.ps), strict=True)]
        more = cell(row.workers) - row.workers if row.workers else 0
        if more and (more := min(more, whole(rest, units[0]))):
            beyond = [more * amount for amount in units[0].amounts]
            rest = [have - amount for have, amount in zip(rest, beyond, strict=True)]
            self.spare[:, row.server] += beyond
        self.rest[:, tenant, row.server] = rest


def place(job: Job, gang: GangUnits, units: WholeUnits) -> Placement | None:
    """The gang in cells of `units`: the server with the fewest free workers that has a cell for all.

    Where none has one, all that is left of the server with the most is taken, until there is a cell for the rest.
    Parameter servers go beside the workers as far as there is room, then to the first servers.
    """
    worker, ps = job.worker_types[gang.worker_type], job.ps_types[gang.ps_type]
    counted = units.workers(worker)
    if counted.total < gang.workers:
        return None
    ranked, workers = counted.ranked.copy(), list[int]()
    while missing := gang.workers - len(workers):
        place = bisect_left(ranked, (cell(missing), -1))  # of servers with as few as will do the first
        if place == len(ranked):
            place = bisect_left(ranked, (ranked[-1][0], -1))  # of those with the most the first
        count, server = ranked.pop(place)
        workers += [server] * min(missing, count)
    servers = _beside(units, ps, gang.ps, worker, workers)
    return None if servers is None else Placement(gang, sorted(workers), servers, Cursors())


def _beside(units: WholeUnits, ps: UnitType, count: int, worker: UnitType, workers: Sequence[int]) -> list[int] | None:
    """Servers of the parameter servers: those of the workers first, then the others in order."""
    near = Counter(workers)
    spots: list[int] = []
    for server in sorted(near):
        rest = list(units.free[server])
        for _ in range(near[server]):
            for resource, amount in worker.named:
                rest[resource] -= amount
        more = whole(rest, ps) if units.cluster.hosts_ps[server] else 0
        spots += [server] * min(count - len(spots), more)
        if len(spots) == count:
            return spots
    counted = units.ps(ps)
    if counted.total < count - len(spots):
        return None
    for server, more in enumerate(counted.counts):
        if more and server not in near:
            spots += [server] * min(count - len(spots), more)
            if len(spots) == count:
                return spots
    return None


def amounts_of(units: tuple[UnitType, UnitType], workers: int, ps: int) -> list[float]:
    """What so many workers and parameter servers take together of each resource."""
    return [workers * worker + ps * server for worker, server in zip(units[0].amounts, units[1].amounts, strict=True)]


def whole(free: Sequence[float], unit: UnitType) -> int:
    """Whole units that fit in one place."""
    return min((max(0, math.floor(free[resource] / need + ROUNDING)) for resource, need in unit.named), default=MOST)
