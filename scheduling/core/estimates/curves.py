"""Fit Optimus' loss curve, l = 1 / (b0 k + b1) + b2 without negative coefficients, to many jobs at once (section 3.1).

For a fixed b2 the curve is linear: (l - b2)(b0 k + b1) = 1. Least squares of that would weigh points by how far they
lie above b2, so each row is multiplied by the fitted 1 / (b0 k + b1), several times over: then its error is that of l.
b2 itself is searched by the squared error of l: on a grid, then by golden section around the grid's best point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduling.core.estimates.losses import LossPoints
from scheduling.core.types import BoolArray, FloatArray

GRID = 17  # values of b2 that are tried first; 65 find the same curves, see the decision on estimates
GRID_REWEIGHTINGS, REWEIGHTINGS = 1, 6  # one is enough to find the best value of the grid
STEP_REWEIGHTINGS = 1  # each step of the search begins with the weights of the step before
GOLDEN_STEPS = 32  # they narrow two steps of the grid down to 2e-7 of their width
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
FEWEST_POINTS = 3
EPOCHS_TO_FALL = 10  # a curve that does not fall within this many epochs is not converging
MOST_FLAGGED = 1.0 / 3.0
BLOCK = 250  # jobs in one pass: their arrays then stay in the processor's cache
SMALLEST = 1e-9


@dataclass(frozen=True, eq=False)
class Curves:
    """Fitted curves of losses as parts of `scale`; k counts epochs from 1. All fields are (jobs,)."""

    b0: FloatArray
    b1: FloatArray
    b2: FloatArray
    scale: FloatArray
    fitted: BoolArray  # whether there were enough points
    converging: BoolArray  # whether the curve is fitted, falls, and not too many points were outliers

    def loss(self, epoch: FloatArray) -> FloatArray:
        """Return the loss of each curve (jobs,) after `epoch` epochs (jobs,), in the job's own units."""
        return self.scale * (1.0 / np.maximum(self.b0 * epoch + self.b1, SMALLEST) + self.b2)


def fit(points: LossPoints) -> Curves:
    """Return the curve of every job. Complexity: jobs x epochs x (values of b2 tried) x reweightings."""
    count = len(points.losses)
    coefficients = np.zeros((3, count))
    enough = points.counts >= FEWEST_POINTS
    jobs = np.flatnonzero(enough)
    for start in range(0, len(jobs), BLOCK):
        block = jobs[start : start + BLOCK]
        coefficients[:, block] = _fit_block(points.losses[block])
    falls = (coefficients[0] > 0) | (points.counts < EPOCHS_TO_FALL)
    return Curves(
        coefficients[0],
        coefficients[1],
        coefficients[2],
        points.scale,
        enough,
        enough & falls & (points.flagged <= MOST_FLAGGED),
    )


def _fit_block(losses: FloatArray) -> FloatArray:
    """Return the coefficients (3, jobs) of the curves of jobs that all have enough points."""
    finite = np.isfinite(losses)
    system = _System(np.where(finite, losses, 0.0), finite)
    highest = _late_median(losses)
    tried = highest * np.linspace(0.0, 1.0, GRID)[:, None]
    solved = [system.solved(b2, system.start(b2), GRID_REWEIGHTINGS) for b2 in tried]
    best = np.argmin([error for error, _ in solved], axis=0)
    each = np.arange(len(losses))
    line = np.array([line for _, line in solved])[best, each]
    low, high = tried[np.maximum(best - 1, 0), each], tried[np.minimum(best + 1, GRID - 1), each]
    plateau, line = _golden(system, low, high, line)
    _, line = system.solved(plateau, system.weight(line), REWEIGHTINGS)
    return np.stack([line[:, 0], line[:, 1], plateau])


def _late_median(losses: FloatArray) -> FloatArray:
    """Return the largest b2 that is tried (jobs,): the median of the last fifth of each job's points; never below 0."""
    finite = np.isfinite(losses)
    behind = np.flip(np.cumsum(np.flip(finite, axis=1), axis=1), axis=1)  # number of points from this epoch on
    late = finite & (behind <= np.ceil(finite.sum(axis=1, keepdims=True) / 5.0))
    median: FloatArray = np.nanmedian(np.where(late, losses, np.nan), axis=1)
    return np.maximum(median, 0.0)


