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
from scheduling.core.occupancy import ROUNDING
from scheduling.core.placement import Cursors, EmptyCluster, Gang, Placement, even_gangs, slot_booking
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


class _Packing:
    """One slot while it is packed."""

    def __init__(self, view: View, options: Sequence[_Option], weight: float) -> None:
        self.options, cluster = options, view.cluster
        self.free = cluster.capacity - view.occupied[:, :1].sum(axis=1) + ROUNDING  # (resources, servers)
        self.hosts = (cluster.hosts_workers, cluster.hosts_ps)
        self.part = np.divide(1.0, cluster.total, out=np.zeros(len(cluster.total)), where=cluster.total > 0)
        self.units = [option.demands() for option in options]
        self.tasks = np.array([worker + ps for worker, ps in self.units]) * self.part  # (options, resources)
        fits = self.tasks @ (self.free * self.part[:, None])
        self.mean = float(fits.mean()) or 1.0
        hurry = 1.0 / np.array([option.seconds() for option in options])
        self.hurry = weight * hurry / hurry.mean()
        self.scores = np.full(fits.shape, -np.inf)  # (options, servers) of a task there, -inf where it does not fit
        self.open: BoolArray = np.ones(len(options), dtype=np.bool_)
        self._rescore(np.arange(fits.shape[1]))

    def run(self) -> dict[int, Placement]:
        """By job, where its units are."""
        placed: dict[int, Placement] = {}
        while self.open.any():
            best = int(self.scores.argmax()) // self.scores.shape[1]
            if self.scores[best].max() == -np.inf:
                # Nowhere a worker and its parameter server on one server: apart, the most urgent first.
                best = int(np.where(self.open, self.hurry, -np.inf).argmax())
            option = self.options[best]
            self._fill(best)
            self._close([best])
            if len(option.workers) >= option.least.workers:
                gang = Gang(len(option.workers), len(option.ps), option.least.worker_type, option.least.ps_type)
                placed[option.job.number] = Placement(gang, option.workers, option.ps, Cursors())
                self._close([other for other, way in enumerate(self.options) if way.job is option.job])
            else:
                self._give_back(best)
        return placed

    def _fill(self, index: int) -> None:
        """Tasks for one job until its cap or until nothing fits: on a server as many as it holds, then the next."""
        option, server = self.options[index], -1
        changed: set[int] = set()
        while len(option.workers) < option.most:
            alone = len(option.ps) >= option.most_ps
            spot = self._spot(index, server, alone=alone)
            if spot is None:
                break
            for kind, chosen in enumerate(spot):
                if chosen is not None:
                    self.free[:, chosen] -= self.units[index][kind]
                    (option.workers, option.ps)[kind].append(chosen)
                    changed.add(chosen)
            server = spot[0]
        self._rescore(np.array(sorted(changed), dtype=np.intp))

    def _spot(self, index: int, server: int, *, alone: bool) -> tuple[int, int | None] | None:
        """Servers of the next worker and parameter server: this one if both fit, else the best for both, else apart."""
        worker, ps = self.units[index]
        if alone:
            spot = self._best(worker, self.hosts[0], server)
            return None if spot is None else (spot, None)
        together = self._best(worker + ps, self.hosts[0] & self.hosts[1], server)
        if together is not None:
            return together, together
        first = self._best(worker, self.hosts[0], server)
        if first is None:
            return None
        before = self.free[:, first].copy()
        self.free[:, first] -= worker
        second = self._best(ps, self.hosts[1], -1)
        self.free[:, first] = before
        return None if second is None else (first, second)

    def _best(self, demand: FloatArray, hosts: BoolArray, server: int) -> int | None:
        """The server itself while it has room; else the one with the largest dot product; ties the first."""
        if server >= 0 and hosts[server] and (self.free[:, server] >= demand).all():
            return server
        room = hosts & (self.free >= demand[:, None]).all(axis=0)
        if not room.any():
            return None
        fits = (demand * self.part) @ (self.free * self.part[:, None]) / self.mean
        return int(np.where(room, np.round(fits, DIGITS), -np.inf).argmax())

    def _close(self, options: Sequence[int]) -> None:
        """These are not looked at again."""
        self.open[options] = False
        self.scores[options] = -np.inf

    def _give_back(self, index: int) -> None:
        option = self.options[index]
        for kind, servers in enumerate((option.workers, option.ps)):
            for server in servers:
                self.free[:, server] += self.units[index][kind]
        self._rescore(np.unique(np.array([*option.workers, *option.ps], dtype=np.intp)))

    def _rescore(self, servers: np.ndarray[Any, np.dtype[np.intp]]) -> None:
        """Scores on servers whose room has changed."""
        free = self.free[:, servers]
        demand = np.array([worker + ps for worker, ps in self.units])
        hosts = (self.hosts[0] & self.hosts[1])[servers]
        room = self.open[:, None] & hosts & (free[None] >= demand[:, :, None]).all(axis=1)
        fits = self.tasks @ (free * self.part[:, None]) / self.mean
        self.scores[:, servers] = np.where(room, np.round(fits + self.hurry[:, None], DIGITS), -np.inf)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Tetris:
    """Tetris with the settings of a scenario."""
    section = Section(fields, "policy", ("weight", "max_workers"))
    check_speeds(jobs)
    return Tetris(
        weight=section.number("weight", Tetris.weight, least=0.0),
        max_workers=section.whole("max_workers", Tetris.max_workers, most=1024),
    )
