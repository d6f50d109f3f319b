"""The ways to run a job, where they fit on its owner's machines, and what a unit is usually worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.speed import ceiling, minibatches_per_slot, parameter_servers
from scheduling.core.types import BoolArray, Cluster, FloatArray, Job

IntArray = npt.NDArray[np.int64]
FAR = 2**31  # more units than there are of anything
THETA_LEAST, THETA_FACTOR, THETA_QUANTILE = 2.0, 0.8, 0.9


@dataclass(frozen=True)
class Way:
    """A way to run: with so many workers of one pair of types, for so many slots, on one server or on several."""

    workers: int
    central: bool
    types: tuple[int, int]
    slots: int

    @property
    def order(self) -> tuple[int, bool, tuple[int, int]]:
        """How ties between ways that start at once are broken."""
        return self.workers, not self.central, self.types


def ways(job: Job, cluster: Cluster) -> Iterator[Way]:
    """For each pair of types and placement the fewest workers of each duration: more cost no less for the same.

    Nothing is tried whose workers and parameter servers take of one resource: prices could not tell them apart.
    """
    for w, worker in enumerate(job.worker_types):
        for p, server in enumerate(job.ps_types):
            if ((worker.demand > 0) & (server.demand > 0)).any():
                continue
            for central in (True, False):
                rate = minibatches_per_slot(job, w, p, cluster.slot_seconds, centralized=central)
                last = 0
                for workers in range(max(job.min_workers, 1 if central else 2), job.max_workers + 1):
                    slots = max(1, ceiling(job.work / (rate * workers)))
                    if slots != last:
                        yield Way(workers, central, (w, p), slots)
                    last = slots


class Fit:
    """Where one way to run fits, from each start in the window: all minima are over the whole run.

    On one server: all workers and one parameter server. On several: all parameter servers on the server that needs
    the fewest for the workers elsewhere, and those where the fewest fit. `free` is (resources, slots, servers), with
    room for the run, `hosts` (servers,) for workers and for parameter servers; `slots` replaces the run's own duration.
    """

    def __init__(
        self, job: Job, way: Way, free: FloatArray, hosts: tuple[BoolArray, BoolArray], slots: int | None = None
    ) -> None:
        worker, server = job.worker_types[way.types[0]], job.ps_types[way.types[1]]
        self.way = way
        slots = way.slots if slots is None else slots
        self.workers = _least(_whole(free, worker.demand, hosts[0]), slots)  # (starts, servers)
        ps = _least(_whole(free, server.demand, hosts[1]), slots)
        if way.central:
            self.beside = np.full_like(self.workers, way.workers)
            needs = np.where((self.workers >= way.workers) & (ps >= 1), 1, FAR)
        else:
            table = np.array([parameter_servers(count, worker.mbps, server.mbps) for count in range(way.workers + 1)])
            self.beside = np.minimum(self.workers, way.workers - 1)
            needs = table[way.workers - self.beside]
            most = FAR if job.max_ps is None else job.max_ps
            needs = np.where(needs <= np.minimum(ps, most), needs, FAR)
        self.server = needs.argmin(axis=1)  # (starts,) that of the parameter servers
        at = (np.arange(len(self.server)), self.server)
        self.ps = needs[at]
        elsewhere = self.workers.sum(axis=1) - self.workers[at]
        self.fits: BoolArray = (self.ps < FAR) & (elsewhere >= way.workers - self.beside[at])

    def costs(self, job: Job, prices: FloatArray) -> FloatArray:
        """(starts,) price of the whole run at prices (resources, slots)."""
        worker, ps = (
            _sums(unit.demand @ prices, self.way.slots)
            for unit in (job.worker_types[self.way.types[0]], job.ps_types[self.way.types[1]])
        )
        costs: FloatArray = self.way.workers * worker + np.where(self.fits, self.ps, 0) * ps
        return costs

    def units(self, start: int) -> dict[int, tuple[int, int]]:
        """(workers, parameter servers) by server: the missing workers where the fewest fit, then by number."""
        spot = int(self.server[start])
        found = {spot: (int(self.beside[start, spot]), int(self.ps[start]))}
        missing = self.way.workers - found[spot][0]
        for server in np.argsort(self.workers[start], kind="stable").tolist():
            taken = 0 if server == spot else min(missing, int(self.workers[start, server]))
            if taken:
                found[server] = (taken, 0)
                missing -= taken
        return found


def _whole(free: FloatArray, demand: FloatArray, hosts: BoolArray) -> IntArray:
    """(slots, servers) whole units that fit."""
    return np.where(hosts, np.clip(room(free, demand), 0, FAR // 2**10), 0).astype(np.int64)


def _least(units: IntArray, slots: int) -> IntArray:
    """(starts, servers) minima over so many slots from each start, by windows of doubling length."""
    length = 1
    while 2 * length <= slots:
        units, length = np.minimum(units[:-length], units[length:]), 2 * length
    rest = slots - length
    return units if rest == 0 else np.minimum(units[:-rest], units[rest:])


def _sums(prices: FloatArray, slots: int) -> FloatArray:
    """(starts,) sums over so many slots."""
    sums = np.concatenate([[0.0], np.cumsum(prices)])
    totals: FloatArray = sums[slots:] - sums[:-slots]
    return totals


def usual_theta(cluster: Cluster, jobs: Sequence[Job]) -> dict[str, float]:
    """By resource 1 + 0.8 times the 0.9 quantile of what a unit and slot is worth, at least 2.

    A job is looked at in its shortest run on one server, alone and at once; those worth nothing do not count.
    """
    figures: dict[str, list[float]] = {name: [] for name in cluster.resources}
    for job in jobs:
        central = [way for way in ways(job, cluster) if way.central]
        if not central:
            continue
        way = min(central, key=lambda way: (way.slots, *way.order))
        worth = float(job.value(way.slots))
        taken = (job.worker_types[way.types[0]].demand * way.workers, job.ps_types[way.types[1]].demand)
        for demand in taken:
            for resource in np.flatnonzero(demand > 0) if worth > 0 else ():
                figures[cluster.resources[resource]].append(worth / (float(demand[resource]) * way.slots))
    return {
        name: max(THETA_LEAST, 1.0 + THETA_FACTOR * float(np.quantile(found, THETA_QUANTILE))) if found else THETA_LEAST
        for name, found in figures.items()
    }
