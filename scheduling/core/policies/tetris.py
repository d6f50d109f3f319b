"""Tetris: the tasks that fit the servers best go first, with a head start for jobs that end soon.

How well a worker with its parameter server fits a server is the dot product of what they take and what is free there,
both as parts of the whole cluster. To that comes the inverse of the job's remaining time. Each of the two counts in
parts of its mean over all that is looked at in the slot, so that neither drowns the other.

The best pair of job and server gets a task there, and the job more of them, server full by server, up to its cap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from scheduling.core.estimates.remaining import check_speeds, seconds_left
from scheduling.core.gangs import Gang, even_gangs
from scheduling.core.occupancy import ROUNDING
from scheduling.core.placement import Cursors, EmptyCluster, Placement, slot_booking
from scheduling.core.scenario.fields import Section
from scheduling.core.types import REJECTED, BoolArray, Cluster, FloatArray, Job, Plan, Reason, Refusal, View

DIGITS = 9  # to which scores are compared: what is equal on paper is equal here
SHORTEST = 1e-12  # seconds; nothing is divided by less


@dataclass(frozen=True)
class Tetris:
    """`weight` is that of the remaining time against the fit, and `max_workers` limits every job. One parameter server
    for each worker, as far as the job allows so many. Every slot is filled anew; moving costs nothing."""

    name: ClassVar[str] = "tetris"
    weight: float = 1.0
    max_workers: int = 16

    def decide(self, view: View) -> Plan:
        """One slot for every job that gets its least gang."""
        empty = EmptyCluster(view.cluster)
        options: list[_Option] = []
        refusals: list[Refusal] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            ways = [
                _Option(job, remaining, gang, max(job.min_workers, min(job.max_workers, self.max_workers)))
                for gang in even_gangs(job, job.min_workers)
                if gang.workers == job.min_workers and empty.holds(job, gang)
            ]
            options += ways
            if not ways:
                refusals.append(Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), REJECTED))
        placed = _Packing(view, options, self.weight).run() if options else {}
        bookings = []
        for number, (job, remaining) in {way.job.number: (way.job, way.remaining) for way in options}.items():
            if number in placed:
                bookings.append(slot_booking(job, remaining, placed[number], view))
            else:
                refusals.append(Refusal(number, Reason("no_room", {"asked": job.min_workers})))
        return Plan(bookings, refusals)


@dataclass(eq=False)
class _Option:
    """A job on one pair of its types, and the servers of its units so far."""

    job: Job
    remaining: float
    least: Gang
    most: int  # workers
    workers: list[int] = field(default_factory=list)
    ps: list[int] = field(default_factory=list)

    @property
    def most_ps(self) -> int:
        return self.most if self.job.max_ps is None else min(self.most, self.job.max_ps)

    def seconds(self) -> float:
        """Remaining time with all it may have."""
        types = (self.least.worker_type, self.least.ps_type)
        return max(seconds_left(self.job, self.remaining, self.most, self.most_ps, types), SHORTEST)

    def demands(self) -> tuple[FloatArray, FloatArray]:
        """(resources,) of a worker and of a parameter server."""
        worker, ps = self.job.worker_types[self.least.worker_type], self.job.ps_types[self.least.ps_type]
        return worker.demand, ps.demand


class _Scores:
    """How well units fit the servers: a row for each different demand and set of hosts, -inf where there is no room."""

    def __init__(self, free: FloatArray, part: FloatArray) -> None:
        self.free, self.part = free, part  # (resources, servers), (resources,)
        self.rows: dict[tuple[object, ...], int] = {}
        self.demand: list[FloatArray] = []
        self.hosts: list[BoolArray] = []

    def row(self, demand: FloatArray, hosts: BoolArray) -> int:
        """The number of the row for such units."""
        key = (demand.tobytes(), id(hosts))
        if key not in self.rows:
            self.rows[key] = len(self.demand)
            self.demand.append(demand)
            self.hosts.append(hosts)
        return self.rows[key]

    def fill(self, together: Sequence[int]) -> None:
        """Work all rows out. The fit counts in parts of its mean over the rows `together` and all servers."""
        self.demands, self.hosted = np.array(self.demand), np.array(self.hosts)  # (rows, resources), (rows, servers)
        self.tasks = self.demands * self.part
        self.needs: list[list[float]] = self.demands.tolist()
        fits = self.tasks @ (self.free * self.part[:, None])
        self.mean = float(fits[list(together)].mean()) or 1.0
        room = self.hosted & (self.free[None] >= self.demands[:, :, None]).all(axis=1)
        self.scores = np.where(room, fits / self.mean, -np.inf)
        self.at = self.scores.argmax(axis=1)  # (rows,) the best server, and how well it fits
        self.best = self.scores.max(axis=1)
        self.stale: set[int] = set()

    def changed(self, server: int) -> None:
        """What is free there has changed; looked at again when somebody asks."""
        self.stale.add(server)

    def renew(self) -> None:
        """All scores and best fits as they are now."""
        for server in self.stale:
            free = self.free[:, server]
            room = self.hosted[:, server] & (free >= self.demands).all(axis=1)
            scores = np.where(room, self.tasks @ (free * self.part) / self.mean, -np.inf)
            self.scores[:, server] = scores
            better, lost = scores > self.best, (self.at == server) & (scores < self.best)
            self.at[better], self.best[better] = server, scores[better]
            for row in np.flatnonzero(lost).tolist():
                self.at[row] = self.scores[row].argmax()
                self.best[row] = self.scores[row, self.at[row]]
        self.stale.clear()

    def spot(self, row: int) -> int | None:
        """The server that fits best; ties the first; None without room anywhere."""
        self.renew()
        if self.best[row] == -np.inf:
            return None
        server = int(np.round(self.scores[row], DIGITS).argmax())
        return server

    def fits(self, row: int, server: int) -> bool:
        """Whether there is room on this server."""
        if not self.hosts[row][server]:
            return False
        return all(have >= need for have, need in zip(self.free[:, server].tolist(), self.needs[row], strict=True))


class _Packing:
    """One slot while it is packed."""

    def __init__(self, view: View, options: Sequence[_Option], weight: float) -> None:
        self.options, cluster = options, view.cluster
        self.free = cluster.capacity - view.occupied[:, :1].sum(axis=1) + ROUNDING  # (resources, servers)
        part = np.divide(1.0, cluster.total, out=np.zeros(len(cluster.total)), where=cluster.total > 0)
        self.scores = _Scores(self.free, part)
        self.units = [option.demands() for option in options]
        both = cluster.hosts_workers & cluster.hosts_ps
        self.together = np.array([self.scores.row(worker + ps, both) for worker, ps in self.units])
        self.apart = [
            (self.scores.row(worker, cluster.hosts_workers), self.scores.row(ps, cluster.hosts_ps))
            for worker, ps in self.units
        ]
        self.scores.fill(self.together.tolist())
        hurry = 1.0 / np.array([option.seconds() for option in options])
        self.hurry = weight * hurry / hurry.mean()
        self.open: BoolArray = np.ones(len(options), dtype=np.bool_)
        self.ways: dict[int, list[int]] = {}
        for index, option in enumerate(options):
            self.ways.setdefault(option.job.number, []).append(index)

    def run(self) -> dict[int, Placement]:
        """By job, where its units are."""
        placed: dict[int, Placement] = {}
        while self.open.any():
            best = self._next()
            option = self.options[best]
            self._fill(best)
            self.open[best] = False
            if len(option.workers) >= option.least.workers:
                gang = Gang(len(option.workers), len(option.ps), option.least.worker_type, option.least.ps_type)
                placed[option.job.number] = Placement(gang, option.workers, option.ps, Cursors())
                self.open[self.ways[option.job.number]] = False
            else:
                self._give_back(best)
        return placed

    def _next(self) -> int:
        """The option whose task fits best somewhere, with its head start; ties the first."""
        self.scores.renew()
        scores = np.round(self.scores.best[self.together] + self.hurry, DIGITS)
        best = int(np.where(self.open, scores, -np.inf).argmax())
        if self.open[best] and scores[best] > -np.inf:
            return best
        # Nowhere a worker and its parameter server on one server: apart, the most urgent first.
        return int(np.where(self.open, self.hurry, -np.inf).argmax())

    def _fill(self, index: int) -> None:
        """Tasks for one job until its cap or until nothing fits: on a server as many as it holds, then the next."""
        option, server = self.options[index], -1
        while len(option.workers) < option.most:
            alone = len(option.ps) >= option.most_ps
            spot = self._spot(index, server, alone=alone)
            if spot is None:
                break
            for kind, chosen in enumerate(spot):
                if chosen is not None:
                    self.free[:, chosen] -= self.units[index][kind]
                    (option.workers, option.ps)[kind].append(chosen)
                    self.scores.changed(chosen)
            server = spot[0]

    def _spot(self, index: int, server: int, *, alone: bool) -> tuple[int, int | None] | None:
        """Servers of the next worker and parameter server: this one if both fit, else the best for both, else apart."""
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
        before = self.free[:, first].copy()
        self.free[:, first] -= self.units[index][0]
        self.scores.changed(first)
        second = self.scores.spot(ps)
        self.free[:, first] = before
        self.scores.changed(first)
        return None if second is None else (first, second)

    def _best(self, row: int, server: int) -> int | None:
        """The server itself while it has room; else the one that fits best."""
        return server if server >= 0 and self.scores.fits(row, server) else self.scores.spot(row)

    def _give_back(self, index: int) -> None:
        option = self.options[index]
        for kind, servers in enumerate((option.workers, option.ps)):
            for server in servers:
                self.free[:, server] += self.units[index][kind]
                self.scores.changed(server)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Tetris:
    """Tetris with the settings of a scenario."""
    section = Section(fields, "policy", ("weight", "max_workers"))
    check_speeds(jobs)
    return Tetris(
        weight=section.number("weight", Tetris.weight, least=0.0),
        max_workers=section.whole("max_workers", Tetris.max_workers, most=1024),
    )
