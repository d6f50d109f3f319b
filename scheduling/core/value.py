"""What a completion is worth: value functions of the elapsed slots x, in credits. None of them rises with x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.types import FloatArray


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
