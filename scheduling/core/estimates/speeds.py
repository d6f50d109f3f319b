"""Optimus' speed functions: steps a second of p parameter servers and w workers (section 3.2, equations 3 and 4).

    asynchronous   w / f = t0 + t1 w/p + t2 w + t3 p            steps of all workers together
    synchronous    1 / f = t0 M/w + t1 + t2 w/p + t3 w + t4 p   M is the size of the batch that workers share

A job without parameter servers has p = 1 here. No coefficient is negative. Each measurement counts by its relative
error, so that slow pairs do not drown fast ones.
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
FASTEST = 1e-12  # seconds of a step; nothing is divided by less


def probes(max_ps: int, max_workers: int) -> tuple[tuple[int, int], ...]:
    """Pairs (parameter servers, workers) to try before a job starts, within its caps and each once.

    Pairs with as many servers as workers alone could not tell the coefficients apart: w/p would always be 1 and w be p.
    """
    limited = [(min(ps, max_ps), min(workers, max_workers)) for ps, workers in PROBES]
    return tuple(dict.fromkeys(limited))


def terms(ps: npt.ArrayLike, workers: npt.ArrayLike, mode: str, batch: npt.ArrayLike = 1.0) -> FloatArray:
    """(..., coefficients) what each coefficient is multiplied with at each pair."""
    return np.stack(np.broadcast_arrays(*_terms(ps, workers, mode, batch)), axis=-1)


def _terms(ps: npt.ArrayLike, workers: npt.ArrayLike, mode: str, batch: npt.ArrayLike) -> list[FloatArray]:
    """By coefficient, each only as large as it has to be: over a grid of pairs most are the same in rows or columns."""
    p, w, m = (np.asarray(values, dtype=np.float64) for values in (ps, workers, batch))
    p = np.maximum(p, 1.0)
    shared = [np.ones_like(p), w / p, w, p]
    return shared if mode == ASYNC else [m / w, *shared]


def fit(ps: FloatArray, workers: FloatArray, speed: FloatArray, mode: str, batch: npt.ArrayLike = 1.0) -> FloatArray:
    """(jobs, coefficients) from measured pairs (jobs, points), all jobs in one mode; nan is no point.

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
    """f(p, w); the pairs broadcast against the coefficients (..., coefficients) without their last axis."""
    parts = _terms(ps, workers, mode, batch)
    shape = np.broadcast_shapes(coefficients.shape[:-1], *(term.shape for term in parts))
    seconds: FloatArray = np.zeros(())
    for index, term in enumerate(parts):
        part = np.asarray(term * coefficients[..., index])
        # grids are large, and new arrays are slow: once one is as large as all it is taken for the rest
        whole = [array for array in (seconds, part) if array.shape == shape]
        seconds = np.add(seconds, part, out=whole[0] if whole else None)
    np.maximum(seconds, FASTEST, out=seconds)
    return np.divide(np.asarray(workers, np.float64) if mode == ASYNC else 1.0, seconds, out=seconds)


def measured(observations: Sequence[Sequence[float]]) -> Mapping[tuple[int, int], float]:
    """The mean of the last five speeds seen at each pair (p, w): what was measured need not be estimated."""
    if len(observations) == 1:
        ((ps, workers, speed),) = observations
        return {(int(ps), int(workers)): speed}
    speeds: dict[tuple[int, int], list[float]] = {}
    for ps, workers, speed in observations:
        speeds.setdefault((int(ps), int(workers)), []).append(speed)
    return {pair: _mean(values[-LAST_MEASUREMENTS:]) for pair, values in speeds.items()}


def _mean(values: Sequence[float]) -> float:
    """Of a handful: an array would take longer than all else."""
    return sum(values) / len(values)
