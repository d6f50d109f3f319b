"""Solve least squares without negative coefficients for many small systems at once, by trying every set of unknowns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from scheduling.core.types import FloatArray

MOST_UNKNOWNS = 8
RIDGE = 1e-13  # parts of a column's length; it selects a solution where the rows do not
REFINEMENTS = 3
FEW = 200  # with at most this many systems, all sets are tried at once


def solve(rows: FloatArray, targets: FloatArray) -> FloatArray:
    """Return x >= 0 (systems, unknowns) with the least |rows x - targets|^2, for rows (systems, rows, unknowns).

    The best x is the plain least squares of the unknowns that are above zero in it; with five unknowns there are
    32 such sets. Of all sets whose solution is not negative, the one with the least error is the answer. Linearly
    dependent columns are separated by a ridge of 1e-13; refinement removes its effect on well-posed systems.
    """
    systems, _, unknowns = rows.shape
    if unknowns > MOST_UNKNOWNS:
        raise ValueError(f"at most {MOST_UNKNOWNS} unknowns, not {unknowns}")
    lengths = np.linalg.norm(rows, axis=1)
    lengths = np.where(lengths > 0, lengths, 1.0)
    scaled = rows / lengths[:, None, :]
    best = np.zeros((systems, unknowns))
    least = (targets * targets).sum(axis=1)
    for size in range(1, unknowns + 1):
        for subset, solution, error in _tried(scaled, targets, list(combinations(range(unknowns), size))):
            better = (solution >= 0).all(axis=1) & (error < least)
            whole = np.zeros((systems, unknowns))
            whole[:, subset] = solution
            best, least = np.where(better[:, None], whole, best), np.where(better, error, least)
    return best / lengths


def _tried(
    rows: FloatArray, targets: FloatArray, sets: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], FloatArray, FloatArray]]:
    """Yield each set of unknowns with its solutions (systems, size) and squared errors (systems,). All sets have the
    same size. For a few systems calls take longer than sums, so all sets are tried at once."""
    systems = len(rows)
    together = len(sets) if systems <= FEW else 1
    for begin in range(0, len(sets), together):
        some = sets[begin : begin + together]
        columns = np.concatenate([rows[:, :, subset] for subset in some])
        wanted = np.tile(targets, (len(some), 1))
        solutions = _least_squares(columns, wanted)
        gap = np.einsum("srk,sk->sr", columns, solutions) - wanted
        error = (gap * gap).sum(axis=1)
        for index, subset in enumerate(some):
            part = slice(index * systems, (index + 1) * systems)
            yield subset, solutions[part], error[part]


def _least_squares(rows: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the solutions (systems, unknowns) of the normal equations, refined by the residuals that they leave."""
    transposed = rows.transpose(0, 2, 1)
    matrix = transposed @ rows + RIDGE * np.eye(rows.shape[2])
    solution = np.zeros((len(rows), rows.shape[2]))
    for _ in range(1 + REFINEMENTS):
        residual = targets - np.einsum("srk,sk->sr", rows, solution)
        solution = solution + np.linalg.solve(matrix, (transposed @ residual[:, :, None]))[:, :, 0]
    return solution
