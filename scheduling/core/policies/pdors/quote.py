"""The menu of one job: what each completion slot costs, and the one it gains most from (rules P1 to P6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.core.currency import MICRO
from scheduling.core.policies.pdors.program import QuantaTable
from scheduling.core.policies.pdors.slots import GangSearch, Slots, slots_of
from scheduling.core.policies.pdors.solver import Deployment
from scheduling.core.policies.pdors.work import Grid, grid_of, parts_of, speed_of
from scheduling.core.posted import menu
from scheduling.core.posted.bounds import PriceBounds
from scheduling.core.posted.market import PostedMarket
from scheduling.core.speed import most_servers
from scheduling.core.types import FloatArray, Job, Reason


@dataclass(frozen=True, eq=False)
class BestGangs:
    """The schedule from which a job gains most, and its price."""

    worker_type: int
    ps_type: int
    first: int  # slot of the first deployment
    deployments: list[Deployment | None]  # one for each slot
    internal: list[bool]  # for each slot with a deployment, whether it is all on one server
    choice: menu.Choice
    slots: Slots


@dataclass(frozen=True, eq=False)
class PdorsQuestion:
    """One job on one pair of unit types, in numbers."""

    job: Job
    worker_type: int
    ps_type: int
    payer: int | None  # the tenant whose own part comes back; None if the whole price decides
    grid: Grid
    most: int  # workers at once
    values: FloatArray  # (slots,) value of completing in the first slot, the next, ...
    first: int


def unservable(job: Job) -> Reason | None:
    """Return why no schedule of this job can be priced, whatever the load; None if some can."""
    if job.unbroken:  # each slot has a gang of its own, drawn for that slot
        return Reason("changes_servers")
    for worker in job.worker_types:
        for ps in job.ps_types:
            if not worker.demand.any() or not (ps.demand.any() or ps.absent):
                return Reason("no_demand", {"worker": float(worker.demand.sum()), "ps": float(ps.demand.sum())})
    return None


@dataclass(frozen=True, eq=False)
class BuyingCounter:
    """Where a job buys: the market with its bounds, the least quanta of a worker's slot (`parts`), and the way to find
    gangs on several servers."""

    market: PostedMarket
    bounds: PriceBounds
    parts: int
    search: GangSearch
    mode: str

    def slots_of(self, question: PdorsQuestion, rows: int, *, by_price: bool = False) -> Slots:
        """Return the first `rows` slots, with the costs of the question's gangs."""
        job = question.job
        return slots_of(
            job.number, job.worker_types[question.worker_type], job.ps_types[question.ps_type], question.grid,
            question.most, rows, self.market, self.bounds, self.search, question.payer, by_price=by_price,
        )  # fmt: skip


def best_schedule(job: Job, worker_type: int, ps_type: int, counter: BuyingCounter, least: float) -> BestGangs | Reason:
    """Return the schedule with the largest value less net price, the first of equals; or why none gains more than
    `least`, which the job has without renting."""
    question = ask(job, worker_type, ps_type, counter)
    if (reason := hopeless(question)) is not None:
        return reason
    cheapest, needed = least_price(question, counter), shortest(question.grid)
    rows = paying_slots(question.values, cheapest, least)
    if rows < needed:
        is_net = counter.market.least_net(question.payer) < 1.0
        return menu.outbid(cheapest, float(question.values[needed - 1]), is_net=is_net)
    return _choose(question, counter, rows, least)


def soonest(job: Job, worker_type: int, ps_type: int, counter: BuyingCounter) -> BestGangs | None:
    """Return the schedule that ends first, and of those the one with the fewest amounts: the best where all units are
    free of charge. Return None where no schedule has a positive value."""
    question = ask(job, worker_type, ps_type, counter)
    if hopeless(question) is not None:
        return None
    rows = int(np.flatnonzero(question.values > 0)[-1]) + 1
    slots = counter.slots_of(question, rows, by_price=True)
    table = QuantaTable(_expanded(slots, rows)[0], question.grid.sizes, question.grid.work)
    for slot, (amounts, _) in enumerate(table.costs()):
        if math.isfinite(amounts):
            return _best(question, table, menu.free_of_charge(slot, float(question.values[slot])), slots)
    return None


def ask(job: Job, worker_type: int, ps_type: int, counter: BuyingCounter) -> PdorsQuestion:
    """Return the question about the job in numbers."""
    market = counter.market
    types = job.worker_types[worker_type], job.ps_types[ps_type]
    speed = speed_of(job, *types, market.cluster.slot_seconds, most_servers(job, market.cluster))
    first = max(market.slot, job.first_slot)
    values = menu.values_of(job, first, market.horizon, counter.mode)
    grid = grid_of(speed, parts_of(speed, counter.parts), job.max_ps)
    payer = None if counter.mode == menu.PAPER else job.tenant
    return PdorsQuestion(job, worker_type, ps_type, payer, grid, speed.most, values, first)


