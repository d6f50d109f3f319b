"""The menu of one job: a price for every completion slot, and the one it gains most from (rules O11 and C10).

A schedule collects `work` in steps; in every slot a choice of step `sizes` each has its cost. In a market a payer that
owns part of what it buys gets its part of the payment back: its net cost decides, as in the batch lane, and the whole
price is what has to be held. Both come from prices posted before the job and from frozen contributions, so no menu
depends on what the job says it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scheduling.core.currency import MICRO, rounded
from scheduling.core.types import FloatArray, Job, Reason

LAMBDAS = 16  # multipliers tried for the bound; more make it tighter and dearer
# How values and prices are read: as in every lane of a market, or as the publications of OASiS and PD-ORS have them.
MARKET, PAPER = "market", "paper"
MODES = (MARKET, PAPER)
MARGIN = 1e-9  # relative: what is better by no more than this is no better

T = TypeVar("T")
Costs = tuple[float, float]  # net, and whole


def values_after(job: Job, delays: FloatArray) -> FloatArray:
    """What the job is worth after each delay (O2). A value without bound at none counts as that of one slot."""
    with np.errstate(divide="ignore"):
        values = job.value(delays)
    return np.where(np.isfinite(values), values, job.value(np.maximum(delays, 1.0)))


def values_of(job: Job, first: int, horizon: int, mode: str) -> FloatArray:
    """(slots,) what it is worth that slot `first`, the next, ... is the last one used.

    In a market f(end - arrival), the end being the slot after the last one used. In the paper f(completion slot less
    arrival slot): whoever ends in its first slot has not waited (O1).
    """
    last = np.arange(first, max(first, horizon), dtype=np.float64)
    return values_after(job, last - job.first_slot if mode == PAPER else last + 1.0 - job.arrival)


def best_value(job: Job, shortest: int, mode: str) -> float:
    """What a run of so many slots is worth that begins as the job comes (the paper: reading A6)."""
    return float(values_after(job, np.array(shortest - 1.0 if mode == PAPER else float(shortest))))


def to_beat(floor: float) -> float:
    """What renting has to leave a job to which its tenant's own cells would give `floor` for nothing: more (G5)."""
    return floor + MARGIN * max(1.0, floor) if floor else 0.0


def upper_bounds(values: FloatArray, costs: FloatArray, sizes: FloatArray, work: float) -> FloatArray:
    """(slots,) no completion slot gains more than this: value less a Lagrangian lower bound of the cost.

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
    """The last completion slot that may gain more than `least`; -1 for none."""
    hopeful = np.flatnonzero(bounds > least)
    return int(hopeful[-1]) if len(hopeful) else -1


@dataclass(frozen=True)
class Choice:
    """A completion slot and what it costs."""

    slot: int
    value: float
    cost: float  # whole, at posted prices
    price: float  # the cost rounded half up to micro-credits, once and before the test: what is paid
    net: float  # of the price, what does not come back to the payer
    at_home: bool = False  # on its tenant's own idle cells, for nothing

    @property
    def gain(self) -> float:
        return self.value - self.net


def free_of_charge(slot: int, value: float) -> Choice:
    """On the tenant's own cells."""
    return Choice(slot, value, cost=0.0, price=0.0, net=0.0, at_home=True)


def _choice(slot: int, value: float, net_cost: float, cost: float) -> Choice:
    """The net price is rounded up to micro-credits: a payer's part of a payment is rounded down at most once."""
    price = rounded(cost)
    net = price if net_cost == cost else math.ceil(price * MICRO * (net_cost / cost)) / MICRO
    return Choice(slot, value, cost, price, net)


@dataclass(frozen=True, eq=False)
class Menu:
    """`values` (slots,) of completing in each slot, `bounds` of what each may gain (those of `upper_bounds`, up to the
    last hopeful one), the `most` that the job may pay, and what it has without: `least`."""

    values: FloatArray
    bounds: FloatArray
    most: float | None
    least: float

    def best(self, ways: Iterable[tuple[T, Iterator[Costs]]]) -> tuple[Choice, T] | Choice | None:
        """The best of the menu and the way to it, the first of equals.

        A way has one schedule for each completion slot. Further ways are walked only while the limit rules out what
        would be best: they cost less to hold, and never less in the end. Without anything that is worth its price,
        the choice that came nearest; nothing at all where no slot had a price.
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
        """The best that is affordable and gains more than `gain`, and the best of all that have a price. Stops where no
        later completion can gain more than the best so far."""
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
        """What is wrong with the choice that came nearest. The limit is compared with all that has to be held."""
        if not self.affords(nearest) and nearest.gain > 0:
            return Reason("over_max_price", {"price": nearest.price, "max_price": self.most})
        own_part = {"own_part": nearest.price - nearest.net} if nearest.net != nearest.price else {}
        return Reason("outbid", {"price": nearest.price, "value": nearest.value, **own_part})


def outbid(least: float, value: float, *, is_net: bool) -> Reason:
    """Nothing is left of a value for which no schedule costs less than `least`, in the end where that is net."""
    return Reason("outbid", {"net_price_at_least" if is_net else "price_at_least": least, "value": value})
