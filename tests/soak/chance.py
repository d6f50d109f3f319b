"""Worlds that a seed decides: the same seed is the same world with the same steps, wherever it is run."""

from __future__ import annotations

import random

from tests.soak.world import ACTS, WEIGHTS, Step, World

LENGTH = 400  # steps of one world


def steps_of(seed: int, length: int = LENGTH) -> list[Step]:
    dice = random.Random(seed)
    names = sorted(ACTS)
    weights = [WEIGHTS.get(name, 1) for name in names]
    return [
        Step(name, dice.randrange(1000), dice.randrange(1000), dice.randrange(1000))
        for name in dice.choices(names, weights, k=length)
    ]


def world_of(seed: int, length: int = LENGTH) -> World:
    """The world after all its steps, at rest. Raises `Broken`."""
    world = World(kind=seed)
    for step in steps_of(seed, length):
        world.take(step)
    world.come_to_rest()
    return world
