"""An integer program that is built up column by column and row by row, and solved by HiGHS.

The solver is imported when the first program is solved: importing it takes a fifth of the start of a process, and few
processes ever solve a program.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

GAP = 0.01  # relative, between the best solution found and the bound that no solution exceeds
MOST_NODES = 1_000  # of the search: the same limit on every machine, unlike a limit of time

Key = TypeVar("Key", bound=Hashable)


class IntegerProgram(Generic[Key]):
    """An integer program: columns by key, all integer and not below 0, and rows low <= row * x <= high; the reward is
    maximised."""

    def __init__(self) -> None:
        self.columns: dict[Key, int] = {}
        self.rewards: list[float] = []
        self.upper: list[float] = []
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def column(self, key: Key, reward: float = 0.0, upper: float = np.inf) -> None:
        """Add one more unknown."""
        self.columns[key] = len(self.rewards)
        self.rewards.append(reward)
        self.upper.append(upper)

    def row(self, terms: Sequence[tuple[Key, float]], low: float, high: float) -> None:
        """Add one more constraint."""
        self.entries.extend((len(self.low), self.columns[key], weight) for key, weight in terms)
        self.low.append(low)
        self.high.append(high)

    def bound(self, gap: float = GAP) -> float:
        """Return a bound that no solution's reward exceeds: at most a relative `gap` above the largest reward, more if
        the search ends early at its limit of nodes."""
        if not self.rewards:
            return 0.0
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_matrix

        row, column, weight = zip(*self.entries, strict=True)
        matrix = coo_matrix((weight, (row, column)), shape=(len(self.low), len(self.rewards)))
        result = milp(
            -np.array(self.rewards),
            constraints=LinearConstraint(matrix.tocsr(), self.low, self.high),
            bounds=Bounds(np.zeros(len(self.rewards)), np.array(self.upper)),
            integrality=np.ones(len(self.rewards)),
            options={"mip_rel_gap": gap, "node_limit": MOST_NODES},
        )
        return -float(result.mip_dual_bound)
