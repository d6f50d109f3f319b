"""What every gang of a job costs in every slot, and where it would be placed (rule P5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import ROUNDING
from scheduling.core.policies.pdors.greedy import GangSpread, SlotUnits, spread, units_of
from scheduling.core.policies.pdors.solver import Deployment, program_of, relaxed, rounded_at_random, whole_optimum
from scheduling.core.policies.pdors.work import Grid
from scheduling.core.posted.bounds import PriceBounds
from scheduling.core.posted.market import PostedMarket
from scheduling.core.prices import payable
from scheduling.core.types import FloatArray, UnitType

GREEDY, ROUNDING_AT_RANDOM, MILP = "greedy", "rounding", "milp"
EXTERNAL = (GREEDY, ROUNDING_AT_RANDOM, MILP)


@dataclass(frozen=True)
class GangSearch:
    """The way to find gangs on several servers, and its settings."""

    external: str = GREEDY
    gain: float = 1.0  # the factor of the fractions before they are rounded (G)
    tries: int = 20  # the number of roundings, of which the cheapest feasible one is kept (S)
    seed: int = 1


class SlotState:
    """The state of one slot for one job. Slots that are alike share one state."""

    def __init__(
        self, workers: SlotUnits, ps: SlotUnits, free: FloatArray, grid: Grid, draws: Callable[..., FloatArray]
    ):
        self.workers, self.ps, self.free, self.grid = workers, ps, free, grid
        self._draws = draws  # (workers, tries, columns) -> random numbers of the roundings
        self._inside, self._outside = np.flatnonzero(grid.internal), np.flatnonzero(~grid.internal)
        self._solutions: dict[int, Deployment] = {}  # by gang, the solver's result

    def costs(self, search: GangSearch, most: int) -> FloatArray:
        """Return (2, gangs) the cost of each gang in either measure; infinite where there is no room for it."""
        costs = np.full((2, len(self.grid.sizes)), np.inf)
        if len(self._inside) and len(self.workers.room):
            cost, other = self._on_one_server(self._inside)
            at = np.arange(len(cost)), cost.argmin(axis=1)
            costs[:, self._inside] = cost[at], other[at]
        if len(self._outside):
            spread_costs = self._spread(self._outside)
            costs[:, self._outside] = spread_costs.cost, spread_costs.other
            if search.external != GREEDY:
                self._solve(search, most, costs)
        return costs

    def deployment(self, gang: int) -> Deployment:
        """Return where a gang would be placed."""
        workers, ps = np.zeros(len(self.workers.room)), np.zeros(len(self.workers.room))
        if self.grid.internal[gang]:
            costs = self._on_one_server(np.array([gang]))[0][0]
            server = int(np.argmin(costs))  # the first of equals
            workers[server], ps[server] = self.grid.workers[gang], self.grid.ps[gang]
            return Deployment(workers, ps, float(costs[server]))
        if gang in self._solutions:
            return self._solutions[gang]
        spread_costs = self._spread(np.array([gang]))
        return Deployment(*spread_costs.deployment(0, len(workers)), float(spread_costs.cost[0]))

    def _spread(self, gangs: npt.NDArray[np.intp]) -> GangSpread:
        """Return gangs of rising size on several servers."""
        return spread(self.workers, self.ps, self.grid.workers[gangs], self.grid.ps[gangs], self.free)

    def _on_one_server(self, gangs: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return the costs (gangs, servers) of each gang all on one server, in either measure; infinite where it does
        not fit."""
        workers, ps = self.grid.workers[gangs], self.grid.ps[gangs]
        fits = np.tile(self.workers.hosts & self.ps.hosts, (len(gangs), 1))
        for resource, free in enumerate(self.free):
            needed = workers * self.workers.demand[resource] + ps * self.ps.demand[resource]
            if needed.any():
                fits &= needed[:, None] <= free + ROUNDING / 2  # the calendar tolerates the other half
        cost = workers[:, None] * self.workers.price + ps[:, None] * self.ps.price
        other = workers[:, None] * self.workers.other + ps[:, None] * self.ps.other
        return np.where(fits, cost, np.inf), np.where(fits, other, np.inf)

    def _solve(self, search: GangSearch, most: int, costs: FloatArray) -> None:
        """Let a solver find the gangs on several servers, and enter its results into `costs` (2, gangs)."""
        program = program_of(self.workers, self.ps, self.free, most)
        apart = self._apart()
        for index, gang in enumerate(self._outside.tolist()):
            workers, ps = int(self.grid.workers[gang]), int(self.grid.ps[gang])
            if not np.isfinite(apart[index]):
                continue  # one kind alone has too little room
            solution = None
            if search.external == ROUNDING_AT_RANDOM:
                fractions = relaxed(program, workers, ps)
                if fractions is not None:
                    draws = self._draws(workers, search.tries, len(fractions))
                    solution = rounded_at_random(program, fractions, workers, ps, search.gain, draws)
                better = solution is not None  # as in the paper: greedy is used only where no rounding is feasible
            else:
                if costs[0, gang] > apart[index] * (1.0 + 1e-12):
                    solution = whole_optimum(program, workers, ps)
                better = solution is not None and solution.cost < costs[0, gang]
            if solution is not None and better:
                other = float(solution.workers @ self.workers.other + solution.ps @ self.ps.other)
                self._solutions[gang], costs[:, gang] = solution, (solution.cost, other)

    def _apart(self) -> FloatArray:
        """Return (gangs on several servers,) the cost if workers and parameter servers did not compete for room, which
        is a lower bound."""
        total = np.zeros(len(self._outside))
        for units, counts in ((self.workers, self.grid.workers), (self.ps, self.grid.ps)):
            most = int(counts[self._outside].max())
            rooms = np.minimum(units.room[units.order], most).astype(np.int64)
            prices = np.repeat(units.price[units.order], rooms)[:most]
            padded = np.concatenate([[0.0], np.cumsum(prices), np.full(most - len(prices), np.inf)])
            total += padded[counts[self._outside]]
        return total


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots of a market for one job on one pair of types. All slots after the last row are like it."""

    prices: FloatArray  # (resources, rows, servers) posted, per unit and slot
    something_comes_back: bool  # whether a part of these prices comes back to the payer
    states: list[SlotState]
    state_of: npt.NDArray[np.intp]  # (rows,) index into the states
    costs: FloatArray  # (2, rows, gangs) in the measure that is minimised, and in the other

    def state(self, offset: int) -> SlotState:
        """Return the state of the slot at `offset` from the market's first."""
        return self.states[self.state_of[min(offset, len(self.state_of) - 1)]]


