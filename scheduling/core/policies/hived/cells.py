"""Cells: how many workers' worth of a server a gang takes, and what is left of every tenant's own cells.

Cells hold 1, 2, 4, 8, ... workers. Those of one server can always be joined and split, so they are counted, not
numbered: on a server of 8 workers two cells of 2 leave one of 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scheduling.core.cells import deal_cells
from scheduling.core.gangs import Gang
from scheduling.core.occupancy import ROUNDING, room
from scheduling.core.placement import Cursors, Placement
from scheduling.core.types import OWN, BoolArray, Cluster, FloatArray, Job, View

MOST = 2**40


def cell(workers: int) -> int:
    """The smallest cell that holds so many workers."""
    return 1 << (workers - 1).bit_length()


def homes(cluster: Cluster) -> FloatArray:
    """(resources, tenants, servers) virtual clusters; quotas that are mere counts are dealt to servers first."""
    return deal_cells(cluster.capacity, cluster.quota) if cluster.cells is None else cluster.cells


class VirtualClusters:
    """What every tenant has left of its cells in the coming slot, once guaranteed jobs hold theirs."""

    def __init__(self, view: View) -> None:
        self.view, self.cluster = view, view.cluster
        self.left: FloatArray = homes(view.cluster).copy()
        # (resources, servers) what a cell holds beyond its workers: nobody else's while the cell is
        self.spare = np.zeros_like(view.cluster.capacity)
        for booking in view.active:
            if booking.phase == OWN and booking.start <= view.slot and booking.job in view.jobs:
                job = view.jobs[booking.job]
                worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
                for row in booking.allocation:
                    self._hold(job.tenant, row.server, row.workers, row.ps, (worker, ps))

    def place(self, job: Job, gang: Gang, free: FloatArray) -> Placement | None:
        """The gang in cells of its tenant that are `free` (resources, servers) as well, now taken; None: no room."""
        own = np.minimum(self.left[:, job.tenant], free - self.spare)
        found = place(job, gang, own, self.cluster)
        if found is not None:
            units = (job.worker_types[gang.worker_type].demand, job.ps_types[gang.ps_type].demand)
            for row in found.allocation(0, 1):
                self._hold(job.tenant, row.server, row.workers, row.ps, units)
        return found

    def _hold(self, tenant: int, server: int, workers: int, ps: int, units: tuple[FloatArray, FloatArray]) -> None:
        """Take a cell for the workers, as large as what is left of the home allows; and the parameter servers."""
        worker, server_demand = units
        left = self.left[:, tenant, server]
        left -= workers * worker + ps * server_demand
        more = min(cell(workers) - workers if workers else 0, _units(left, worker))
        left -= more * worker
        self.spare[:, server] += more * worker


def place(job: Job, gang: Gang, own: FloatArray, cluster: Cluster) -> Placement | None:
    """The gang in cells on `own` (resources, servers): the server with the fewest free workers that has a cell for all.

    Where none has one, all that is left of the server with the most is taken, until there is a cell for the rest.
    Parameter servers go beside the workers as far as there is room, then to the first servers.
    """
    worker, ps = job.worker_types[gang.worker_type].demand, job.ps_types[gang.ps_type].demand
    counts = np.where(cluster.hosts_workers, _whole(own, worker), 0)
    workers: list[int] = []
    while missing := gang.workers - len(workers):
        fits = counts >= cell(missing)
        holds = int(np.where(fits, counts, MOST).argmin() if fits.any() else counts.argmax())
        if counts[holds] == 0:
            return None
        taken = min(missing, int(counts[holds]))
        workers += [holds] * taken
        counts[holds] = 0
    left = own.copy()
    for server in workers:
        left[:, server] -= worker
    servers = _beside(left, ps, gang.ps, workers, cluster.hosts_ps)
    return None if servers is None else Placement(gang, sorted(workers), servers, Cursors())


def _beside(left: FloatArray, ps: FloatArray, count: int, workers: Sequence[int], hosts: BoolArray) -> list[int] | None:
    """Servers of the parameter servers: those of the workers first, then the others in order."""
    near = sorted(set(workers))
    counts = np.where(hosts, _whole(left, ps), 0)
    found: list[int] = []
    for server in near:
        found += [server] * int(min(count - len(found), counts[server]))
    counts[near] = 0
    for server in np.flatnonzero(counts).tolist() if len(found) < count else ():
        found += [server] * int(min(count - len(found), counts[server]))
        if len(found) == count:
            break
    return found if len(found) == count else None


def _whole(free: FloatArray, demand: FloatArray) -> FloatArray:
    """(servers,) whole units that fit."""
    return np.clip(room(free, demand), 0, MOST)


def _units(free: FloatArray, demand: FloatArray) -> int:
    """Whole units that fit in one place; arrays are slow for so few numbers."""
    needed = [(have, need) for have, need in zip(free.tolist(), demand.tolist(), strict=True) if need > 0]
    return min((max(0, math.floor(have / need + ROUNDING)) for have, need in needed), default=MOST)
