"""The interval of a figure, by drawing whole days again with replacement, many times and from a seed.

Arrivals are one draw of what might have been. Days are the blocks, and a figure is worked out anew from each draw of as
many days as there are. Plain percentiles of the draws contain the truth less often than they claim, for three reasons.
Each has its own correction, which is known from the literature and has no number that was fitted to our histories. All
three use what each day does to the figure: by how much it is less when that day is left out (the jackknife).

- There are few days. The percentiles are moved outwards to z = sqrt(n / (n - 1)) t(0.95, n - 1) in place of 1.645
  standard deviations (the expanded percentile interval).
- A few days are large. Histories that happen to have few of them have small sums and small spreads, so that misses are
  on one side. With a = sum u^3 / (6 (sum u^2)^1.5), u what each day does less its mean, the levels become
  Phi(a + (a -+ z) / (1 - a (a -+ z))) (Efron's accelerated interval; the median's bias of a sum is a as well).
- What still waits at midnight is carried over, so that a day is like the day before it. With r the correlation of each
  day with the next, n days say as much as n (1 - r) / (1 + r) independent days, and the interval is
  stretched about the figure by f = sqrt((1 + r) / (1 - r)). A month gives r only roughly: its expected error,
  -(1 + 3 r) / n, is taken off (Kendall), and the stretched spread has m = (n - 1) / (1 + 2 f^2) degrees of freedom
  (Satterthwaite's, from the variances of r and of the spread), so it is stretched by t(0.95, m) / t(0.95, n - 1) too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

Numbers = npt.NDArray[np.float64]
TAIL = 0.05  # part on each side
LEAST_CARRIED, MOST_CARRIED = -0.5, 0.9  # the bounds of a day's correlation with the day before
LEAST_FREEDOM = 2.0  # fewer make short logs' intervals endless, and no more of them hold the truth


@dataclass(frozen=True)
class Sure:
    """A figure and its interval."""

    value: float
    low: float
    high: float

    @property
    def is_seen(self) -> bool:
        """Return whether the interval leaves zero out, that is, whether there is a difference."""
        return self.low > 0 or self.high < 0


def day_weights(days: int, draws: int, seed: int) -> Numbers:
    """Return (draws, days) how often each day is in each draw; every row sums to `days`."""
    picked = np.random.default_rng(seed).integers(days, size=(draws, days))
    weights = np.zeros((draws, days))
    np.add.at(weights, (np.arange(draws)[:, None], picked), 1.0)
    return weights


def left_out_weights(days: int) -> Numbers:
    """Return (days, days) weights of the days: in each row one of them is left out."""
    weights: Numbers = 1.0 - np.eye(days)
    return weights


def interval(
    value: float, draws: Numbers, left_out: Numbers, *, least: float = -math.inf, most: float = math.inf
) -> Sure:
    """Return the figure with its interval, from its draws, (draws,), and from its values with each day left out,
    (days,).

    A draw that gives no number (0 of 0) is skipped. The interval stays between `least` and `most`.
    """
    finite = draws[np.isfinite(draws)]
    if not len(finite) or not math.isfinite(value):
        return Sure(value, math.nan, math.nan)
    days, effects = len(left_out), _effects(left_out)
    usual = stdtrit(days - 1, 1 - TAIL)
    z, lean = math.sqrt(days / (days - 1)) * usual, _lean(effects)
    levels = [ndtr(lean + (lean + side) / (1 - lean * (lean + side))) for side in (-z, z)]
    carried = _carried(effects)
    longer = (1 + carried) / (1 - carried)
    freedom = max((days - 1) / (1 + 2 * longer), LEAST_FREEDOM)
    stretch = math.sqrt(longer) * stdtrit(freedom, 1 - TAIL) / usual
    low, high = value + (np.quantile(finite, levels) - value) * stretch
    return Sure(value, max(float(low), least), min(float(high), most))


def _effects(left_out: Numbers) -> Numbers:
    """Return (days,) what each day does to a figure, about zero. A day without which no figure is left counts as
    zero."""
    finite = np.isfinite(left_out)
    if not finite.any():
        return np.zeros(len(left_out))
    effects: Numbers = np.where(finite, left_out[finite].mean() - left_out, 0.0)
    return effects


def _lean(effects: Numbers) -> float:
    """Return the acceleration: zero where large days are as frequent as small ones, at most a sixth."""
    squares = float((effects**2).sum())
    return float((effects**3).sum()) / (6 * squares**1.5) if squares else 0.0


def _carried(effects: Numbers) -> float:
    """Return the correlation of a day with the next, less its expected error."""
    squares = float((effects**2).sum())
    if not squares:
        return 0.0
    plain = float((effects[1:] * effects[:-1]).sum()) / squares
    return min(max(plain + (1 + 3 * plain) / len(effects), LEAST_CARRIED), MOST_CARRIED)


def sum_of_days(by_day: Numbers, weights: Numbers) -> Sure:
    """Return a sum over days, from its parts (days,). Where no day takes anything away, no sum is below zero."""
    left_out = left_out_weights(len(by_day)) @ by_day
    least = 0.0 if (by_day >= 0).all() else -math.inf
    return interval(float(by_day.sum()), weights @ by_day, left_out, least=least)


def ratio_of_days(parts: Numbers, wholes: Numbers, weights: Numbers, *, most: float = math.inf) -> Sure:
    """Return one sum over days divided by another; `most` is the largest possible ratio."""
    others = left_out_weights(len(parts))
    with np.errstate(divide="ignore", invalid="ignore"):
        draws, left_out = (weights @ parts) / (weights @ wholes), (others @ parts) / (others @ wholes)
        value = np.float64(parts.sum()) / np.float64(wholes.sum())
    least = 0.0 if (parts >= 0).all() else -math.inf
    return interval(float(value), draws, left_out, least=least, most=most)


def widest(figures: Sequence[Sure]) -> Sure:
    """Return the first figure, with an interval that contains those of all figures, that is, of all assumptions."""
    lows, highs = [figure.low for figure in figures], [figure.high for figure in figures]
    return Sure(figures[0].value, min(lows), max(highs))


@dataclass(frozen=True, eq=False)
class DrawQuantiles:
    """Points below which given parts of some values lie, where each value weighs as often as its day is drawn.

    The point of level q is the smallest value with at least q of the whole weight at or below it.
    """

    values: Numbers  # (levels,) points of the values as they are
    draws: Numbers  # (draws, levels)
    left_out: Numbers  # (days, levels) with one day left out

    def sure(self, level: int) -> Sure:
        """Return one of the points with its interval."""
        return interval(float(self.values[level]), self.draws[:, level], self.left_out[:, level], least=0.0)

    def less(self, other: DrawQuantiles, level: int) -> Sure:
        """Return by how much a point is higher than that of other values of the same jobs, with the days of both drawn
        together."""
        value = float(self.values[level] - other.values[level])
        draws, left_out = self.draws - other.draws, self.left_out - other.left_out
        return interval(value, draws[:, level], left_out[:, level])


def points(values: Numbers, days: npt.NDArray[np.intp], weights: Numbers, levels: Sequence[float]) -> DrawQuantiles:
    """Return the points of values (jobs,), none below zero, on their days (jobs,)."""
    order = np.argsort(values, kind="stable")
    ordered, of_day, parts = values[order], days[order], np.array(levels)
    reached = np.maximum(np.ceil(parts * len(ordered)).astype(np.intp) - 1, 0)
    plain = ordered[reached] if len(ordered) else np.full(len(parts), math.nan)
    rows = np.vstack([weights, left_out_weights(weights.shape[1])])
    draws = np.full((len(rows), len(parts)), math.nan)
    for row, weight in enumerate(rows):
        sums = np.cumsum(weight[of_day])
        if len(sums) and sums[-1] > 0:
            draws[row] = ordered[np.searchsorted(sums, parts * sums[-1] * (1 - 1e-12))]
    return DrawQuantiles(plain, draws[: len(weights)], draws[len(weights) :])
