"""The menu of one job: what each completion slot costs, and the one it gains most from (rules O3 to O11, C10)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.core.currency import MICRO
from scheduling.core.policies.oasis.curves import IntArray, UnitOffers, cost_curves
from scheduling.core.policies.oasis.market import OasisMarket, Stall
from scheduling.core.policies.oasis.program import WorkTable
from scheduling.core.policies.oasis.runs import Offers, RunOffers, RunTable, gangs_and_slots
from scheduling.core.policies.oasis.work import chunk_slots, gangs, ps_counts
from scheduling.core.posted import menu
from scheduling.core.speed import most_servers
from scheduling.core.types import Cluster, FloatArray, Job, Reason


@dataclass(frozen=True, eq=False)
class BestSchedule:
    """The schedule from which a job gains most: units in each slot from `first` on, and its price. `row` is the row of
    the offers that has all of an unbroken run; None where each slot has its own."""

    worker_type: int
    ps_type: int
    first: int
    workers: list[int]
    ps: list[int]
    choice: menu.Choice
    stalls: Stalls
    offers: Offers
    row: int | None


@dataclass(frozen=True, eq=False)
class Stalls:
    """The stalls of workers and parameter servers at which a job buys."""

    workers: Stall
    ps: Stall

    @property
    def something_comes_back(self) -> bool:
        return any(stall.net_prices is not stall.prices for stall in (self.workers, self.ps))


@dataclass(frozen=True, eq=False)
class ScheduleTable:
    """The cheapest schedules slot by slot, and the offers that they are bought from."""

    table: WorkTable
    offers: Offers

    def costs(self) -> Iterator[menu.Costs]:
        return self.table.costs()

    def workers(self, last: int) -> list[int]:
        return self.table.workers(last)

    def place(self, last: int) -> tuple[Offers, None]:
        """Return the offers. Each slot has a row of its own in them."""
        del last
        return self.offers, None


Table = ScheduleTable | RunTable


@dataclass(frozen=True, eq=False)
class OasisQuestion:
    """One job on one pair of unit types: its work, and the gang that each amount of work in one slot takes."""

    job: Job
    worker_type: int
    ps_type: int
    payer: int | None  # the tenant whose own part comes back; None if the whole price decides
    work: int
    gang: list[int]  # (steps + 1,) workers for 0, 1, 2, ... units of work in a slot
    ps: list[int]  # parameter servers for 0, 1, 2, ... workers
    values: FloatArray  # (slots,) value of completing in the first slot, the next, ...
    first: int


def unservable(job: Job, cluster: Cluster) -> Reason | None:
    """Return why no schedule of this job can be priced, whatever the load; None if some can."""
    for worker in job.worker_types:
        for ps in job.ps_types:
            if worker.mbps > ps.mbps:
                return Reason("ps_bandwidth_below_worker", {"worker_mbps": worker.mbps, "ps_mbps": ps.mbps})
            if not worker.demand.any() or not (ps.demand.any() or ps.absent):
                return Reason("no_demand", {"worker": float(worker.demand.sum()), "ps": float(ps.demand.sum())})
            both = (worker.demand > 0) & (ps.demand > 0)
            if both.any() and (cluster.hosts_workers & cluster.hosts_ps).any():
                return Reason("shared_resource", {"resource": cluster.resources[int(np.argmax(both))]})
    return None


def best_schedule(
    job: Job, worker_type: int, ps_type: int, market: OasisMarket, units: str, mode: str, least: float
) -> BestSchedule | Reason:
    """Return the schedule with the largest value less net price, the first of equals; or why none gains more than
    `least`, which the job has without renting."""
    question = ask(job, worker_type, ps_type, market, most_servers(job, market.cluster), units, mode)
    if (reason := hopeless(question)) is not None:
        return reason
    slots, needed = paying_slots(question, market, least), shortest(question)
    if slots < needed:
        is_net = market.least_net(question.payer) < 1.0
        return menu.outbid(least_price(question, market), float(question.values[needed - 1]), is_net=is_net)
    stalls = _stalls(question, market, slots)
    rows = np.minimum(np.arange(slots), market.rows - 1)
    return _choose(question, stalls, rows, least)


def soonest(
    job: Job, worker_type: int, ps_type: int, market: OasisMarket, servers: int, units: str, mode: str
) -> BestSchedule | None:
    """Return the schedule that ends first, and of those the one with the fewest units: the best where all units are
    free of charge. Return None where no schedule has a positive value. `servers` is the number of servers that the
    job's workers are assumed to be on."""
    question = ask(job, worker_type, ps_type, market, servers, units, mode)
    if hopeless(question) is not None:
        return None
    slots = int(np.flatnonzero(question.values > 0)[-1]) + 1
    stalls = _stalls(question, market, slots)
    table: Table
    if job.unbroken:
        table = _run_table(question, stalls, slots, Stall.by_price)
    else:
        offers = Offers(stalls.workers.by_price(), stalls.ps.by_price())
        rows = np.minimum(np.arange(slots), market.rows - 1)
        table = ScheduleTable(WorkTable(_curves(question, offers)[rows], question.work), offers)
    for slot, (units_taken, _) in enumerate(table.costs()):
        if math.isfinite(units_taken):
            return _best(question, table, menu.free_of_charge(slot, float(question.values[slot])), stalls)
    return None


