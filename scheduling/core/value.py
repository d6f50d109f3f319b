"""What a completion is worth: value functions of the elapsed slots x, in credits. None of them rises with x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduling.core.types import FloatArray, Value


@dataclass(frozen=True)
class Linear:
    """slope * x + base, slope <= 0."""

    slope: float
    base: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return self.slope * np.asarray(elapsed, dtype=np.float64) + self.base


@dataclass(frozen=True)
class Convex:
    """(scale / x) ** power, for x > 0; scale and power positive."""

    scale: float
    power: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return (self.scale / np.asarray(elapsed, dtype=np.float64)) ** self.power


@dataclass(frozen=True)
class Sigmoid:
    """priority / (1 + exp(decay * (x - target))): about `priority` before the target, nearly nothing after it.

    With decay 0 time does not matter and the value is priority / 2. Large exponents end at 0, never overflow.
    """

    priority: float
    decay: float
    target: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        exponent = self.decay * (np.asarray(elapsed, dtype=np.float64) - self.target)
        return self.priority * np.exp(-np.logaddexp(0.0, exponent))


@dataclass(frozen=True)
class Deadline:
    """`base` for a completion at elapsed time `deadline` or earlier, nothing after it."""

    base: float
    deadline: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return np.where(np.asarray(elapsed, dtype=np.float64) <= self.deadline, self.base, 0.0)


KINDS: dict[str, type[Linear | Convex | Sigmoid | Deadline]] = {
    "linear": Linear,
    "convex": Convex,
    "sigmoid": Sigmoid,
    "deadline": Deadline,
}


class ValuesOfMany:
    """Many value functions, each of which is asked about a row of its own; those of one kind are asked together."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._values = values
        kinds: set[type[Any]] = {type(value) for value in values}
        self._of_kind: dict[type[Any], tuple[npt.NDArray[np.bool_], list[FloatArray]]] = {}
        for kind in kinds & set(KINDS.values()):
            mine = np.array([type(value) is kind for value in values])
            columns = [np.array([getattr(value, field.name, 0.0) for value in values]) for field in fields(kind)]
            self._of_kind[kind] = mine, columns
        self._others = [row for row, value in enumerate(values) if type(value) not in self._of_kind]

    def __call__(self, which: npt.NDArray[np.int64], elapsed: FloatArray) -> FloatArray:
        """(rows, ...) the values of these of them, of elapsed slots (rows, ...)."""
        shape = (len(which), *([1] * (elapsed.ndim - 1)))
        if len(self._of_kind) == 1 and not self._others:
            ((kind, (_, columns)),) = self._of_kind.items()
            return np.asarray(kind(*(column[which].reshape(shape) for column in columns))(elapsed))
        worth = np.empty_like(elapsed)
        for kind, (mine, columns) in self._of_kind.items():
            rows = np.flatnonzero(mine[which])
            of_rows = (column[which[rows]].reshape(-1, *shape[1:]) for column in columns)
            worth[rows] = kind(*of_rows)(elapsed[rows])
        for row in np.flatnonzero(np.isin(which, self._others)).tolist():
            worth[row] = self._values[which[row]](elapsed[row])
        return worth
