"""The tenants' jobs in the coming slot: in which order they have their turns, and what each tenant is entitled to."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduling.core.gangs import GangUnits, halved
from scheduling.core.placement import Placement
from scheduling.core.speed import TOLERANCE
from scheduling.core.types import Cluster, FloatArray, Job, View

DIGITS = 9  # decimals to which passes are compared


@dataclass(frozen=True)
class Past:
    """What is remembered of a job: the worker-slots served, the last slot in which it ran, and where."""

    served: float = 0.0
    slot: int = -1
    places: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, job: Job, memory: Mapping[str, Any]) -> Past:
        row = memory.get("jobs", {}).get(str(job.number))
        return cls() if row is None else cls(*row)


@dataclass(eq=False)
class JobTurn:
    """A job in the coming slot, and its placement once it has one."""

    job: Job
    remaining: float
    gang: GangUnits
    past: Past
    placement: Placement | None = None

    def memory(self, slot: int) -> list[Any]:
        if self.placement is None:
            return [self.past.served, self.past.slot, self.past.places]
        return [self.past.served + self.gang.workers, slot, places_of(self.placement)]


@dataclass(eq=False)
class TenantQueue:
    """A tenant with its jobs. `owed` is the pass times the tickets: workers received less workers entitled to. It is
    remembered under the tenant's name, as a number is another tenant's once one comes or goes."""

    tenant: int
    name: str
    turns: list[JobTurn] = field(default_factory=list)
    tickets: float = 0.0
    owed: float = 0.0

    @property
    def order(self) -> tuple[bool, float, int]:
        """Return the sort key: tenants without tickets come after all others, then the smallest pass is first, and
        equal passes are ordered by number."""
        return self.tickets <= 0, round(self.owed / (self.tickets or 1.0), DIGITS), self.tenant


def places_of(placement: Placement) -> list[list[int]]:
    return [list(placement.workers), list(placement.ps)]


def single_gangs(job: Job, workers: int) -> Iterator[GangUnits]:
    """Yield gangs like `gangs` does, with one parameter server each, or none where the job has none. They are made one
    by one, as mostly the first is taken."""
    for size in halved(job, workers):
        for worker_type in range(len(job.worker_types)):
            for ps_type in range(len(job.ps_types)):
                yield GangUnits(size, job.least_ps, worker_type, ps_type)


def tickets_of(cluster: Cluster, jobs: Sequence[Job]) -> FloatArray:
    """Return (tenants,) the part that each owns of the resources that the workers of these jobs take, on average."""
    demand = sum((unit.demand for job in jobs for unit in job.worker_types), np.zeros(len(cluster.resources)))
    named = (demand > 0) & (cluster.total > 0)
    if not named.any():
        return np.ones(len(cluster.tenants))
    tickets: FloatArray = (cluster.quota[named] / cluster.total[named][:, None]).mean(axis=0)
    return tickets


def entitle(queues: Sequence[TenantQueue], tickets: FloatArray, view: View) -> None:
    """Set each tenant's `owed`: as it was, less what the tenant is entitled to in the coming slot.

    The workers to be shared are those that jobs ask for, as far as the scarcest of their resources suffices.
    """
    demands = np.array([float(sum(turn.gang.workers for turn in queue.turns)) for queue in queues])
    amounts = [0.0] * len(view.cluster.resources)
    for queue in queues:
        queue.tickets = float(tickets[queue.tenant])
        for turn in queue.turns:
            for resource, amount in turn.job.worker_types[turn.gang.worker_type].named:
                amounts[resource] += turn.gang.workers * amount
    wanted_amounts = np.array(amounts)
    free = (view.cluster.capacity - view.occupied[:, :1].sum(axis=1)).sum(axis=1)
    part = min([1.0, *(free[wanted_amounts > 0] / wanted_amounts[wanted_amounts > 0]).tolist()])
    shares = max_min(demands, np.array([queue.tickets for queue in queues]), part * float(demands.sum()))
    for queue, share in zip(queues, shares.tolist(), strict=True):
        queue.owed = view.memory.get("debts", {}).get(queue.name, 0.0) - share


def max_min(demands: FloatArray, weights: FloatArray, total: float) -> FloatArray:
    """Return (tenants,) shares in proportion to the weights, none above its demand; what is left over is shared again.

    Tenants without weight share what all others together do not ask for, in equal parts.
    """
    shares = np.zeros(len(demands))
    for group in (weights > 0, weights <= 0):
        open_ = group & (demands > 0)
        weight = np.where(weights > 0, weights, 1.0)
        while open_.any() and (rest := total - float(shares.sum())) > TOLERANCE:
            level = rest / float(weight[open_].sum())
            full = open_ & (demands <= level * weight)
            if not full.any():
                shares[open_] = level * weight[open_]
                break
            shares[full] = demands[full]
            open_ &= ~full
    return shares


def level_passes(queues: Sequence[TenantQueue]) -> None:
    """Count passes from their mean, so that a tenant that becomes active begins at the mean of the active tenants."""
    for group in ([q for q in queues if q.tickets > 0], [q for q in queues if q.tickets <= 0]):
        mean = sum(queue.owed for queue in group) / (sum(queue.tickets or 1.0 for queue in group) or 1.0)
        for queue in group:
            queue.owed -= mean * (queue.tickets or 1.0)


def turns_of(queues: list[TenantQueue], within: str) -> Iterator[JobTurn]:
    """Yield the jobs one by one, the next always from the tenant with the smallest pass. A tenant is charged for each
    job that is placed."""
    for queue in queues:
        if within == "stride":
            queue.turns.sort(key=lambda turn: (turn.past.served, turn.job.arrival, turn.job.number))
    heap = [(queue.order, place, iter(queue.turns)) for place, queue in enumerate(queues)]
    heapq.heapify(heap)
    while heap:
        _, place, turns = heap[0]
        turn = next(turns, None)
        if turn is None:
            heapq.heappop(heap)
            continue
        yield turn
        if turn.placement is not None:
            queues[place].owed += turn.gang.workers
            heapq.heapreplace(heap, (queues[place].order, place, turns))
