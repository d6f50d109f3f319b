"""Dominant resource fairness: in every slot the job with the smallest share of the cluster gets the next worker.

A job's share is the largest part of the cluster that it holds of any resource. Every slot is filled anew from an
empty cluster, first server first, so the allocation stays as it is until a job comes or goes. Jobs pause and move
free of charge; none is refused that could ever run.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from scheduling.core.gangs import Gang, gangs
from scheduling.core.placement import Cursors, Placement, Vacancies, fits_empty
from scheduling.core.scenario import Section
from scheduling.core.speed import TOLERANCE, parameter_servers
from scheduling.core.types import (
    CENTRALIZED,
    REJECTED,
    WAITING,
    Booking,
    Cluster,
    Job,
    Plan,
    Reason,
    Refusal,
    UnitType,
    View,
)


@dataclass(frozen=True)
class DominantResourceFairness:
    """Progressive filling. It has no settings."""

    name: ClassVar[str] = "dominant_resource_fairness"

    def decide(self, view: View) -> Plan:
        """One slot for every job that gets a worker in it."""
        filling = _Filling(view)
        held = filling.run()
        bookings: list[Booking] = []
        refusals: list[Refusal] = []
        for holding, remaining in zip(held, view.remaining.tolist(), strict=True):
            if holding.workers:
                bookings.append(_booking(holding, remaining, view))
            else:
                state = WAITING if filling.could_run(holding.job) else REJECTED
                reason = Reason("no_room", {"asked": holding.job.min_workers})
                refusals.append(Refusal(holding.job.number, reason, state))
        return Plan(bookings, refusals)


@dataclass(slots=True)
class _Holding:
    """What a job holds so far of the slot: the server of each of its units."""

    job: Job
    worker_type: int = 0
    ps_type: int = 0
    workers: list[int] = field(default_factory=list)
    ps: list[int] = field(default_factory=list)

    @property
    def units(self) -> tuple[UnitType, UnitType]:
        """The types it runs on."""
        return self.job.worker_types[self.worker_type], self.job.ps_types[self.ps_type]


class _Filling:
    """One slot being filled. Workers and parameter servers go round the servers, each kind with its own cursor."""

    def __init__(self, view: View) -> None:
        self.jobs, self.cluster = view.waiting, view.cluster
        self.vacancies = Vacancies(view.cluster, view.occupied)
        self.total: list[float] = view.cluster.total.tolist()
        self.hosts = {"workers": self.vacancies.hosts_workers, "ps": self.vacancies.hosts_ps}
        self.cursors = {"workers": 0, "ps": 0}
        self.full: set[int] = set()  # unit types (by identity) of which not one more fits
        self.parts: dict[int, list[float]] = {}
        self.possible: dict[tuple[object, ...], bool] = {}

    def run(self) -> list[_Holding]:
        """What each waiting job holds once nobody can take another worker."""
        held = [_Holding(job) for job in self.jobs]
        queue = [(0.0, holding.job.arrival, holding.job.number, holding) for holding in held]
        heapq.heapify(queue)
        while queue:
            _, arrival, number, holding = queue[0]
            if self._grow(holding):
                heapq.heapreplace(queue, (self._share(holding), arrival, number, holding))
            else:
                heapq.heappop(queue)
        return held

    def could_run(self, job: Job) -> bool:
        """Whether the empty cluster holds the job's least gang. Most jobs ask for the same, so it is remembered."""
        units = (*job.worker_types, *job.ps_types)
        key = (job.min_workers, job.max_ps, *map(id, units))
        if key not in self.possible:
            least = gangs(job, job.min_workers)
            self.possible[key] = any(fits_empty(job, gang, self.cluster) for gang in least)
        return self.possible[key]

    def _grow(self, holding: _Holding) -> bool:
        """Give a job its next worker, at first its least number of workers, with the parameter servers it needs."""
        job = holding.job
        if holding.workers:
            return len(holding.workers) < job.max_workers and self._add(holding, 1)
        for gang in gangs(job, job.min_workers):
            holding.worker_type, holding.ps_type = gang.worker_type, gang.ps_type
            if self._add(holding, job.min_workers):
                return True
        return False

    def _add(self, holding: _Holding, count: int) -> bool:
        worker, ps = holding.units
        needed = parameter_servers(len(holding.workers) + count, worker.mbps, ps.mbps)
        if holding.job.max_ps is not None and needed > holding.job.max_ps:
            return False
        workers = self._deal(worker, count, "workers")
        if workers is None:
            return False
        servers = self._deal(ps, needed - len(holding.ps), "ps")
        if servers is None:
            self.vacancies.give_back(worker, workers)
            return False
        for kind, dealt in (("workers", workers), ("ps", servers)):
            if dealt:
                self.cursors[kind] = (dealt[-1] + 1) % len(self.vacancies.free)
        holding.workers += workers
        holding.ps += servers
        return True

    def _deal(self, unit: UnitType, count: int, kind: str) -> list[int] | None:
        """Servers for so many units. Room only shrinks, so where one unit found none the next looks no more."""
        if id(unit) in self.full:
            return None if count else []
        dealt = self.vacancies.deal(unit, count, self.cursors[kind], self.hosts[kind])
        if dealt is None and count == 1:
            self.full.add(id(unit))
        return dealt

    def _share(self, holding: _Holding) -> float:
        """The largest part that the job holds of any resource of the cluster."""
        worker, ps = (self._part(unit) for unit in holding.units)
        workers, servers = len(holding.workers), len(holding.ps)
        return max(one * workers + other * servers for one, other in zip(worker, ps, strict=True))

    def _part(self, unit: UnitType) -> list[float]:
        """The part of each resource of the cluster that one unit takes."""
        if id(unit) not in self.parts:
            demand = unit.demand.tolist()
            self.parts[id(unit)] = [
                amount / total if amount else 0.0 for amount, total in zip(demand, self.total, strict=True)
            ]
        return self.parts[id(unit)]


def _booking(holding: _Holding, remaining: float, view: View) -> Booking:
    """The coming slot. What the run is worth stands on the booking that completes the job."""
    job = holding.job
    gang = Gang(len(holding.workers), len(holding.ps), holding.worker_type, holding.ps_type)
    placement = Placement(gang, holding.workers, holding.ps, Cursors())
    kind = placement.kind
    rate = gang.rate(job, view.cluster.slot_seconds, centralized=kind == CENTRALIZED)
    end = view.slot + 1
    completes = rate >= remaining - TOLERANCE * job.work
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placement.allocation(view.slot, end),
        work=remaining if completes else rate,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        placement=kind,
        value=float(job.value(end - job.arrival)) if completes else 0.0,
        ideal=float(job.value(end - job.first_slot)) if completes else 0.0,
    )


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> DominantResourceFairness:
    """The policy; it has no settings, and any field is an error."""
    Section(fields, "policy", ())
    return DominantResourceFairness()
