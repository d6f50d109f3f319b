"""The ways to run a job, where they fit on its owner's machines, and the usual theta."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.speed import ceiling, minibatches_per_slot, most_servers, parameter_servers
from scheduling.core.types import BoolArray, Cluster, Demand, FloatArray, Job, UnitType

IntArray = npt.NDArray[np.int64]
WORKER, PS = 0, 1
FAR = 2**31  # more units than any server has
THETA_LEAST, THETA_FACTOR, THETA_QUANTILE = 2.0, 0.8, 0.9


@dataclass(frozen=True)
class Way:
    """A way to run a job: the workers, the pair of types, the slots, and whether it is on one server (`central`)."""

    workers: int
    central: bool
    types: tuple[int, int]
    slots: int

    @property
    def order(self) -> tuple[int, bool, tuple[int, int]]:
        """Return the key that breaks ties between ways with the same start."""
        return self.workers, not self.central, self.types


@lru_cache(maxsize=2**10)
def ways(job: Job, slot_seconds: float, servers: int | None = None) -> tuple[Way, ...]:
    """Return, for each pair of types and placement, the fewest workers of each duration, as more cost no less.

    Types whose worker and parameter server both take of one resource are left out: prices could not tell them apart.
    The speed of workers without parameter servers is that on as many of the `servers` servers as they can use.
    The quickest ways come first. The result is cached, as it is needed in every batch in which the job waits.
    """
    return tuple(sorted(_ways(job, slot_seconds, servers), key=lambda way: way.slots))


def _ways(job: Job, slot_seconds: float, servers: int | None) -> Iterator[Way]:
    for w, worker in enumerate(job.worker_types):
        for p, server in enumerate(job.ps_types):
            if ((worker.demand > 0) & (server.demand > 0)).any():
                continue
            for central in (True, False):
                last = 0
                for workers in range(max(job.min_workers, 1 if central else 2), job.max_workers + 1):
                    spread = workers if servers is None else min(workers, servers)
                    rate = minibatches_per_slot(job, w, p, slot_seconds, centralized=central, servers=spread)
                    slots = max(1, ceiling(job.work / (rate * workers)))
                    if slots != last:
                        yield Way(workers, central, (w, p), slots)
                    last = slots


class ServerWindow:
    """Some servers during a window: how many units they hold, and what units cost. The ways of a job need the same
    figures, so each is worked out once.

    `free` is (resources, slots, servers), `hosts` (servers,) for workers and for parameter servers, `prices`
    (resources, slots).
    """

    def __init__(self, free: FloatArray, hosts: tuple[BoolArray, BoolArray], prices: FloatArray) -> None:
        self.free, self.hosts, self.prices = free, hosts, prices
        self.whole: dict[tuple[int, Demand], IntArray] = {}
        self.minima: dict[tuple[int, Demand, int], IntArray] = {}
        self.sums: dict[Demand, FloatArray] = {}

    def least(self, unit: UnitType, kind: int, slots: int) -> IntArray:
        """Return (starts, servers) the whole units that fit in all of the `slots` slots from each start."""
        key = (kind, unit.named)
        if key not in self.whole:
            self.whole[key] = _whole(self.free, unit.demand, self.hosts[kind])
        if (*key, slots) not in self.minima:
            self.minima[*key, slots] = _least(self.whole[key], slots)
        return self.minima[*key, slots]

    def costs(self, unit: UnitType, slots: int) -> FloatArray:
        """Return (starts,) the price of a unit for `slots` slots from each start."""
        if unit.named not in self.sums:
            self.sums[unit.named] = np.concatenate([[0.0], np.cumsum(unit.demand @ self.prices)])
        sums = self.sums[unit.named]
        totals: FloatArray = sums[slots:] - sums[:-slots]
        return totals


class Fit:
    """Where one way to run fits, from each start in the window. All minima are over the whole run.

    On one server, it places all workers and one parameter server there. On several, all parameter servers are on the
    server that needs the fewest for the workers elsewhere, and these workers where the fewest fit. The window must be
    long enough for the run; `slots` replaces the run's own duration.
    """

    def __init__(self, job: Job, way: Way, window: ServerWindow, slots: int | None = None) -> None:
        worker, server = job.worker_types[way.types[0]], job.ps_types[way.types[1]]
        self.way, self.window = way, window
        slots = way.slots if slots is None else slots
        self.workers = window.least(worker, WORKER, slots)  # (starts, servers)
        ps = window.least(server, WORKER if server.absent else PS, slots)
        if way.central:
            self.beside = np.full_like(self.workers, way.workers)
            needs = np.where((self.workers >= way.workers) & (ps >= 1), job.least_ps, FAR)
        else:
            table = _table(way.workers, worker.mbps, server.mbps)
            self.beside = np.minimum(self.workers, way.workers - 1)
            needs = table[way.workers - self.beside]
            most = FAR if job.max_ps is None else job.max_ps
            needs = np.where(needs <= np.minimum(ps, most), needs, FAR)
        self.server = needs.argmin(axis=1)  # (starts,) the server of the parameter servers
        at = (np.arange(len(self.server)), self.server)
        self.ps = needs[at]
        elsewhere = self.workers.sum(axis=1) - self.workers[at]
        self.fits: BoolArray = (self.ps < FAR) & (elsewhere >= way.workers - self.beside[at])

    def costs(self, job: Job) -> FloatArray:
        """Return (starts,) the price of the whole run."""
        worker, ps = job.worker_types[self.way.types[0]], job.ps_types[self.way.types[1]]
        costs: FloatArray = self.way.workers * self.window.costs(worker, self.way.slots)
        costs = costs + np.where(self.fits, self.ps, 0) * self.window.costs(ps, self.way.slots)
        return costs

    def units(self, start: int) -> dict[int, tuple[int, int]]:
        """Return (workers, parameter servers) by server. Workers elsewhere are where the fewest fit, then by index."""
        spot = int(self.server[start])
        beside, ps = int(self.beside[start, spot]), int(self.ps[start])
        units_by_spot = {spot: (beside, ps)} if beside or ps else {}
        missing = self.way.workers - beside
        for server in np.argsort(self.workers[start], kind="stable").tolist():
            count = 0 if server == spot else min(missing, int(self.workers[start, server]))
            if count:
                units_by_spot[server] = (count, 0)
                missing -= count
        return units_by_spot


def _whole(free: FloatArray, demand: FloatArray, hosts: BoolArray) -> IntArray:
    """Return (slots, servers) the whole units that fit."""
    return np.where(hosts, np.clip(room(free, demand), 0, FAR // 2**10), 0).astype(np.int64)


def _least(units: IntArray, slots: int) -> IntArray:
    """Return (starts, servers) the minima over `slots` slots from each start, by windows of doubling length."""
    length = 1
    while 2 * length <= slots:
        units, length = np.minimum(units[:-length], units[length:]), 2 * length
    rest = slots - length
    return units if rest == 0 else np.minimum(units[:-rest], units[rest:])


@lru_cache(maxsize=2**10)
def _table(workers: int, worker_mbps: float, ps_mbps: float) -> IntArray:
    """Return (workers + 1,) the parameter servers needed for 0, 1, 2, ... workers elsewhere."""
    return np.array([parameter_servers(count, worker_mbps, ps_mbps) for count in range(workers + 1)])


def usual_theta(cluster: Cluster, jobs: Sequence[Job]) -> dict[str, float]:
    """Return theta by resource: 1 + 0.8 times the 0.9 quantile of what a unit and slot is worth, at least 2.

    A job counts as in its shortest run on one server, alone and at once. Jobs worth nothing do not count.
    """
    figures: dict[str, list[float]] = {name: [] for name in cluster.resources}
    for job in jobs:
        central = [way for way in ways(job, cluster.slot_seconds, most_servers(job, cluster)) if way.central]
        if not central:
            continue
        way = min(central, key=lambda way: (way.slots, *way.order))
        worth = float(job.value(way.slots))
        demands = (job.worker_types[way.types[0]].demand * way.workers, job.ps_types[way.types[1]].demand)
        for demand in demands:
            for resource in np.flatnonzero(demand > 0) if worth > 0 else ():
                figures[cluster.resources[resource]].append(worth / (float(demand[resource]) * way.slots))
    return {
        name: max(THETA_LEAST, 1.0 + THETA_FACTOR * float(np.quantile(figure, THETA_QUANTILE)))
        if figure
        else THETA_LEAST
        for name, figure in figures.items()
    }
