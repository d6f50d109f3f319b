"""The menu of one job: what each completion slot costs, and the one it gains most from (rules O3 to O11, C10)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.oasis.curves import cost_curves
from scheduling.core.policies.oasis.market import Market, Stall
from scheduling.core.policies.oasis.program import Table
from scheduling.core.policies.oasis.work import chunk_slots, gangs, ps_counts
from scheduling.core.posted import menu
from scheduling.core.types import Cluster, FloatArray, Job, Reason


@dataclass(frozen=True, eq=False)
class Best:
    """The schedule a job gains most from: workers in each slot from `first` on, and its price."""

    worker_type: int
    ps_type: int
    first: int
    workers: list[int]
    ps: list[int]
    value: float
    cost: float
    paid: float  # the cost, rounded half up to micro-credits, once and before the test
    worker_stall: Stall
    ps_stall: Stall

    @property
    def surplus(self) -> float:
        return self.value - self.paid


@dataclass(frozen=True, eq=False)
class Question:
    """One job on one pair of unit types: the work, and the gang that so much work in one slot takes."""

    job: Job
    worker_type: int
    ps_type: int
    work: int
    gang: list[int]  # (steps + 1,) workers for 0, 1, 2, ... units of work in a slot
    ps: list[int]  # parameter servers for 0, 1, 2, ... workers
    values: FloatArray  # (slots,) value of completing in the first slot, the next, ...
    first: int


def unservable(job: Job, cluster: Cluster) -> Reason | None:
    """Why no schedule of this job can be priced at all, whatever the load."""
    for worker in job.worker_types:
        for ps in job.ps_types:
            if worker.mbps > ps.mbps:
                return Reason("ps_bandwidth_below_worker", {"worker_mbps": worker.mbps, "ps_mbps": ps.mbps})
            if not worker.demand.any() or not ps.demand.any():
                return Reason("no_demand", {"worker": float(worker.demand.sum()), "ps": float(ps.demand.sum())})
            both = (worker.demand > 0) & (ps.demand > 0)
            if both.any() and (cluster.hosts_workers & cluster.hosts_ps).any():
                return Reason("shared_resource", {"resource": cluster.resources[int(np.argmax(both))]})
    return None


def best_schedule(job: Job, worker_type: int, ps_type: int, market: Market, units: str) -> Best | Reason:
    """The completion slot with the largest value less price, the first of equals; or why there is none above zero."""
    question = ask(job, worker_type, ps_type, market, units)
    if (reason := hopeless(question)) is not None:
        return reason
    slots, needed = paying_slots(question, market), shortest(question)
    if slots < needed:
        value = float(question.values[needed - 1])
        return Reason("outbid", {"price_at_least": least_price(question, market), "value": value})
    rows = min(slots, market.rows)
    workers = market.workers(job.worker_types[worker_type], rows)
    ps = market.parameter_servers(job.ps_types[ps_type], rows)
    curves = _curves(question, workers, ps)[np.minimum(np.arange(slots), rows - 1)]
    return _choose(question, curves, workers, ps)


def ask(job: Job, worker_type: int, ps_type: int, market: Market, units: str) -> Question:
    """The question in numbers."""
    worker, ps = job.worker_types[worker_type], job.ps_types[ps_type]
    per_chunk = chunk_slots(job, worker, ps, market.cluster.slot_seconds)
    work, gang = gangs(job, per_chunk, units, job.max_workers)
    counts = ps_counts(job.max_workers, worker, ps)
    if job.max_ps is not None:
        gang = [workers for workers in gang if counts[workers] <= job.max_ps]
    first = max(market.slot, job.first_slot)
    delays = np.arange(first, max(first, market.horizon), dtype=np.float64) - job.first_slot
    return Question(job, worker_type, ps_type, work, gang, counts, menu.values_after(job, delays), first)


def shortest(question: Question) -> int:
    """Slots of the fastest run, on servers without end."""
    return math.ceil(question.work / (len(question.gang) - 1))


def hopeless(question: Question) -> Reason | None:
    """Refusals that need no prices: too little time, or worth nothing even on an empty cluster."""
    if len(question.gang) == 1:
        return Reason("no_room", {"asked": 1, "free": 0.0})
    needed = shortest(question)
    if needed > len(question.values):
        return Reason("horizon_too_short", {"needs_slots": needed, "slots": len(question.values)})
    if question.values[needed - 1] <= 0:
        return Reason("not_worth_it", {"best_value": float(question.values[needed - 1])})
    return None


def least_price(question: Question, market: Market) -> float:
    """No schedule costs less: every unit costs at least the floor, and workers bring their parameter servers."""
    worker = question.job.worker_types[question.worker_type]
    ps = question.job.ps_types[question.ps_type]
    per_worker = market.worker_price.floor * worker.demand.sum()
    per_worker += worker.mbps / ps.mbps * market.ps_price.floor * ps.demand.sum()
    steps = len(question.gang) - 1
    fewest = min(question.gang[step] / step for step in range(1, steps + 1))
    return float(per_worker * question.work * fewest)


def paying_slots(question: Question, market: Market) -> int:
    """Slots in which a completion might still be worth more than it costs; values never rise with time."""
    bound = least_price(question, market) * (1.0 - 1e-9) - 1.0 / menu.MICRO
    worth = np.flatnonzero(question.values > bound)
    return int(worth[-1]) + 1 if len(worth) else 0


def _curves(question: Question, workers: Stall, ps: Stall) -> FloatArray:
    """(rows, steps + 1) cost of 0, 1, 2, ... units of work in a slot."""
    needed = np.array(question.ps[: question.gang[-1] + 1], dtype=np.int64)
    return cost_curves(workers.offer, ps.offer, needed)[:, question.gang]


def _choose(question: Question, curves: FloatArray, workers: Stall, ps: Stall) -> Best | Reason:
    """The best of the menu, with its workers in each slot."""
    sizes = np.arange(1.0, curves.shape[1])
    bounds = menu.upper_bounds(question.values, curves[:, 1:], sizes, question.work)
    last = menu.last_hopeful(bounds)
    table = Table(curves[: last + 1], question.work)
    choice = menu.choose(table.costs(), question.values, bounds[: last + 1], question.job.max_price)
    if not isinstance(choice, menu.Choice):
        return choice or _dismissal(question, curves, bounds, workers)
    steps = table.workers(choice.slot)
    return Best(
        worker_type=question.worker_type,
        ps_type=question.ps_type,
        first=question.first,
        workers=[question.gang[step] for step in steps],
        ps=[question.ps[question.gang[step]] for step in steps],
        value=float(question.values[choice.slot]),
        cost=choice.cost,
        paid=choice.price,
        worker_stall=workers,
        ps_stall=ps,
    )


def _dismissal(question: Question, curves: FloatArray, bounds: FloatArray, workers: Stall) -> Reason:
    """Why no completion slot was even priced: too few units fit, or the bound alone is above the value."""
    if int(np.isfinite(curves[:, 1:]).sum()) < question.work:
        free = np.minimum(workers.offer.room.sum(axis=1), question.gang[-1]).max()
        return Reason("no_room", {"asked": question.work, "free": float(free)})
    slot = int(np.argmax(bounds))
    value = float(question.values[slot])
    return Reason("outbid", {"price_at_least": value - float(bounds[slot]), "value": value})
