"""Predict when a job will have converged, by its fitted loss curve (Optimus, section 3.1)."""

from __future__ import annotations

import numpy as np

from scheduling.core.estimates.curves import Curves
from scheduling.core.types import FloatArray

PATIENCE = 3
MOST_EPOCHS = 1e9


def total_epochs(curves: Curves, delta: FloatArray | float, patience: int = PATIENCE) -> FloatArray:
    """Return the epochs (jobs,) after which the loss has fallen by less than `delta` in each of the last `patience`
    epochs.

    `delta` is a part of the largest loss. The curve is convex, so its decreases shrink: with y = b0 k + b1 the decrease
    up to epoch k is b0 / (y (y - b0)), which is below delta once y > x = (b0 + sqrt(b0^2 + 4 b0 / delta)) / 2. The
    first such epoch is floor((x - b1) / b0) + 1. A curve that does not fall has converged at once.
    """
    if patience < 1:
        raise ValueError("patience must be at least one epoch")
    falls = curves.b0 > 0
    b0 = np.where(falls, curves.b0, 1.0)
    bound = (b0 + np.sqrt(b0 * b0 + 4.0 * b0 / np.asarray(delta))) / 2.0
    first = np.clip(np.floor((bound - curves.b1) / b0) + 1.0, 1.0, MOST_EPOCHS)
    return np.where(falls, first, 1.0) + (patience - 1.0)
