"""The menu of one job: a price for every completion slot, and the one it gains most from (rules O11 and C10).

A schedule collects `work` in steps; in every slot a choice of step `sizes` each has its cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.core.types import FloatArray, Job, Reason

MICRO = 1e6
LAMBDAS = 16  # multipliers tried for the bound; more make it tighter and dearer


def values_after(job: Job, delays: FloatArray) -> FloatArray:
    """What the job is worth after each delay (O2). A value without bound at none counts as that of one slot."""
    with np.errstate(divide="ignore"):
        values = job.value(delays)
    return np.where(np.isfinite(values), values, job.value(np.maximum(delays, 1.0)))


def rounded(cost: float) -> float:
    """The price of a schedule: its cost, half up to whole micro-credits."""
    return math.floor(cost * MICRO + 0.5) / MICRO


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


def last_hopeful(bounds: FloatArray) -> int:
    """The last completion slot that may gain anything; -1 for none."""
    hopeful = np.flatnonzero(bounds > 0)
    return int(hopeful[-1]) if len(hopeful) else -1


@dataclass(frozen=True)
class Choice:
    """A completion slot, its cost, and the cost rounded half up to micro-credits, once and before the test."""

    slot: int
    cost: float
    price: float


def choose(
    costs: Iterator[float], values: FloatArray, bounds: FloatArray, most: float | None
) -> Choice | Reason | None:
    """Walk the menu in order of time; stop where no later completion can gain more than the best so far.

    `bounds` are those of `upper_bounds`, up to the last hopeful slot; `most` is what the job may pay. A reason says
    what the nearest miss was; nothing at all means that no slot had a price.
    """
    later = np.append(np.maximum.accumulate(bounds[::-1])[::-1][1:], -np.inf)
    best, gain, refused = None, 0.0, _NearestMiss(most)
    for slot, cost in enumerate(costs):
        if math.isfinite(cost):
            price, value = rounded(cost), float(values[slot])
            affordable = most is None or price <= most
            refused.note(price, value, affordable)
            if affordable and value - price > gain:
                best, gain = Choice(slot, cost, price), value - price
        if later[slot] <= gain:
            break
    return best or refused.reason()


class _NearestMiss:
    """The nearest miss seen on the menu, for the reason of a refusal."""

    def __init__(self, most: float | None) -> None:
        self.most = most
        self.nearest: tuple[float, float, bool] | None = None  # price, value, affordable

    def note(self, price: float, value: float, affordable: bool) -> None:
        if self.nearest is None or value - price > self.nearest[1] - self.nearest[0]:
            self.nearest = (price, value, affordable)

    def reason(self) -> Reason | None:
        if self.nearest is None:
            return None
        price, value, affordable = self.nearest
        if not affordable and value > price:
            return Reason("over_max_price", {"price": price, "max_price": self.most})
        return Reason("outbid", {"price": price, "value": value})