def _golden(system: _System, low: FloatArray, high: FloatArray, line: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the b2 (jobs,) with the least error between two values, and its b0 and b1 (jobs, 2). They are found by
    golden section, with all jobs in lockstep.

    The two ends are compared too: where the least error is at an end, the search only comes near it.
    """

    def at(tried: FloatArray) -> FloatArray:
        nonlocal line
        error, line = system.solved(tried, system.weight(line), STEP_REWEIGHTINGS)
        return error

    ends = (low, high)
    at_ends = (at(low), at(high))
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = at(left), at(right)
    for _ in range(GOLDEN_STEPS):
        lower = at_left <= at_right
        low, high = np.where(lower, low, left), np.where(lower, right, high)
        tried = np.where(lower, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        error = at(tried)
        left, right = np.where(lower, tried, right), np.where(lower, left, tried)
        at_left, at_right = np.where(lower, error, at_right), np.where(lower, at_left, error)
    best = np.argmin([*at_ends, at_left, at_right], axis=0)
    return np.stack([*ends, left, right])[best, np.arange(len(low))], line


class _System:
    """The linear systems of some jobs. Sums over epochs are products with (1, k, k^2). Each b2 is (jobs,)."""

    def __init__(self, losses: FloatArray, present: BoolArray) -> None:
        self.losses, self.present = losses, present.astype(np.float64)
        epochs = np.arange(1.0, losses.shape[1] + 1.0)
        self.line = np.stack([epochs, np.ones_like(epochs)])  # (2, epochs)
        self.powers = np.stack([epochs**2, epochs, np.ones_like(epochs)], axis=1)  # (epochs, 3)
        self.rows, self.product = np.empty_like(losses), np.empty_like(losses)

    def start(self, b2: FloatArray) -> FloatArray:
        """Return the first weights (jobs, epochs): the values of 1 / (b0 k + b1) by the points themselves."""
        return np.maximum(self.losses - b2[:, None], SMALLEST)

    def weight(self, line: FloatArray) -> FloatArray:
        """Return 1 / (b0 k + b1) (jobs, epochs) for fitted b0 and b1 (jobs, 2)."""
        curve = line @ self.line
        np.maximum(curve, SMALLEST, out=curve)
        return np.divide(1.0, curve, out=curve)

    def solved(self, b2: FloatArray, weight: FloatArray, times: int) -> tuple[FloatArray, FloatArray]:
        """Return the squared error of l (jobs,), and b0 and b1 (jobs, 2), after `times` reweightings."""
        above = self.losses - b2[:, None]
        above *= self.present
        for _ in range(1 + times):
            rows = np.multiply(above, weight, out=self.rows)
            squares = np.multiply(rows, rows, out=self.product) @ self.powers
            targets = np.multiply(rows, weight, out=self.product) @ self.powers[:, 1:]
            line = _two_unknowns(squares, targets)
            weight = self.weight(line)
        gap = np.subtract(weight, above, out=self.rows)
        gap *= self.present
        return np.einsum("jk,jk->j", gap, gap), line


def _two_unknowns(squares: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the least squares solution (..., 2) in two unknowns that are not negative, from sums over the rows: x'x in
    `squares` (..., [00, 01, 11]) and x'y in `targets` (..., [0, 1])."""
    s00, s01, s11 = squares[..., 0], squares[..., 1], squares[..., 2]
    t0, t1 = targets[..., 0], targets[..., 1]
    determinant = s00 * s11 - s01 * s01
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (t0 * s11 - t1 * s01) / determinant, (t1 * s00 - t0 * s01) / determinant
        inside = (determinant > 0) & (first >= 0) & (second >= 0)
        only_first = np.where(s00 > 0, np.maximum(t0, 0.0) / s00, 0.0)
        only_second = np.where(s11 > 0, np.maximum(t1, 0.0) / s11, 0.0)
    better_first = only_first * np.maximum(t0, 0.0) > only_second * np.maximum(t1, 0.0)
    return np.stack(
        [
            np.where(inside, first, np.where(better_first, only_first, 0.0)),
            np.where(inside, second, np.where(better_first, 0.0, only_second)),
        ],
        axis=-1,
    )