def slots_of(
    job: int, worker: UnitType, ps: UnitType, grid: Grid, most: int, rows: int, market: PostedMarket,
    bounds: PriceBounds, search: GangSearch, payer: int | None, *, by_price: bool = False,
) -> Slots:  # fmt: skip
    """Return the first `rows` slots of the market, with costs minimised by net price, or by the whole price with
    `by_price`. The random numbers of a state are those of its first slot: they depend on the seed, the job's number,
    the slot and the gang, never on the reported value of the job (B6)."""
    rows = min(rows, market.rows)
    named = np.flatnonzero((worker.demand > 0) | (ps.demand > 0))
    hosts_ps = market.cluster.hosts_workers if ps.absent else market.cluster.hosts_ps
    cluster, free, prices = market.cluster, market.free(rows), market.posted(bounds, named, rows)
    for unit in (worker, ps):
        prices = payable(prices, unit.demand, cluster.least_payment)
    net = market.net(prices, payer)
    small, other = (prices, net) if by_price else (net, prices)
    states: list[SlotState] = []
    numbers: dict[bytes, int] = {}
    state_of = np.zeros(rows, dtype=np.intp)
    for row in range(rows):
        key = free[named, row].tobytes() + prices[named, row].tobytes() + net[named, row].tobytes()
        if key not in numbers:
            numbers[key] = len(states)

            def draws(workers: int, tries: int, columns: int, slot: int = market.slot + row) -> FloatArray:
                return np.random.default_rng((search.seed, job, slot, workers)).random((tries, columns))

            here, there = free[:, row], (small[:, row], other[:, row])
            worker_units = units_of(worker.demand, cluster.hosts_workers, *there, here, last_first=False)
            ps_units = units_of(ps.demand, hosts_ps, *there, here, last_first=True)
            states.append(SlotState(worker_units, ps_units, here, grid, draws))
        state_of[row] = numbers[key]
    costs = np.stack([state.costs(search, most) for state in states], axis=1)
    return Slots(prices, net is not prices, states, state_of, costs[:, state_of])
