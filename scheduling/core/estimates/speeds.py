"""Fit and compute Optimus' speed functions: steps a second of p parameter servers and w workers (section 3.2, equations
3 and 4).

    asynchronous   w / f = t0 + t1 w/p + t2 w + t3 p            steps of all workers together
    synchronous    1 / f = t0 M/w + t1 + t2 w/p + t3 w + t4 p   M is the size of the batch that workers share

A job without parameter servers has p = 1 here. No coefficient is negative. The fit minimises relative errors, so that
slow pairs do not outweigh fast ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduling.core.estimates.nonnegative import solve
from scheduling.core.types import FloatArray

SYNC, ASYNC = "sync", "async"
COEFFICIENTS = {ASYNC: 4, SYNC: 5}
PROBES = ((1, 1), (1, 4), (4, 1), (2, 8), (8, 8), (4, 12))  # (parameter servers, workers)
LAST_MEASUREMENTS = 5
FASTEST = 1e-12  # the least seconds of a step; nothing is divided by less


def probes(max_ps: int, max_workers: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs (parameter servers, workers) to try before a job starts, within its limits and each once.

    If every pair had as many servers as workers, the coefficients could not be separated: w/p would always be 1, and w
    would equal p.
    """
    limited = [(min(ps, max_ps), min(workers, max_workers)) for ps, workers in PROBES]
    return tuple(dict.fromkeys(limited))


def terms(ps: npt.ArrayLike, workers: npt.ArrayLike, mode: str, batch: npt.ArrayLike = 1.0) -> FloatArray:
    """Return the terms (..., coefficients) that the coefficients are multiplied by at each pair."""
    return np.stack(np.broadcast_arrays(*_terms(ps, workers, mode, batch)), axis=-1)


def _terms(ps: npt.ArrayLike, workers: npt.ArrayLike, mode: str, batch: npt.ArrayLike) -> list[FloatArray]:
    """Return the term of each coefficient, each array only as large as it has to be: over a grid of pairs most terms
    are the same in all rows or columns."""
    p, w, m = (np.asarray(values, dtype=np.float64) for values in (ps, workers, batch))
    p = np.maximum(p, 1.0)
    shared = [np.ones_like(p), w / p, w, p]
    return shared if mode == ASYNC else [m / w, *shared]


def fit(ps: FloatArray, workers: FloatArray, speed: FloatArray, mode: str, batch: npt.ArrayLike = 1.0) -> FloatArray:
    """Return the coefficients (jobs, coefficients) by measured pairs (jobs, points), with all jobs in one mode. A point
    whose speed is nan is left out.

    `speed` is in steps a second; `batch` is M of each job, (jobs,) or one number for all.
    """
    usable = np.isfinite(speed) & (speed > 0)
    measured = np.where(usable, speed, 1.0)
    p, w = np.where(usable, ps, 1.0), np.where(usable, workers, 1.0)
    seconds = w / measured if mode == ASYNC else 1.0 / measured
    rows = terms(p, w, mode, np.broadcast_to(batch, len(speed))[:, None]) / seconds[:, :, None]
    return solve(np.where(usable[:, :, None], rows, 0.0), usable.astype(np.float64))


def steps_per_second(
    coefficients: FloatArray, ps: npt.ArrayLike, workers: npt.ArrayLike, mode: str, batch: npt.ArrayLike = 1.0
) -> FloatArray:
    """Return f(p, w); the pairs broadcast against the coefficients (..., coefficients) without their last axis."""
    parts = _terms(ps, workers, mode, batch)
    shape = np.broadcast_shapes(coefficients.shape[:-1], *(term.shape for term in parts))
    seconds: FloatArray = np.zeros(())
    for index, term in enumerate(parts):
        part = np.asarray(term * coefficients[..., index])
        # grids are large, and new arrays are slow: once an array has the full shape, the further sums are put into it
        whole = [array for array in (seconds, part) if array.shape == shape]
        seconds = np.add(seconds, part, out=whole[0] if whole else None)
    np.maximum(seconds, FASTEST, out=seconds)
    return np.divide(np.asarray(workers, np.float64) if mode == ASYNC else 1.0, seconds, out=seconds)


def measured(observations: Sequence[Sequence[float]]) -> Mapping[tuple[int, int], float]:
    """Return the mean of the last five speeds measured at each pair (p, w), which then need not be estimated."""
    if len(observations) == 1:
        ((ps, workers, speed),) = observations
        return {(int(ps), int(workers)): speed}
    speeds: dict[tuple[int, int], list[float]] = {}
    for ps, workers, speed in observations:
        speeds.setdefault((int(ps), int(workers)), []).append(speed)
    return {pair: _mean(values[-LAST_MEASUREMENTS:]) for pair, values in speeds.items()}


def _mean(values: Sequence[float]) -> float:
    """Return the mean of a few numbers; for so few, an array would take longer than everything else."""
    return sum(values) / len(values)
