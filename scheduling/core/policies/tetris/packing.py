"""Packing of one slot: the best pair of job and server first, then that job server by server up to its cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduling.core.estimates.remaining import seconds_left
from scheduling.core.gangs import GangUnits
from scheduling.core.occupancy import ROUNDING
from scheduling.core.placement import Cursors, Placement, Vacancies, share_a_resource
from scheduling.core.policies.tetris.scores import DIGITS, Scores
from scheduling.core.types import BoolArray, FloatArray, Job, View

SHORTEST = 1e-12  # seconds; the least remaining time, so that its inverse is finite


@dataclass(eq=False)
class Option:
    """A job on one pair of its types, and the servers of its units so far. It has `exactly` that many parameter
    servers; with None it has one for each worker, as far as the job allows."""

    job: Job
    remaining: float
    least: GangUnits
    most: int  # workers
    exactly: int | None = None
    workers: list[int] = field(default_factory=list)
    ps: list[int] = field(default_factory=list)

    @property
    def most_ps(self) -> int:
        if self.exactly is not None:
            return self.exactly
        if self.job.all_reduce:
            return 0
        return self.most if self.job.max_ps is None else min(self.most, self.job.max_ps)

    def seconds(self) -> float:
        """Return the remaining time, in seconds, with all units that the job may have."""
        types = (self.least.worker_type, self.least.ps_type)
        return max(seconds_left(self.job, self.remaining, self.most, self.most_ps, types), SHORTEST)

    @property
    def enough(self) -> bool:
        """Return whether the job has the units that it needs at least."""
        return len(self.workers) >= self.least.workers and len(self.ps) >= (self.exactly or 0)

    def demands(self) -> tuple[FloatArray, FloatArray]:
        """Return what a worker and a parameter server take, (resources,) each."""
        worker, ps = self.job.worker_types[self.least.worker_type], self.job.ps_types[self.least.ps_type]
        return worker.demand, ps.demand


class Packing:
    """The state of one slot while it is packed. `weight` is that of the remaining time against the fit."""

    def __init__(self, view: View, options: Sequence[Option], weight: float) -> None:
        self.view, self.options, cluster = view, options, view.cluster
        free = cluster.capacity - view.occupied[:, :1].sum(axis=1) + ROUNDING  # (resources, servers)
        part = np.divide(1.0, cluster.total, out=np.zeros(len(cluster.total)), where=cluster.total > 0)
        self.scores = Scores(free, part)
        demands = [option.demands() for option in options]
        self.units: list[tuple[list[float], list[float]]] = [(worker.tolist(), ps.tolist()) for worker, ps in demands]
        both = cluster.hosts_workers & cluster.hosts_ps
        hosts = [cluster.hosts_workers if option.job.all_reduce else both for option in options]
        self.together = np.array(
            [self.scores.row(worker + ps, where) for (worker, ps), where in zip(demands, hosts, strict=True)]
        )
        self.apart = [
            (self.scores.row(worker, cluster.hosts_workers), self.scores.row(ps, cluster.hosts_ps))
            for worker, ps in demands
        ]
        self.scores.fill(self.together.tolist())
        hurry = 1.0 / np.array([option.seconds() for option in options])
        self.hurry = weight * hurry / hurry.mean()
        self.ranks = self._ranks()
        self.open: BoolArray = np.ones(len(options), dtype=np.bool_)
        self.failed: dict[tuple[int, int], tuple[int, int]] = {}
        self.not_dealt: set[tuple[object, ...]] = set()  # gangs that found no room unit by unit, round the servers
        self.ways: dict[int, list[int]] = {}
        for index, option in enumerate(options):
            self.ways.setdefault(option.job.number, []).append(index)

    def run(self) -> dict[int, Placement]:
        """Pack the slot, and return where the units of each job are."""
        placed: dict[int, Placement] = {}
        for _ in self.options:
            best = self._next()
            if best is None:
                break
            option = self.options[best]
            self.open[best] = False
            if not self._fails_again(best):
                before = self._fill(best)
                if not option.enough:
                    self._give_back(best, before)
            if not option.enough and not self.open[self.ways[option.job.number]].any() and self._deal_round(best):
                self._fill(best)
            if option.enough:
                gang = GangUnits(len(option.workers), len(option.ps), option.least.worker_type, option.least.ps_type)
                placed[option.job.number] = Placement(gang, option.workers, option.ps, Cursors())
                self.open[self.ways[option.job.number]] = False
                self.failed.clear()
                self.not_dealt.clear()
        return placed

    def _ranks(self) -> FloatArray:
        """Return (options,) how well a task fits where it fits best, plus the head start."""
        ranks: FloatArray = np.round(self.scores.best[self.together] + self.hurry, DIGITS)
        return ranks

    def _next(self) -> int | None:
        """Return the option whose task fits best somewhere, head start included; ties go to the first. Return None when
        all are done."""
        if self.scores.renew():
            self.ranks = self._ranks()
        best = int(np.where(self.open, self.ranks, -np.inf).argmax())
        if self.open[best] and self.ranks[best] > -np.inf:
            return best
        # No server has room for a worker and its parameter server: they go apart, the most urgent job first.
        best = int(np.where(self.open, self.hurry, -np.inf).argmax())
        return best if self.open[best] else None

    def _fails_again(self, index: int) -> bool:
        """Return whether another job with such units got too few of them, with the servers as they are now.

        That job failed after n workers. This one fails too if its first n + 1 workers need the same: a parameter server
        beside each of them or, from the same number of workers on, none.
        """
        option = self.options[index]
        if (before := self.failed.get(self.apart[index])) is None:
            return False
        workers, beside = before
        return option.least.workers > workers and min(option.most_ps, workers + 1) == beside

    def _fill(self, index: int) -> dict[int, list[float]]:
        """Place tasks of one job up to its cap or until nothing fits: as many as a server holds, then on the next.
        Return what was free before on the servers that it uses."""
        option, server = self.options[index], -1
        most, most_ps = option.most, option.most_ps
        before: dict[int, list[float]] = {}
        while len(option.workers) < most:
            spot = self._spot(index, server, alone=len(option.ps) >= most_ps)
            if spot is None:
                break
            for kind, host in enumerate(spot):
                if host is not None:
                    if host not in before:
                        before[host] = list(self.scores.free[host])
                    self.scores.take(host, self.units[index][kind])
                    (option.workers, option.ps)[kind].append(host)
            server = spot[0]
        self._fill_up(index, before)
        return before

    def _deal_round(self, index: int) -> bool:
        """Place a job's least gang unit by unit, round the servers, where its units share a resource: tasks that went
        where they fit best may have left too little room for the others. What an empty cluster is known to hold must
        not wait for ever. Return whether there was room."""
        option = self.options[index]
        units = option.job.worker_types[option.least.worker_type], option.job.ps_types[option.least.ps_type]
        key = (option.least.workers, option.least.ps, *self.apart[index])
        if key in self.not_dealt or not share_a_resource(*units):
            return False
        if any(self.scores.spot(row) is None for row in self.apart[index]):
            return False
        room = Vacancies(self.view.cluster, self.view.occupied)
        room.free = [list(free) for free in self.scores.free]
        placement = room.place(option.job, option.least, Cursors())
        if placement is None:
            self.not_dealt.add(key)
            return False
        for kind, servers in enumerate((placement.workers, placement.ps)):
            for server in servers:
                self.scores.take(server, self.units[index][kind])
        option.workers, option.ps = list(placement.workers), list(placement.ps)
        return True

    def _fill_up(self, index: int, before: dict[int, list[float]]) -> None:
        """Place the parameter servers that a job has beyond one for each worker."""
        option, (_, ps) = self.options[index], self.apart[index]
        while len(option.ps) < (option.exactly or 0) and (spot := self.scores.spot(ps)) is not None:
            before.setdefault(spot, list(self.scores.free[spot]))
            self.scores.take(spot, self.units[index][1])
            option.ps.append(spot)

    def _spot(self, index: int, server: int, *, alone: bool) -> tuple[int, int | None] | None:
        """Return the servers of the next worker and parameter server: `server` if both fit there, else the best for
        both, else two servers. If `alone`, only a worker is placed."""
        worker, ps = self.apart[index]
        if alone:
            spot = self._best(worker, server)
            return None if spot is None else (spot, None)
        together = self._best(int(self.together[index]), server)
        if together is not None:
            return together, together
        first = self._best(worker, server)
        if first is None:
            return None
        before = list(self.scores.free[first])
        self.scores.take(first, self.units[index][0])
        second = self.scores.spot(ps)
        self.scores.free[first] = before
        self.scores.stale.append(first)
        return None if second is None else (first, second)

    def _best(self, row: int, server: int) -> int | None:
        """Return the server itself while it has room, else the one that fits best."""
        return server if server >= 0 and self.scores.fits(row, server) else self.scores.spot(row)

    def _give_back(self, index: int, before: Mapping[int, Sequence[float]]) -> None:
        """Give back the units of a job that got too few. If all is then as before, to the last bit, other jobs with
        such needs are not tried."""
        option = self.options[index]
        for kind, servers in enumerate((option.workers, option.ps)):
            for server in servers:
                self.scores.give_back(server, self.units[index][kind])
        workers = len(option.workers)
        option.workers, option.ps = [], []
        if all(self.scores.free[server] == free for server, free in before.items()):
            if workers < option.least.workers:  # not where only parameter servers were missing
                self.failed[self.apart[index]] = workers, min(option.most_ps, workers + 1)
        else:
            self.failed.clear()
            self.not_dealt.clear()
