"""How sure a figure is: whole days drawn again with replacement, so many times, by a seed.

Arrivals are one draw of what might have been. Days are the blocks: what happens within a day hangs together, what
happens on different days is taken as independent. A figure is worked out anew from each draw of as many days as there
are; nine tenths of the draws lie in its interval. With few days plain percentiles of the draws are too narrow, by the
factor sqrt((n - 1) / n) and by the tails of Student's distribution; the levels are moved outwards to make up for it:
Phi(-sqrt(n / (n - 1)) t(0.95, n - 1)) in place of 0.05 (the expanded percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

Numbers = npt.NDArray[np.float64]
TAIL = 0.05  # on each side


@dataclass(frozen=True)
class Sure:
    """A figure and the interval that it lies in."""

    value: float
    low: float
    high: float

    @property
    def is_seen(self) -> bool:
        """Whether the interval leaves zero out: there is a difference."""
        return self.low > 0 or self.high < 0


def day_weights(days: int, draws: int, seed: int) -> Numbers:
    """(draws, days) how often each day stands in each draw; every row sums to `days`."""
    picked = np.random.default_rng(seed).integers(days, size=(draws, days))
    weights = np.zeros((draws, days))
    np.add.at(weights, (np.arange(draws)[:, None], picked), 1.0)
    return weights


def interval(value: float, drawn: Numbers, days: int) -> Sure:
    """The figure with the interval of its draws, (draws,). A draw that gives no number (0 of 0) is passed over."""
    known = drawn[np.isfinite(drawn)]
    if not len(known) or not math.isfinite(value):
        return Sure(value, math.nan, math.nan)
    tail = float(ndtr(-math.sqrt(days / (days - 1)) * stdtrit(days - 1, 1 - TAIL)))
    low, high = np.quantile(known, [tail, 1 - tail])
    return Sure(value, float(low), float(high))


def sum_of_days(by_day: Numbers, weights: Numbers) -> Sure:
    """A sum over days, from its parts (days,)."""
    return interval(float(by_day.sum()), weights @ by_day, len(by_day))


def ratio_of_days(parts: Numbers, wholes: Numbers, weights: Numbers) -> Sure:
    """One sum over days by another."""
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = (weights @ parts) / (weights @ wholes)
        value = np.float64(parts.sum()) / np.float64(wholes.sum())
    return interval(float(value), drawn, len(parts))


def widest(figures: Sequence[Sure]) -> Sure:
    """The first figure, with an interval that holds those of all: of all assumptions."""
    lows, highs = [figure.low for figure in figures], [figure.high for figure in figures]
    return Sure(figures[0].value, min(lows), max(highs))


@dataclass(frozen=True, eq=False)
class Points:
    """Points below which so many parts of some values lie, each value weighing as often as its day is drawn.

    The point of level q is the smallest value with at least q of the whole weight at or below it.
    """

    values: Numbers  # (levels,) of the values as they are
    drawn: Numbers  # (draws, levels)
    days: int

    def sure(self, level: int) -> Sure:
        """One of the points with its interval."""
        return interval(float(self.values[level]), self.drawn[:, level], self.days)

    def less(self, other: Points, level: int) -> Sure:
        """By how much a point is higher than that of other values of the same jobs, day by day drawn together."""
        value = float(self.values[level] - other.values[level])
        return interval(value, self.drawn[:, level] - other.drawn[:, level], self.days)


def points(values: Numbers, days: npt.NDArray[np.intp], weights: Numbers, levels: Sequence[float]) -> Points:
    """The points of values (jobs,) on their days (jobs,)."""
    order = np.argsort(values, kind="stable")
    ordered, of_day, parts = values[order], days[order], np.array(levels)
    reached = np.maximum(np.ceil(parts * len(ordered)).astype(np.intp) - 1, 0)
    plain = ordered[reached] if len(ordered) else np.full(len(parts), math.nan)
    drawn = np.full((len(weights), len(parts)), math.nan)
    for row, weight in enumerate(weights):
        sums = np.cumsum(weight[of_day])
        if len(sums) and sums[-1] > 0:
            drawn[row] = ordered[np.searchsorted(sums, parts * sums[-1] * (1 - 1e-12))]
    return Points(plain, drawn, weights.shape[1])
