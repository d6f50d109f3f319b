"""A step of a learner as pure functions: practise on the pool's past, decide its slots in shadow, and compare.

Nothing here reads the clock, the database or the market; the same input gives the same bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from scheduling.core import policies, records
from scheduling.core.policies.dl2.files import BadWeights, Network, WeightFile, decode, encode
from scheduling.core.policies.dl2.guard import reward
from scheduling.core.policies.dl2.networks import still
from scheduling.core.policies.elastic import UNBROKEN
from scheduling.core.scenario import Scenario, read
from scheduling.core.training import course as courses
from scheduling.core.training.course import Course, TrainingState
from scheduling.core.training.learner import Rules
from scheduling.core.training.own_slots import ScenarioTrial, trial
from scheduling.core.workload import synthetic
from scheduling.lab import HELD, INCOMPARABLE, NO_DIFFERENCE, Claim, ClaimVerdict, judge

ROUNDS = 8  # windows that are played in a step
BLOCKS = 10  # of neighbouring slots, which are about the same jobs: the spread is over blocks
# Gamma and rates are those of the shipped weights (0157). The value network, which no file of weights has, begins new.
RULES = Rules(rate=0.0003, value_rate=0.001, gamma=0.0, replay=1_024, resting=2)
# The judging set: draws of the preset for which the shipped weights were made, with seeds that no training uses.
JUDGING: dict[str, Any] = {"preset": "dl2", "tenants": 1, "cells": False, "span": 20.0, "servers": 8, "jobs": 10}
JUDGING_SEEDS = range(9_000_001, 9_000_009)

OFFERED, IN_USE = "offered", "in use"
SHADOW = Claim("more", "work done in a slot that the pool decided", OFFERED, IN_USE)
OWN = Claim("less", "mean completion of the pool's own jobs, held out", OFFERED, IN_USE)
SHIPPED = Claim("less", "mean completion on the judging set", OFFERED, IN_USE)


@dataclass(frozen=True)
class SlotPair:
    """What a slot was worth by the pool's plan and by the candidate's, for the same jobs."""

    slot: int
    reward_in_use: float
    reward: float


def course_of(network: Network, seed: int) -> Course:
    """Return how a learner trains weights of this shape. There are no lessons: it begins with the weights in use."""
    return Course(network.shape, seed=seed, passes=0, rules=RULES)


def training_begun(course: Course, network: Network) -> TrainingState:
    """Return the state of a training that begins with the weights in use."""
    state = courses.begin(course)
    policy = dict(network.weights)
    return replace(state, brain=replace(state.brain, policy=policy, policy_moments=still(policy)))


def state_bytes(course: Course, state: TrainingState) -> bytes:
    """Return everything that the next step depends on, as bytes."""
    return zlib.compress(courses.freeze(course, state), 1)


def state_from(course: Course, stored: bytes) -> TrainingState | None:
    """Return the stored state, or None if it is that of another course. Raises `BadWeights` and zlib.error where the
    bytes are not such a state."""
    return courses.thaw(course, zlib.decompress(stored))


def practise(course: Course, state: TrainingState, windows: Sequence[Scenario]) -> TrainingState:
    """Train on `ROUNDS` windows of the pool's past, drawn by the seed and by how far the training is."""
    for _ in range(ROUNDS):
        dice = np.random.default_rng((course.seed, state.rounds))
        state = courses.learn(course, state, [windows[int(dice.integers(len(windows)))]])
    return state


def network_of(course: Course, state: TrainingState, facts: Mapping[str, Any]) -> Network:
    """Return the network as it is now."""
    return Network(course.shape, state.brain.policy, facts)


def network_stored(content: bytes) -> Network:
    """Return the network of a file of weights. Raises `BadWeights` where this program cannot serve it."""
    network = decode(content)
    if isinstance(network, str):
        raise BadWeights(network)
    return network


def as_served(network: Network) -> Network:
    """Return the network as read from its file, in half precision."""
    return network_stored(encode(network))


