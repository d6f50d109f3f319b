"""Dominant resource fairness: in every slot the job with the smallest share of the cluster gets the next worker.

A job's share is the largest part of the cluster that it holds of any resource. Every slot is filled anew from an
empty cluster, first server first, so the allocation stays as it is until a job comes or goes. Jobs pause and move
free of charge. No job that could ever run is refused.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from scheduling.core.empty import EmptyCluster
from scheduling.core.gangs import GangUnits, gangs
from scheduling.core.placement import Cursors, Placement, Vacancies
from scheduling.core.scenario import Section
from scheduling.core.slot_bookings import SlotPart, part_booking
from scheduling.core.speed import parameter_servers
from scheduling.core.types import (
    CENTRALIZED,
    REJECTED,
    WAITING,
    Booking,
    Cluster,
    FloatArray,
    Job,
    Plan,
    Reason,
    Refusal,
    UnitType,
    View,
)

WORKER, PS = 0, 1


@dataclass(frozen=True)
class DominantResourceFairness:
    """Progressive filling. It has no settings."""

    name: ClassVar[str] = "dominant_resource_fairness"

    def decide(self, view: View) -> Plan:
        """Book one slot for every job that gets a worker in it."""
        use = view.occupied[:, :1].max(axis=1, initial=0.0)
        held = _filled(view.cluster, view.waiting, use.tobytes())
        empty = EmptyCluster(view.cluster)
        bookings: list[Booking] = []
        refusals: list[Refusal] = []
        for job, part, remaining in zip(view.waiting, held, view.remaining.tolist(), strict=True):
            if part is not None:
                spread = len(part.counts) if job.all_reduce else None
                central = part.kind == CENTRALIZED
                rate = part.gang.rate(job, view.cluster.slot_seconds, centralized=central, servers=spread)
                bookings.append(part_booking(job, remaining, part, rate, view))
            else:
                could_run = any(empty.holds(job, gang) for gang in gangs(job, job.min_workers))
                reason = Reason("no_room", {"asked": job.min_workers})
                refusals.append(Refusal(job.number, reason, WAITING if could_run else REJECTED))
        return Plan(bookings, refusals)

    def place(self, view: View, gangs: Mapping[int, GangUnits]) -> Mapping[int, Placement]:
        """Return where the gang of each job is placed: here too, workers and parameter servers go round the servers."""
        vacancies, cursors = Vacancies(view.cluster, view.occupied), Cursors()
        placed: dict[int, Placement] = {}
        for job in view.waiting:
            if (placement := vacancies.place(job, gangs[job.number], cursors)) is not None:
                placed[job.number], cursors = placement, placement.cursors
        return placed


@lru_cache(maxsize=4)
def _filled(cluster: Cluster, jobs: tuple[Job, ...], use: bytes) -> tuple[SlotPart | None, ...]:
    """Return what each job gets, None for nothing. It depends only on the jobs that wait and on the amounts that
    others use (resources, servers), so it is cached: most slots are filled like the one before."""
    amounts = np.frombuffer(use).reshape(cluster.capacity.shape)
    return tuple([_part(holding) for holding in _Filling(cluster, jobs, amounts).run()])


def _part(holding: _Holding) -> SlotPart | None:
    if not holding.workers:
        return None
    gang = GangUnits(len(holding.workers), len(holding.ps), holding.worker_type, holding.ps_type)
    placement = Placement(gang, holding.workers, holding.ps, Cursors())
    return SlotPart(gang, placement.kind, placement.counts())


@dataclass(slots=True)
class _Holding:
    """What a job holds so far of the slot: the server of each of its units."""

    job: Job
    worker_type: int = 0
    ps_type: int = 0
    workers: list[int] = field(default_factory=list)
    ps: list[int] = field(default_factory=list)
    # by resource, the parts of the cluster's total that one worker and one parameter server take
    parts: Sequence[tuple[float, float]] = ()

    @property
    def units(self) -> tuple[UnitType, UnitType]:
        """Return the types that the job runs on: worker, parameter server."""
        return self.job.worker_types[self.worker_type], self.job.ps_types[self.ps_type]

    def share(self) -> float:
        """Return the largest part that the job holds of any resource of the cluster."""
        workers, servers, largest = len(self.workers), len(self.ps), 0.0
        for one, other in self.parts:  # called for every worker dealt; `max` of a generator takes twice as long
            part = one * workers + other * servers
            if part > largest:
                largest = part
        return largest


class _Filling:
    """The state of one slot while it is filled. Workers and parameter servers go round the servers, each kind with a
    cursor of its own."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], use: FloatArray) -> None:
        self.jobs = jobs
        self.vacancies = Vacancies(cluster, use[:, None])
        self.total: list[float] = cluster.total.tolist()
        self.hosts = (self.vacancies.hosts_workers, self.vacancies.hosts_ps)
        self.cursors = [0, 0]  # of workers and of parameter servers
        self.full: set[int] = set()  # unit types (by identity) of which not one more fits

    def run(self) -> list[_Holding]:
        """Deal out workers until no job can take another one, and return what each waiting job holds."""
        held = [_Holding(job) for job in self.jobs]
        queue = [(0.0, holding.job.arrival, holding.job.number, holding) for holding in held]
        heapq.heapify(queue)
        while queue:
            _, arrival, number, holding = queue[0]
            if self._grow(holding):
                heapq.heapreplace(queue, (holding.share(), arrival, number, holding))
            else:
                heapq.heappop(queue)
        return held

    def _grow(self, holding: _Holding) -> bool:
        """Give a job its next worker, at first its least number of workers, with the parameter servers it needs."""
        job = holding.job
        if holding.workers:
            return len(holding.workers) < job.max_workers and self._add(holding, 1)
        for gang in gangs(job, job.min_workers):
            holding.worker_type, holding.ps_type = gang.worker_type, gang.ps_type
            if self._add(holding, job.min_workers):
                holding.parts = list(zip(*(self._part(unit) for unit in holding.units), strict=True))
                return True
        return False

    def _add(self, holding: _Holding, count: int) -> bool:
        worker, ps = holding.units
        needed = parameter_servers(len(holding.workers) + count, worker.mbps, ps.mbps)
        if holding.job.max_ps is not None and needed > holding.job.max_ps:
            return False
        workers = self._deal(worker, count, WORKER)
        if workers is None:
            return False
        more = needed - len(holding.ps)
        servers = self._deal(ps, more, PS) if more else []
        if servers is None:
            self.vacancies.give_back(worker, workers)
            self.full.discard(id(ps))  # there may be room for it without these workers
            return False
        holding.workers += workers
        holding.ps += servers
        self.cursors[WORKER] = workers[-1] + 1
        if servers:
            self.cursors[PS] = servers[-1] + 1
        return True

    def _deal(self, unit: UnitType, count: int, kind: int) -> list[int] | None:
        """Return servers for `count` units, or None. Room only shrinks, but for workers that are given back, so once a
        single unit of a type has found no room, that type is not tried again."""
        if id(unit) in self.full:
            return None
        if count > 1:
            return self.vacancies.deal(unit, count, self.cursors[kind], self.hosts[kind])
        server = self.vacancies.deal_one(unit, self.cursors[kind], self.hosts[kind])
        if server is None:
            self.full.add(id(unit))
            return None
        return [server]

    def _part(self, unit: UnitType) -> list[float]:
        """Return the part of each resource of the cluster that one unit takes."""
        return [amount / total if amount else 0.0 for amount, total in zip(unit.amounts, self.total, strict=True)]


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> DominantResourceFairness:
    """Build the policy. It has no settings, and any field is an error."""
    Section(fields, "policy", ())
    return DominantResourceFairness()
