"""Keep the last samples of a training, with the state that followed each slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.policies.dl2.choosing import Inference
from scheduling.core.policies.dl2.networks import Floats
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.types import BoolArray

NAMES = ("states", "allowed", "actions", "chances", "rewards", "followed", "next")


@dataclass(frozen=True, eq=False)
class SampleBatch:
    """Some samples, (samples, ...), with `next_states` (slots, inputs) and which of these followed each sample."""

    states: Floats
    allowed: BoolArray
    actions: np.ndarray[tuple[int], np.dtype[np.intp]]
    chances: Floats
    rewards: Floats
    next_states: Floats
    followed: np.ndarray[tuple[int], np.dtype[np.intp]]  # index into next_states, -1 after the last slot


class SampleRing:
    """A ring of samples, each with its slot's reward and the first state of the slot after it."""

    def __init__(self, shape: NetworkShape, size: int) -> None:
        # `filled` counts all samples that were ever put in, `slots` all slots with a state after them.
        self.size, self.filled, self.slots = size, 0, 0
        self.states = np.zeros((size, shape.inputs), np.float32)
        self.allowed = np.zeros((size, shape.actions), np.bool_)
        self.actions = np.zeros(size, np.int64)
        self.chances = np.zeros(size, np.float32)
        self.rewards = np.zeros(size, np.float32)
        self.followed = np.full(size, -1, np.int64)
        self.next = np.zeros((size, shape.inputs), np.float32)

    def __len__(self) -> int:
        return min(self.filled, self.size)

    def put(self, choices: list[Inference], reward: float, following: Floats | None) -> None:
        """Add a slot's samples with its reward; `following` is the next slot's first state, or None after the last."""
        if not choices:
            return
        slot = -1
        if following is not None:
            slot = self.slots % self.size
            self.next[slot] = following
            self.slots += 1
        for choice in choices:
            at = self.filled % self.size
            self.states[at], self.allowed[at] = choice.state, choice.allowed
            self.actions[at], self.chances[at] = choice.action, choice.chance
            self.rewards[at], self.followed[at] = reward, slot
            self.filled += 1

    def draw(self, count: int, dice: np.random.Generator) -> SampleBatch:
        """Draw `count` samples with replacement, all with the same probability."""
        return self._at(dice.integers(len(self), size=count))

    def everything(self) -> SampleBatch:
        """Return all samples in the ring, each once."""
        return self._at(np.arange(len(self)))

    def forget(self) -> None:
        """Empty the ring."""
        self.filled = self.slots = 0

    def _at(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> SampleBatch:
        slots, where = np.unique(self.followed[rows], return_inverse=True)
        first = int(slots[0] == -1)
        return SampleBatch(
            self.states[rows],
            self.allowed[rows],
            self.actions[rows],
            self.chances[rows],
            self.rewards[rows],
            self.next[slots[first:]],
            where - first,
        )

    def arrays(self) -> dict[str, Any]:
        """Return the whole content of the ring, so that it can be stored."""
        return {name: getattr(self, name) for name in NAMES} | {"counts": np.array([self.filled, self.slots])}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Set the content of the ring to what was stored."""
        for name in NAMES:
            getattr(self, name)[...] = arrays[name]
        self.filled, self.slots = (int(count) for count in arrays["counts"])
