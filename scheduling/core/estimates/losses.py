"""Prepare loss curves for the fit: replace outliers, then divide by the largest loss (Optimus, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from scheduling.core.types import BoolArray, FloatArray

NEIGHBOURS = 5  # epochs on each side that bound what is possible at a point


@dataclass(frozen=True, eq=False)
class LossPoints:
    """Cleaned losses of epochs 1, 2, ...; nan where there is none. The first axis is jobs."""

    losses: FloatArray  # (jobs, epochs) in parts of `scale`
    scale: FloatArray  # (jobs,) the largest loss
    counts: FloatArray  # (jobs,) points that can be fitted
    flagged: FloatArray  # (jobs,) share of the points that the rule calls outliers


def cleaned(losses: FloatArray) -> LossPoints:
    """Return the cleaned points of the average losses (jobs, epochs). In each row the job's own curve is at the left,
    and nan follows its last epoch.

    A point is an outlier unless min(next five) <= it <= max(five before it). It is replaced by the average of the
    nearest points on each side that are no outliers. Outliers are found once, among the raw values. Where every point
    is an outlier (a curve that rises) nothing changes. A value within the curve that is not finite is an outlier too.
    """
    losses = np.asarray(losses, dtype=np.float64)
    if losses.shape[1] == 0:
        losses = np.full((len(losses), 1), np.nan)
    finite = np.isfinite(losses)
    reported = np.flip(np.maximum.accumulate(np.flip(~np.isnan(losses), axis=1), axis=1), axis=1)
    with np.errstate(invalid="ignore"):
        possible = finite & (losses >= _least_after(losses, finite)) & (losses <= _most_before(losses, finite))
    outlier, usable = reported & ~possible, reported & possible
    values = np.where(finite, losses, np.nan)
    repaired = np.where(outlier & usable.any(axis=1, keepdims=True), _between(values, usable), values)
    largest = np.fmax.reduce(np.where(np.isnan(repaired), -np.inf, repaired), axis=1, initial=-np.inf)
    scale = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    points = reported.sum(axis=1)
    return LossPoints(
        losses=repaired / scale[:, None],
        scale=scale,
        counts=np.isfinite(repaired).sum(axis=1).astype(np.float64),
        flagged=outlier.sum(axis=1) / np.maximum(points, 1),
    )


def _least_after(losses: FloatArray, finite: BoolArray) -> FloatArray:
    """Return the least of the next five finite losses of each point, or -inf where there is none."""
    edge = np.full((len(losses), NEIGHBOURS), np.inf)
    padded = np.concatenate([np.where(finite, losses, np.inf), edge], axis=1)
    least = sliding_window_view(padded[:, 1:], NEIGHBOURS, axis=1).min(axis=2)
    return np.where(np.isinf(least), -np.inf, least)


def _most_before(losses: FloatArray, finite: BoolArray) -> FloatArray:
    """Return the largest of the five finite losses before each point, or inf where there is none."""
    edge = np.full((len(losses), NEIGHBOURS), -np.inf)
    padded = np.concatenate([edge, np.where(finite, losses, -np.inf)], axis=1)
    most = sliding_window_view(padded[:, :-1], NEIGHBOURS, axis=1).max(axis=2)
    return np.where(np.isinf(most), np.inf, most)


def _between(values: FloatArray, usable: BoolArray) -> FloatArray:
    """Return at each point the average of the nearest usable points before and after it, or the only one there is."""
    epochs = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    before = np.maximum.accumulate(np.where(usable, epochs, -1), axis=1)
    after = np.flip(np.minimum.accumulate(np.flip(np.where(usable, epochs, values.shape[1]), axis=1), axis=1), axis=1)
    before, after = np.where(before < 0, after, before), np.where(after == values.shape[1], before, after)
    last = max(values.shape[1] - 1, 0)
    earlier = np.take_along_axis(values, np.clip(before, 0, last), axis=1)
    return (earlier + np.take_along_axis(values, np.clip(after, 0, last), axis=1)) / 2.0
