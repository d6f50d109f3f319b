"""Make the menu of one job: a price for every completion slot. Choose the slot it gains most from (rules O11 and C10).

A schedule collects `work` in steps; each slot offers several step `sizes`, and each of them has its cost. In a market a
payer that owns part of what it buys gets its part of the payment back: its net cost decides, as in the batch lane, and
the whole price has to be held. Both follow from prices posted before the job and from frozen contributions, so no menu
depends on the value that the job reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scheduling.core.currency import MICRO, rounded
from scheduling.core.types import FloatArray, Job, Reason

LAMBDAS = 16  # multipliers tried for the bound; more make it tighter, and take longer
# How values and prices are read: as in every lane of a market, or as in the papers of OASiS and PD-ORS.
MARKET, PAPER = "market", "paper"
MODES = (MARKET, PAPER)
MARGIN = 1e-9  # relative: a gain that is better by no more than this counts as equal

T = TypeVar("T")
Costs = tuple[float, float]  # net, and whole


def values_after(job: Job, delays: FloatArray) -> FloatArray:
    """Return the job's value after each delay (O2). If it is infinite at delay 0, that of one slot counts instead."""
    with np.errstate(divide="ignore"):
        values = job.value(delays)
    return np.where(np.isfinite(values), values, job.value(np.maximum(delays, 1.0)))


def values_of(job: Job, first: int, horizon: int, mode: str) -> FloatArray:
    """Return the job's value (slots,) if the last slot it uses is `first`, the next one, and so on before `horizon`.

    In a market this is f(end - arrival), where the end is the slot after the last one used. In the paper it is
    f(completion slot less arrival slot): a job that ends in its first slot has not waited (O1).
    """
    last = np.arange(first, max(first, horizon), dtype=np.float64)
    return values_after(job, last - job.first_slot if mode == PAPER else last + 1.0 - job.arrival)


def best_value(job: Job, shortest: int, mode: str) -> float:
    """Return the value of a run of `shortest` slots that begins when the job arrives (for the paper: reading A6)."""
    return float(values_after(job, np.array(shortest - 1.0 if mode == PAPER else float(shortest))))


def to_beat(floor: float) -> float:
    """Return what renting has to exceed for a job that its tenant's own cells would give `floor` for nothing (G5)."""
    return floor + MARGIN * max(1.0, floor) if floor else 0.0


def upper_bounds(values: FloatArray, costs: FloatArray, sizes: FloatArray, work: float) -> FloatArray:
    """Return a bound (slots,) that the gain of no completion slot exceeds: value less a Lagrangian lower bound of cost.

    `costs` is (slots, steps), infinite where a step of `sizes` (steps,) is impossible. For any multiplier m,
    cost(t) >= m * work + sum over slots to t of min_y (cost_t(y) - m * y). One pass bounds every completion slot;
    the best of a few multipliers is taken.
    """
    average = costs / sizes
    finite = average[np.isfinite(average)]
    if not len(finite):
        return np.full(len(costs), -np.inf)
    bound = np.zeros(len(costs))
    for multiplier in np.unique(np.quantile(finite, np.linspace(0.0, 1.0, LAMBDAS))):
        slack = np.minimum((costs - multiplier * sizes).min(axis=1), 0.0)
        bound = np.maximum(bound, multiplier * work + np.cumsum(slack))
    return values[: len(costs)] - bound + 1.0 / MICRO + 1e-9 * np.maximum(1.0, bound)


def last_hopeful(bounds: FloatArray, least: float) -> int:
    """Return the last completion slot that may gain more than `least`; -1 if there is none."""
    hopeful = np.flatnonzero(bounds > least)
    return int(hopeful[-1]) if len(hopeful) else -1