def shortest(grid: Grid) -> int:
    """Return the slots of the fastest run, on unlimited servers."""
    return math.ceil(grid.work / int(grid.sizes[-1]))


def hopeless(question: PdorsQuestion) -> Reason | None:
    """Return a reason to refuse the job that needs no prices: no gang, too little time, or no value even on an empty
    cluster. Return None if there is none."""
    if not len(question.grid.sizes):
        return Reason("no_room", {"asked": question.job.min_workers, "free": 0.0})
    needed = shortest(question.grid)
    if needed > len(question.values):
        return Reason("horizon_too_short", {"needs_slots": needed, "slots": len(question.values)})
    if question.values[needed - 1] <= 0:
        return Reason("not_worth_it", {"best_value": float(question.values[needed - 1])})
    return None


def least_price(question: PdorsQuestion, counter: BuyingCounter) -> float:
    """Return a price below which no schedule is, net of what comes back: every unit costs at least the floor, and at
    most the largest own part comes back."""
    worker = question.job.worker_types[question.worker_type].demand.sum()
    ps = question.job.ps_types[question.ps_type].demand.sum()
    grid = question.grid
    amounts = float(((grid.workers * worker + grid.ps * ps) / grid.sizes).min())
    return counter.bounds.floor * grid.work * amounts * counter.market.least_net(question.payer)


def paying_slots(values: FloatArray, cheapest: float, least: float) -> int:
    """Return the number of slots in which a completion might gain more than `least`. Values never rise with time."""
    worth = np.flatnonzero(values > cheapest * (1.0 - 1e-9) - 1.0 / MICRO + least)
    return int(worth[-1]) + 1 if len(worth) else 0


def _expanded(slots: Slots, rows: int) -> FloatArray:
    """Return (2, rows, gangs) the costs in every slot, in both measures."""
    return slots.costs[:, np.minimum(np.arange(rows), slots.costs.shape[1] - 1)]


def _choose(question: PdorsQuestion, counter: BuyingCounter, rows: int, least: float) -> BestGangs | Reason:
    """Return the best schedule of the menu, with the places of its gangs, or why there is none."""
    grid, slots = question.grid, counter.slots_of(question, rows)
    costs = _expanded(slots, rows)
    bounds = menu.upper_bounds(question.values, costs[0], grid.sizes.astype(np.float64), grid.work)
    hopeful = menu.last_hopeful(bounds, least) + 1
    wanted = menu.Menu(question.values, bounds[:hopeful], question.job.max_price, least)
    best = wanted.best(_ways(question, counter, slots, costs[:, :hopeful]))
    if isinstance(best, menu.Choice):
        return wanted.why_not(best)
    if best is None:
        return _dismissal(question, slots, costs[0], bounds)
    choice, (table, slots) = best
    return _best(question, table, choice, slots)


def _ways(
    question: PdorsQuestion, counter: BuyingCounter, slots: Slots, costs: FloatArray
) -> Iterator[tuple[tuple[QuantaTable, Slots], Iterator[menu.Costs]]]:
    """Yield the schedules of the least net cost, and those of the least cost. Both are the same where nothing comes
    back, and then they are yielded once."""
    grid, rows = question.grid, costs.shape[1]
    table = QuantaTable(costs[0], grid.sizes, grid.work, costs[1] if slots.something_comes_back else None)
    yield (table, slots), table.costs()
    if slots.something_comes_back:
        slots = counter.slots_of(question, rows, by_price=True)
        costs = _expanded(slots, rows)
        table = QuantaTable(costs[0], grid.sizes, grid.work, costs[1])
        yield (table, slots), ((net, cost) for cost, net in table.costs())


def _best(question: PdorsQuestion, table: QuantaTable, choice: menu.Choice, slots: Slots) -> BestGangs:
    gangs = table.gangs_to(choice.slot)
    return BestGangs(
        worker_type=question.worker_type,
        ps_type=question.ps_type,
        first=question.first,
        deployments=[None if gang is None else slots.state(k).deployment(gang) for k, gang in enumerate(gangs)],
        internal=[bool(question.grid.internal[gang]) for gang in gangs if gang is not None],
        choice=choice,
        slots=slots,
    )


def _dismissal(question: PdorsQuestion, slots: Slots, costs: FloatArray, bounds: FloatArray) -> Reason:
    """Return why no completion slot was priced: too few units fit, or the bound alone is above the value."""
    grid = question.grid
    if np.where(np.isfinite(costs), grid.sizes, 0).max(axis=1).sum() < grid.work:
        free = max(float(state.workers.room.sum()) for state in slots.states)
        workers_wanted = int(grid.workers.max())
        return Reason("no_room", {"asked": workers_wanted, "free": min(free, float(workers_wanted))})
    slot = int(np.argmax(bounds))
    value = float(question.values[slot])
    return menu.outbid(value - float(bounds[slot]), value, is_net=slots.something_comes_back)
