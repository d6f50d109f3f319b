"""Dealing out one batch: the network runs again after every unit, until it chooses to stop or nothing is left.

The network's first layer is updated rather than computed anew: a unit changes three numbers of the state, and so only
three rows of the layer's matrix matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduling.core.policies.dl2.networks import FORBIDDEN, Floats, Weights
from scheduling.core.policies.dl2.shape import ACTIONS, PS_ONLY, WORKER_ONLY
from scheduling.core.policies.dl2.slot import Batch
from scheduling.core.types import BoolArray

UNEVEN = 10  # a job with more than this many times as many units of one kind as of the other is in a poor state


class NotFinite(ValueError):
    """The network's outputs are not finite numbers, so that its decisions are worth nothing."""


class Choose(Protocol):
    """A function that picks an action from the network's outputs, of which the forbidden ones are far below all others.
    It returns the action and its probability."""

    def __call__(self, logits: Floats, batch: Batch) -> tuple[int, float]: ...


@dataclass(frozen=True, eq=False)
class Inference:
    """One inference of the network, recorded to learn from it."""

    state: Floats  # (inputs,)
    allowed: BoolArray  # (actions,)
    action: int
    chance: float  # the probability with which the network took it


def give_out(weights: Weights, batch: Batch, choose: Choose, note: Callable[[Inference], None] | None = None) -> int:
    """Deal out units to a batch that is open, and return how often the network ran. `note` gets each inference whose
    action was taken. Raises `NotFinite`."""
    w2, b2, w3, b3 = weights["w2"], weights["b2"], weights["w3"], weights["b3"]
    void, shut = batch.shape.void, batch.shut
    first = batch.state @ weights["w1"] + weights["b1"]
    hidden1, hidden2, logits, step = np.empty_like(first), np.empty_like(b2), np.empty_like(b3), np.empty_like(first)
    nothing1, nothing2 = np.zeros_like(first), np.zeros_like(b2)  # as arrays: a number becomes one every time
    rows = _rows(batch, weights["w1"])
    units_dealt = 0
    for _ in range(batch.most):
        if not batch.open_rows:
            break
        np.maximum(first, nothing1, out=hidden1)
        hidden1.dot(w2, out=hidden2)  # `np.dot` checks the types of its arguments first
        np.add(hidden2, b2, out=hidden2)
        np.maximum(hidden2, nothing2, out=hidden2)
        hidden2.dot(w3, out=logits)
        np.add(logits, b3, out=logits)
        np.add(logits, shut, out=logits)
        units_dealt += 1
        action, chance = choose(logits, batch)
        choice = None if note is None else Inference(batch.state.copy(), batch.allowed.copy(), action, chance)
        if action != void:
            row = batch.apply(action)
            if row is None:
                continue
            now, earlier, matrix = rows[row]
            change = now - earlier
            earlier += change
            change.dot(matrix, out=step)
            np.add(first, step, out=first)
        if note is not None and choice is not None:
            note(choice)
        if action == void:
            break
    return units_dealt


def _rows(batch: Batch, w1: Floats) -> list[tuple[Floats, Floats, Floats]]:
    """Return, by job, the three numbers of the state that a unit changes, their values that the first layer includes so
    far, and their rows of its matrix."""
    earlier = batch.state.copy()
    parts = [slice(begin, begin + 3) for begin in map(batch.numbers, range(len(batch.shares)))]
    return [(batch.state[part], earlier[part], w1[part]) for part in parts]


def best(logits: Floats, batch: Batch) -> tuple[int, float]:
    """Return the action with the largest output; ties go to the first."""
    action = int(logits.argmax())  # NaN counts as the largest
    if not abs(logits.item(action)) < -FORBIDDEN:
        raise NotFinite
    return action, 1.0


@dataclass(frozen=True, eq=False)
class DrawnAction:
    """Draw an action by the network's probabilities. In a poor state, with probability `explore`, take the action that
    mends it instead."""

    dice: np.random.Generator
    explore: float = 0.0

    def __call__(self, logits: Floats, batch: Batch) -> tuple[int, float]:
        """Return the action, and the network's own probability of it."""
        chances = np.exp((logits - logits.max()).astype(np.float64))
        sums = np.cumsum(chances)
        if not np.isfinite(sums[-1]):
            raise NotFinite
        action = None
        if self.explore:
            action = mending(batch)
            if action is not None and self.dice.random() >= self.explore:
                action = None
        if action is None:
            action = int(np.searchsorted(sums, self.dice.random() * sums[-1], side="right"))
            action = min(action, len(chances) - 1)
        return action, float(chances[action] / sums[-1])


def mending(batch: Batch) -> int | None:
    """Return the action that mends the earliest job in the first kind of poor state that occurs; None if none occurs.
    The kinds are: several workers and no parameter server, several parameter servers and no worker, far more of one
    than of the other."""
    counts = [(len(share.workers), len(share.ps)) for share in batch.shares]
    for what, poor in _POOR:
        for row, (workers, ps) in enumerate(counts):
            action = ACTIONS * row + what(workers, ps)
            if poor(workers, ps) and batch.allowed[action]:
                return action
    return None


def _scarcer(workers: int, ps: int) -> int:
    return PS_ONLY if workers > ps else WORKER_ONLY


_POOR: tuple[tuple[Callable[[int, int], int], Callable[[int, int], bool]], ...] = (
    (lambda workers, ps: PS_ONLY, lambda workers, ps: workers >= 2 and ps == 0),
    (lambda workers, ps: WORKER_ONLY, lambda workers, ps: ps >= 2 and workers == 0),
    (_scarcer, lambda workers, ps: min(workers, ps) > 0 and max(workers, ps) > UNEVEN * min(workers, ps)),
)
