"""Value functions: the worth of a completion in credits, by the elapsed slots x. None of them rises with x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduling.core.types import FloatArray, Value

ROUNDING = 1e-9  # slots: a completion in time is not late because of a difference of two rounded times


@dataclass(frozen=True)
class Linear:
    """The value slope * x + base, with slope <= 0."""

    slope: float
    base: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return self.slope * np.asarray(elapsed, dtype=np.float64) + self.base


@dataclass(frozen=True)
class Convex:
    """The value (scale / x) ** power for x > 0, with positive scale and power."""

    scale: float
    power: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return (self.scale / np.asarray(elapsed, dtype=np.float64)) ** self.power


@dataclass(frozen=True)
class Sigmoid:
    """The value priority / (1 + exp(decay * (x - target))): about `priority` before the target, nearly 0 after it.

    With decay 0 time does not matter and the value is priority / 2. Large exponents give 0 and never overflow.
    """

    priority: float
    decay: float
    target: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        exponent = self.decay * (np.asarray(elapsed, dtype=np.float64) - self.target)
        return self.priority * np.exp(-np.logaddexp(0.0, exponent))


@dataclass(frozen=True)
class Deadline:
    """The value `base` for a completion at elapsed time `deadline` or earlier, and 0 after it."""

    base: float
    deadline: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return np.where(np.asarray(elapsed, dtype=np.float64) <= self.deadline, self.base, 0.0)


@dataclass(frozen=True)
class LinearUntil(Linear):
    """The linear value for a completion at elapsed time `until` or earlier, and after it 0, or less where it is."""

    until: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return _none_after(self.until, elapsed, super().__call__(elapsed))


@dataclass(frozen=True)
class SigmoidUntil(Sigmoid):
    """The sigmoid value for a completion at elapsed time `until` or earlier, and 0 after it."""

    until: float

    def __call__(self, elapsed: npt.ArrayLike) -> FloatArray:
        return _none_after(self.until, elapsed, super().__call__(elapsed))


def _none_after(until: float, elapsed: npt.ArrayLike, values: FloatArray) -> FloatArray:
    """Return the values until then, and after it none above 0. What is below 0 stays there, or it would rise."""
    return np.where(np.asarray(elapsed, dtype=np.float64) <= until, values, np.minimum(values, 0.0))


KINDS: dict[str, type[Linear | Convex | Sigmoid | Deadline]] = {
    "linear": Linear,
    "convex": Convex,
    "sigmoid": Sigmoid,
    "deadline": Deadline,
    "linear_until": LinearUntil,
    "sigmoid_until": SigmoidUntil,
}


def from_later(value: Value, slots: float) -> Value:
    """Return f with f(x) = value(x + slots), for slots >= 0: what the same moments are worth, counted from an arrival
    that is so much later. A convex value has no such f of its kind and stays as it is."""
    match value:
        case LinearUntil(slope, base, until):
            return LinearUntil(slope, base + slope * slots, _sooner(until, slots))
        case SigmoidUntil(priority, decay, target, until):
            return SigmoidUntil(priority, decay, target - slots, _sooner(until, slots))
        case Linear(slope, base):
            return Linear(slope, base + slope * slots)
        case Sigmoid(priority, decay, target):
            return Sigmoid(priority, decay, target - slots)
        case Deadline(base, deadline):
            return Deadline(base, _sooner(deadline, slots))
    return value


def _sooner(end: float, slots: float) -> float:
    return max(end - slots + ROUNDING, 0.0)


class ValuesOfMany:
    """Many value functions, each of which is computed for a row of its own; those of one kind are computed together."""

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
        """Return the values (rows, ...) of elapsed slots (rows, ...); row i uses the function number which[i]."""
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