def ask(
    job: Job, worker_type: int, ps_type: int, market: OasisMarket, servers: int, units: str, mode: str
) -> OasisQuestion:
    """Return the question about the job in numbers."""
    worker, ps = job.worker_types[worker_type], job.ps_types[ps_type]
    per_chunk = chunk_slots(job, worker, ps, market.cluster.slot_seconds, servers)
    work, gang = gangs(job, per_chunk, units, job.max_workers)
    counts = ps_counts(job.max_workers, worker, ps)
    if job.max_ps is not None:
        gang = [workers for workers in gang if counts[workers] <= job.max_ps]
    first = max(market.slot, job.first_slot)
    values = menu.values_of(job, first, market.horizon, mode)
    payer = None if mode == menu.PAPER else job.tenant
    return OasisQuestion(job, worker_type, ps_type, payer, work, gang, counts, values, first)


def shortest(question: OasisQuestion) -> int:
    """Return the slots of the fastest run, on unlimited servers."""
    return math.ceil(question.work / (len(question.gang) - 1))


def hopeless(question: OasisQuestion) -> Reason | None:
    """Return a reason to refuse the job that needs no prices: no gang, too little time, or no value even on an empty
    cluster. Return None if there is none."""
    if len(question.gang) == 1:
        return Reason("no_room", {"asked": 1, "free": 0.0})
    needed = shortest(question)
    if needed > len(question.values):
        return Reason("horizon_too_short", {"needs_slots": needed, "slots": len(question.values)})
    if question.values[needed - 1] <= 0:
        return Reason("not_worth_it", {"best_value": float(question.values[needed - 1])})
    return None


def least_price(question: OasisQuestion, market: OasisMarket) -> float:
    """Return a price below which no schedule is, net of what comes back: every unit costs at least the floor, workers
    need their parameter servers, and at most the largest own part comes back."""
    worker = question.job.worker_types[question.worker_type]
    ps = question.job.ps_types[question.ps_type]
    per_worker = market.worker_price.floor * worker.demand.sum()
    per_worker += worker.mbps / ps.mbps * market.ps_price.floor * ps.demand.sum()
    steps = len(question.gang) - 1
    fewest = min(question.gang[step] / step for step in range(1, steps + 1))
    return float(per_worker * question.work * fewest) * market.least_net(question.payer)


def paying_slots(question: OasisQuestion, market: OasisMarket, least: float) -> int:
    """Return the number of slots in which a completion might gain more than `least`. Values never rise with time."""
    bound = least_price(question, market) * (1.0 - 1e-9) - 1.0 / MICRO
    worth = np.flatnonzero(question.values > bound + least)
    return int(worth[-1]) + 1 if len(worth) else 0


def _stalls(question: OasisQuestion, market: OasisMarket, slots: int) -> Stalls:
    """Return the stalls for the question, with the first `slots` slots, as far as they differ from each other."""
    job, payer, rows = question.job, question.payer, min(slots, market.rows)
    workers = question.gang[-1]
    return Stalls(
        market.workers(job.worker_types[question.worker_type], workers, rows, payer),
        market.parameter_servers(job.ps_types[question.ps_type], question.ps[workers], rows, payer),
    )


def _curves(question: OasisQuestion, offers: Offers, *, other: bool = False) -> FloatArray:
    """Return (rows, steps + 1) the cost of 0, 1, 2, ... units of work in a slot."""
    needed = np.array(question.ps[: question.gang[-1] + 1], dtype=np.int64)
    return cost_curves(offers.workers, offers.ps, needed, other=other)[:, question.gang]