@dataclass(frozen=True)
class Choice:
    """A completion slot and what it costs."""

    slot: int
    value: float
    cost: float  # the whole cost at posted prices
    price: float  # what is paid: the cost rounded half up to micro-credits, once and before choices are compared
    net: float  # the part of the price that does not come back to the payer
    at_home: bool = False  # whether it is on its tenant's own idle cells, for nothing

    @property
    def gain(self) -> float:
        return self.value - self.net


def free_of_charge(slot: int, value: float) -> Choice:
    """Return the choice of a completion slot on the tenant's own cells, which costs nothing."""
    return Choice(slot, value, cost=0.0, price=0.0, net=0.0, at_home=True)


def _choice(slot: int, value: float, net_cost: float, cost: float) -> Choice:
    """Return a choice with its prices. The net price is rounded up to micro-credits: a payer's part of a payment is
    rounded down at most once."""
    price = rounded(cost)
    net = price if net_cost == cost else math.ceil(price * MICRO * (net_cost / cost)) / MICRO
    return Choice(slot, value, cost, price, net)


@dataclass(frozen=True, eq=False)
class Menu:
    """The menu of one job: the `values` (slots,) of completing in each slot, the `bounds` of what each may gain (those
    of `upper_bounds`, up to the last hopeful slot), the `most` that the job may pay, and `least`, what it has without
    buying, which a gain has to exceed."""

    values: FloatArray
    bounds: FloatArray
    most: float | None
    least: float

    def best(self, ways: Iterable[tuple[T, Iterator[Costs]]]) -> tuple[Choice, T] | Choice | None:
        """Return the best choice of the menu and the way to it; of equal ones the first.

        A way has one schedule for each completion slot. Further ways are walked only while the limit rules out what
        would be best: less has to be held for them, but their net cost is never less. If nothing is worth its price,
        return the choice that came nearest; if no slot had a price, return None.
        """
        best_offer: tuple[Choice, T] | None = None
        miss: Choice | None = None
        for way, costs in ways:
            choice, nearest = self._walk(costs, self.least if best_offer is None else best_offer[0].gain)
            if choice is not None:
                best_offer = choice, way
            if miss is None or (nearest is not None and nearest.gain > 0):
                miss = nearest
            if (
                nearest is None
                or self.affords(nearest)
                or (best_offer is not None and nearest.gain <= best_offer[0].gain)
            ):
                break
        return best_offer or miss

    def affords(self, choice: Choice) -> bool:
        return self.most is None or choice.price <= self.most

    def _walk(self, costs: Iterator[Costs], gain: float) -> tuple[Choice | None, Choice | None]:
        """Return the best choice that is affordable and gains more than `gain`, and the best of all that have a price.
        Stop where no later completion can gain more than the best so far."""
        later = np.append(np.maximum.accumulate(self.bounds[::-1])[::-1][1:], -np.inf)
        best: Choice | None = None
        nearest: Choice | None = None
        for slot, (net_cost, cost) in enumerate(costs):
            if math.isfinite(cost):
                choice = _choice(slot, float(self.values[slot]), net_cost, cost)
                if self.affords(choice) and choice.gain > gain:
                    best, gain = choice, choice.gain
                if nearest is None or choice.gain > nearest.gain:
                    nearest = choice
            if later[slot] <= gain:
                break
        return best, nearest

    def why_not(self, nearest: Choice) -> Reason:
        """Return why the choice that came nearest is refused. The limit is compared with all that has to be held."""
        if not self.affords(nearest) and nearest.gain > 0:
            return Reason("over_max_price", {"price": nearest.price, "max_price": self.most})
        own_part = {"own_part": nearest.price - nearest.net} if nearest.net != nearest.price else {}
        return Reason("outbid", {"price": nearest.price, "value": nearest.value, **own_part})


def outbid(least: float, value: float, *, is_net: bool) -> Reason:
    """Return the reason of a job whose value no schedule leaves anything of: each costs at least `least`, which is net
    of the job's own part if `is_net`."""
    return Reason("outbid", {"net_price_at_least" if is_net else "price_at_least": least, "value": value})
