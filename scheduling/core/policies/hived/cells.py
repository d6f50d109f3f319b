"""HiveD's cells: how much of a server a gang takes, in workers, and what is left of every tenant's own cells.

Cells hold 1, 2, 4, 8, ... workers. The cells of one server can always be joined and split, so they are counted, not
numbered: on a server of 8 workers, two cells of 2 leave one of 4.
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
    """Return the size of the smallest cell that holds `workers` workers."""
    return 1 << (workers - 1).bit_length()


@lru_cache(maxsize=16)
def homes(cluster: Cluster) -> FloatArray:
    """Return the virtual clusters (resources, tenants, servers). Quotas that are only counts are dealt to servers."""
    return deal_cells(cluster.capacity, cluster.quota) if cluster.cells is None else cluster.cells


class Counted:
    """How many whole units of one demand each server holds, as plain numbers, with their total and their ranking."""

    def __init__(self, counts: FloatArray, changes: int) -> None:
        self.counts: list[int] = counts.astype(np.int64).tolist()
        self.total = sum(self.counts)
        # (whole units, server), fewest first; servers with none are left out
        order = np.argsort(counts, kind="stable")
        order = order[counts[order] > 0]
        self.ranked: list[tuple[int, int]] = [(self.counts[server], server) for server in order.tolist()]
        self.changes = changes  # how many changes of servers are counted in

    def change(self, server: int, count: int) -> None:
        """Set how many units a server holds now."""
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
    """How many whole units of any demand each server holds in what is free there.

    The counts of a demand are kept: when it comes again, only servers that changed since are counted anew. What is
    free is kept in lists, by server and resource, and changed number by number, as arrays are slow for so few numbers.
    """

    def __init__(self, free: FloatArray, cluster: Cluster) -> None:
        self.before, self.cluster = free, cluster  # (resources, servers)
        self.free: list[list[float]] = free.T.tolist()
        self.cache: dict[tuple[bool, Demand], Counted] = {}
        self.changed: list[int] = []  # servers, in order

    def workers(self, unit: UnitType) -> Counted:
        """Return the counts of whole workers on servers that host them."""
        return self._counted(unit, self.cluster.hosts_workers, worker=True)

    def ps(self, unit: UnitType) -> Counted:
        """Return the counts of whole parameter servers on servers that host them."""
        return self._counted(unit, self.cluster.hosts_ps, worker=False)

    def take(self, server: int, amounts: Sequence[float]) -> None:
        """Take amounts of each resource on a server."""
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
    """Return the list that keeps a cluster's last result: the guaranteed jobs that held cells, and what they left. Most
    of them run on for many slots. What is left depends only on these jobs, in their order, and on the cluster."""
    del cluster
    return []


class VirtualClusters:
    """What every tenant has left of its cells in the coming slot, after the cells of guaranteed jobs."""

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
        # (resources, servers) what cells hold beyond their workers: no other job can have it while the cell is held
        self.spare: FloatArray = spare.copy()
        for booking, job in held[len(before) :]:
            units = (job.worker_types[booking.worker_type], job.ps_types[booking.ps_type])
            for row in booking.allocation:
                self._hold(job.tenant, row, units)
        last[:] = [(held, self.rest.copy(), self.spare.copy())]

    def could_hold(self, job: Job, gang: GangUnits) -> bool:
        """Return whether what the tenant has left of its cells holds the workers, and the parameter servers if there
        were no workers. It is a quick check that never excludes what `place` could find."""
        rest, cluster = self.rest[:, job.tenant], self.cluster
        units = (job.worker_types[gang.worker_type], job.ps_types[gang.ps_type])
        kinds = ((units[0], cluster.hosts_workers, gang.workers), (units[1], cluster.hosts_ps, gang.ps))
        return all(np.maximum(room(rest, unit.demand), 0.0)[hosts].sum() >= count for unit, hosts, count in kinds)

    def place(self, job: Job, gang: GangUnits, free: FloatArray) -> Placement | None:
        """Place the gang in cells of its tenant that are also `free` (resources, servers), and take them. Return None
        if there is no room."""
        own = np.minimum(self.rest[:, job.tenant], free - self.spare)
        placement = place(job, gang, WholeUnits(own, self.cluster))
        if placement is not None:
            units = (job.worker_types[gang.worker_type], job.ps_types[gang.ps_type])
            for row in placement.allocation(0, 1):
                self._hold(job.tenant, row, units)
        return placement

    def _hold(self, tenant: int, row: Allocation, units: tuple[UnitType, UnitType]) -> None:
        """Take the parameter servers, and a cell for the workers, cut to what is left of the home on the server."""
        rest: list[float] = self.rest[:, tenant, row.server].tolist()
        rest = [have - amount for have, amount in zip(rest, amounts_of(units, row.workers, row.ps), strict=True)]
        more = cell(row.workers) - row.workers if row.workers else 0
        if more and (more := min(more, whole(rest, units[0]))):
            beyond = [more * amount for amount in units[0].amounts]
            rest = [have - amount for have, amount in zip(rest, beyond, strict=True)]
            self.spare[:, row.server] += beyond
        self.rest[:, tenant, row.server] = rest


def place(job: Job, gang: GangUnits, units: WholeUnits) -> Placement | None:
    """Place the gang in cells of `units`: on the server with the fewest free workers that has a cell for all.

    Where no server has one, all that is left of the server with the most is taken, until some server has a cell for the
    rest. Parameter servers go beside the workers as far as there is room, then to the first servers.
    """
    worker, ps = job.worker_types[gang.worker_type], job.ps_types[gang.ps_type]
    counted = units.workers(worker)
    if counted.total < gang.workers:
        return None
    ranked, workers = counted.ranked.copy(), list[int]()
    while missing := gang.workers - len(workers):
        place = bisect_left(ranked, (cell(missing), -1))  # the first of the servers with the fewest that suffice
        if place == len(ranked):
            place = bisect_left(ranked, (ranked[-1][0], -1))  # the first of those with the most
        count, server = ranked.pop(place)
        workers += [server] * min(missing, count)
    servers = _beside(units, ps, gang.ps, worker, workers)
    return None if servers is None else Placement(gang, sorted(workers), servers, Cursors())


def _beside(units: WholeUnits, ps: UnitType, count: int, worker: UnitType, workers: Sequence[int]) -> list[int] | None:
    """Return the servers of the parameter servers, the workers' servers first, then the others in order; None if there
    is no room."""
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
    """Return what that many workers and parameter servers take together of each resource."""
    return [workers * worker + ps * server for worker, server in zip(units[0].amounts, units[1].amounts, strict=True)]


def whole(free: Sequence[float], unit: UnitType) -> int:
    """Return how many whole units fit in what is free on one server."""
    return min((max(0, math.floor(free[resource] / need + ROUNDING)) for resource, need in unit.named), default=MOST)