def _choose(question: OasisQuestion, stalls: Stalls, rows: IntArray, least: float) -> BestSchedule | Reason:
    """Return the best schedule of the menu, with its workers in each slot, or why there is none. `rows` (slots,) has
    the stalls' row of each slot."""
    offers = Offers(stalls.workers.by_net_price(), stalls.ps.by_net_price())
    curves = _curves(question, offers)[rows]
    sizes = np.arange(1.0, curves.shape[1])
    bounds = menu.upper_bounds(question.values, curves[:, 1:], sizes, question.work)
    rows = rows[: menu.last_hopeful(bounds, least) + 1]
    wanted = menu.Menu(question.values, bounds[: len(rows)], question.job.max_price, least)
    best = wanted.best(_ways(question, stalls, offers, curves[: len(rows)], rows))
    if isinstance(best, menu.Choice):
        return wanted.why_not(best)
    if best is None and question.job.unbroken and _runs_within(question, len(rows)):
        return _no_run(question, stalls, len(rows))
    if best is None:
        return _dismissal(question, curves, bounds, stalls, offers)
    choice, table = best
    return _best(question, table, choice, stalls)


def _ways(
    question: OasisQuestion, stalls: Stalls, offers: Offers, curves: FloatArray, rows: IntArray
) -> Iterator[tuple[Table, Iterator[menu.Costs]]]:
    """Yield the schedules of the least net cost, and those of the least cost. Both are the same where nothing comes
    back, and then they are yielded once."""
    table: Table
    if question.job.unbroken:
        table = _run_table(question, stalls, len(rows), Stall.by_net_price)
    else:
        beside = _curves(question, offers, other=True)[rows] if stalls.something_comes_back else None
        table = ScheduleTable(WorkTable(curves, question.work, beside), offers)
    yield table, table.costs()
    if not stalls.something_comes_back:
        return
    if question.job.unbroken:
        table = _run_table(question, stalls, len(rows), Stall.by_price)
    else:
        offers = Offers(stalls.workers.by_price(), stalls.ps.by_price())
        costs, beside = _curves(question, offers)[rows], _curves(question, offers, other=True)[rows]
        table = ScheduleTable(WorkTable(costs, question.work, beside), offers)
    yield table, ((net, cost) for cost, net in table.costs())


def _run_table(question: OasisQuestion, stalls: Stalls, slots: int, ordered: Callable[[Stall], UnitOffers]) -> RunTable:
    """Return the unbroken runs that complete in the first `slots` slots, by the prices that `ordered` puts first."""
    runs = []
    for step, length in _runs_within(question, slots):
        starts = min(slots - length + 1, stalls.workers.prices.shape[1])
        offers = Offers(*(ordered(stall.of_runs(length, starts)) for stall in (stalls.workers, stalls.ps)))
        costs, beside = (_curves(question, offers, other=other)[:, step] for other in (False, True))
        runs.append(RunOffers(step, length, offers, costs, beside))
    return RunTable(runs, slots)


def _runs_within(question: OasisQuestion, slots: int) -> list[tuple[int, int]]:
    """Return (units of work in a slot, slots) of the gangs that are done within so many slots, the smallest first."""
    return [each for each in gangs_and_slots(question.gang, question.work) if each[1] <= slots]


def _best(question: OasisQuestion, table: Table, choice: menu.Choice, stalls: Stalls) -> BestSchedule:
    steps, (offers, row) = table.workers(choice.slot), table.place(choice.slot)
    return BestSchedule(
        worker_type=question.worker_type,
        ps_type=question.ps_type,
        first=question.first,
        workers=[question.gang[step] for step in steps],
        ps=[question.ps[question.gang[step]] for step in steps],
        choice=choice,
        stalls=stalls,
        offers=offers,
        row=row,
    )


def _no_run(question: OasisQuestion, stalls: Stalls, slots: int) -> Reason:
    """Return how many workers the smallest gang has that would be done within so many slots, and for how many there is
    room, with their parameter servers, where there is most."""
    step, length = _runs_within(question, slots)[0]
    starts, workers = min(slots - length + 1, stalls.workers.prices.shape[1]), question.gang[step]
    room, room_ps = (each.of_runs(length, starts).by_price().room.sum(axis=1) for each in (stalls.workers, stalls.ps))
    with_ps = np.searchsorted(question.ps[: workers + 1], room_ps, side="right") - 1
    return Reason("no_room", {"asked": workers, "free": float(np.minimum(room, with_ps).max()), "slots": length})


def _dismissal(
    question: OasisQuestion, curves: FloatArray, bounds: FloatArray, stalls: Stalls, offers: Offers
) -> Reason:
    """Return why no completion slot was priced: too few units fit, or the bound alone is above the value."""
    if int(np.isfinite(curves[:, 1:]).sum()) < question.work:
        workers_wanted = question.gang[-1]
        free = np.minimum(offers.workers.room.sum(axis=1), workers_wanted).max()
        return Reason("no_room", {"asked": workers_wanted, "free": float(free)})
    slot = int(np.argmax(bounds))
    value = float(question.values[slot])
    return menu.outbid(value - float(bounds[slot]), value, is_net=stalls.something_comes_back)