def trials(network: Network, scenarios: Sequence[Scenario]) -> list[ScenarioTrial]:
    """Run each scenario to its end with the network."""
    return [trial(network, scenario) for scenario in scenarios]


def judging_set() -> list[Scenario]:
    """Return the draws on which the weights of every pool are compared, whatever jobs they were trained on."""
    return [read(synthetic(seed=seed, **JUDGING)) for seed in JUDGING_SEEDS]


def shadow_slot(policy: bytes, view: bytes, plan: bytes, content: bytes) -> SlotPair:
    """Decide an interval again with other weights: by the same policy at the same prices, with the same memory. Only
    the guard is off, as it judges the network that decides in earnest."""
    pool_view = records.view_from(view)
    settings = json.loads(policy)
    inner = settings["policy"] | {"weights": WeightFile("candidate", content), "digest": "", "since": None}
    inner |= {"guard": False, "mode": "active"}
    own = policies.build(settings | {"policy": inner}, pool_view.cluster, ())
    memory = {name: pool_view.memory[name] for name in ("ran", "teacher", UNBROKEN) if name in pool_view.memory}
    pair = records.plan_from(plan), own.decide(replace(pool_view, memory=memory))
    return SlotPair(pool_view.slot, *(reward(each, pool_view) for each in pair))


def verdict_of(
    pairs: Sequence[SlotPair],
    own: tuple[Sequence[ScenarioTrial], Sequence[ScenarioTrial]],
    shipped: tuple[Sequence[ScenarioTrial], Sequence[ScenarioTrial]],
    margin: float,
) -> dict[str, Any]:
    """Return the three comparisons as plain JSON, each (in use, candidate), and whether the candidate is better. It is
    if it did more work in the pool's slots by the margin and by more than the spread, and was not seen to be slower on
    the pool's held-out jobs. On the judging set it may be slower: a pool's jobs need not be like those."""
    shadow, held_out, judged = _of_slots(pairs), _of_trials(OWN, *own), _of_trials(SHIPPED, *shipped)
    wins = shadow.outcome == HELD and shadow.ours is not None and shadow.ours >= 1.0 + margin
    holds = held_out.outcome in (HELD, NO_DIFFERENCE)
    parts = {"shadow": shadow, "own": held_out, "judging_set": judged}
    draws = {"shadow": len(pairs), "own": len(own[0]), "judging_set": len(shipped[0])}
    return {
        "better": wins and holds,
        "margin": margin,
        **{name: _document(part, draws[name]) for name, part in parts.items()},
    }


def _of_slots(pairs: Sequence[SlotPair]) -> ClaimVerdict:
    blocks = [list(block) for block in np.array_split(np.arange(len(pairs)), min(BLOCKS, len(pairs))) if len(block)]
    runs = {
        IN_USE: [[fmean(pairs[place].reward_in_use for place in block) for block in blocks]],
        OFFERED: [[fmean(pairs[place].reward for place in block) for block in blocks]],
    }
    return judge(SHADOW, runs, [0.0])


def _of_trials(claim: Claim, in_use: Sequence[ScenarioTrial], offered: Sequence[ScenarioTrial]) -> ClaimVerdict:
    """Compare runs, but only if all jobs of the same set ended in them."""
    if not in_use:
        return ClaimVerdict(claim, INCOMPARABLE, None, f"{INCOMPARABLE}: {claim.words} - there is no window yet")
    if len(in_use) != len(offered):
        return ClaimVerdict(claim, INCOMPARABLE, None, f"{INCOMPARABLE}: {claim.words} - the lines have other windows")
    by_line = {IN_USE: in_use, OFFERED: offered}
    runs = {name: [[each.completion for each in line]] for name, line in by_line.items()}
    ended = {name: [[(float(each.ended), float(each.jobs)) for each in line]] for name, line in by_line.items()}
    return judge(claim, runs, [0.0], ended)


def _document(verdict: ClaimVerdict, draws: int) -> dict[str, Any]:
    return {
        "outcome": verdict.outcome,
        "times": verdict.ours,
        "spread": verdict.spread,
        "draws": draws,
        "line": verdict.line,
    }
