"""The menu of one job: what each completion slot costs, and the one it gains most from (rules P1 to P6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.pdors.program import Table
from scheduling.core.policies.pdors.slots import Search, Slots, slots_of
from scheduling.core.policies.pdors.solver import Deployment
from scheduling.core.policies.pdors.work import Grid, grid_of, parts_of, speed_of
from scheduling.core.posted import menu
from scheduling.core.posted.bounds import Bounds
from scheduling.core.posted.market import Market
from scheduling.core.types import FloatArray, Job, Reason


@dataclass(frozen=True, eq=False)
class Best:
    """The schedule a job gains most from, and its price."""

    worker_type: int
    ps_type: int
    first: int  # slot of the first deployment
    deployments: list[Deployment | None]  # one for each slot
    internal: list[bool]  # of the slots that have one: all on one server
    value: float
    cost: float
    paid: float  # the cost, rounded half up to micro-credits, once and before the test
    slots: Slots

    @property
    def surplus(self) -> float:
        return self.value - self.paid


@dataclass(frozen=True, eq=False)
class Question:
    """One job on one pair of unit types, in numbers."""

    job: Job
    worker_type: int
    ps_type: int
    grid: Grid
    most: int  # workers at once
    values: FloatArray  # (slots,) value of completing in the first slot, the next, ...
    first: int


def unservable(job: Job) -> Reason | None:
    """Why no schedule of this job can be priced at all, whatever the load."""
    for worker in job.worker_types:
        for ps in job.ps_types:
            if not worker.demand.any() or not ps.demand.any():
                return Reason("no_demand", {"worker": float(worker.demand.sum()), "ps": float(ps.demand.sum())})
    return None


def best_schedule(
    job: Job, worker_type: int, ps_type: int, market: Market, bounds: Bounds, parts: int, search: Search
) -> Best | Reason:
    """The completion slot with the largest value less price, the first of equals; or why there is none above zero."""
    question = ask(job, worker_type, ps_type, market, parts)
    if (reason := hopeless(question)) is not None:
        return reason
    least, needed = least_price(question, bounds), shortest(question.grid)
    slots = paying_slots(question.values, least)
    if slots < needed:
        return Reason("outbid", {"price_at_least": least, "value": float(question.values[needed - 1])})
    stalls = slots_of(
        job.number, job.worker_types[worker_type], job.ps_types[ps_type], question.grid, question.most, slots,
        market, bounds, search,
    )  # fmt: skip
    return _choose(question, stalls, stalls.costs[np.minimum(np.arange(slots), len(stalls.costs) - 1)])


def ask(job: Job, worker_type: int, ps_type: int, market: Market, parts: int) -> Question:
    """The question in numbers."""
    speed = speed_of(job, job.worker_types[worker_type], job.ps_types[ps_type], market.cluster.slot_seconds)
    first = max(market.slot, job.first_slot)
    delays = np.arange(first, max(first, market.horizon), dtype=np.float64) - job.first_slot
    grid = grid_of(speed, parts_of(speed, parts), job.max_ps)
    return Question(job, worker_type, ps_type, grid, speed.most, menu.values_after(job, delays), first)


def shortest(grid: Grid) -> int:
    """Slots of the fastest run, on servers without end."""
    return math.ceil(grid.work / int(grid.sizes[-1]))


def hopeless(question: Question) -> Reason | None:
    """Refusals that need no prices: too little time, or worth nothing even on an empty cluster."""
    if not len(question.grid.sizes):
        return Reason("no_room", {"asked": question.job.min_workers, "free": 0.0})
    needed = shortest(question.grid)
    if needed > len(question.values):
        return Reason("horizon_too_short", {"needs_slots": needed, "slots": len(question.values)})
    if question.values[needed - 1] <= 0:
        return Reason("not_worth_it", {"best_value": float(question.values[needed - 1])})
    return None


def least_price(question: Question, bounds: Bounds) -> float:
    """No schedule costs less: every unit costs at least the floor."""
    worker = question.job.worker_types[question.worker_type].demand.sum()
    ps = question.job.ps_types[question.ps_type].demand.sum()
    grid = question.grid
    return float(bounds.floor * grid.work * ((grid.workers * worker + grid.ps * ps) / grid.sizes).min())


def paying_slots(values: FloatArray, least: float) -> int:
    """Slots in which a completion might still be worth more than it costs; values never rise with time."""
    worth = np.flatnonzero(values > least * (1.0 - 1e-9) - 1.0 / menu.MICRO)
    return int(worth[-1]) + 1 if len(worth) else 0


def _choose(question: Question, slots: Slots, costs: FloatArray) -> Best | Reason:
    """The best of the menu, with where its gangs go. `costs` is (slots, gangs)."""
    grid = question.grid
    bounds = menu.upper_bounds(question.values, costs, grid.sizes.astype(np.float64), grid.work)
    last = menu.last_hopeful(bounds)
    table = Table(costs[: last + 1], grid.sizes, grid.work)
    choice = menu.choose(table.costs(), question.values, bounds[: last + 1], question.job.max_price)
    if not isinstance(choice, menu.Choice):
        return choice or _dismissal(question, slots, costs, bounds)
    gangs = table.chosen(choice.slot)
    return Best(
        worker_type=question.worker_type,
        ps_type=question.ps_type,
        first=question.first,
        deployments=[None if gang is None else slots.state(k).deployment(gang) for k, gang in enumerate(gangs)],
        internal=[bool(grid.internal[gang]) for gang in gangs if gang is not None],
        value=float(question.values[choice.slot]),
        cost=choice.cost,
        paid=choice.price,
        slots=slots,
    )


def _dismissal(question: Question, slots: Slots, costs: FloatArray, bounds: FloatArray) -> Reason:
    """Why no completion slot was even priced: too few units fit, or the bound alone is above the value."""
    grid = question.grid
    if np.where(np.isfinite(costs), grid.sizes, 0).max(axis=1).sum() < grid.work:
        free = max(float(state.workers.room.sum()) for state in slots.states)
        asked = int(grid.workers.max())
        return Reason("no_room", {"asked": asked, "free": min(free, float(asked))})
    slot = int(np.argmax(bounds))
    value = float(question.values[slot])
    return Reason("outbid", {"price_at_least": value - float(bounds[slot]), "value": value})
