"""Learn from rewards: one cluster is simulated under the network, and after every slot both networks make a step.

y = r + gamma V(first state of the next slot)      r alone after the last slot
policy  -mean(log pi(a | s) (y - V(s))) - beta H    value  mean((V(s) - y)^2)

Two parts can be left out, to measure what they contribute. Without the critic a moving average of the slots' rewards
takes the place of V(s), and y is r. Without recall a step is made on all samples of the last slot, and on no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from scheduling.core.policies.dl2.choosing import DrawnAction, Inference, give_out
from scheduling.core.policies.dl2.guard import Memory, reward
from scheduling.core.policies.dl2.networks import (
    Floats,
    Moments,
    Weights,
    adam,
    forward,
    log_probabilities,
    policy_gradient,
    value_gradient,
)
from scheduling.core.policies.dl2.policy import slot_plan
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.policies.dl2.slot import Slot, shares_of
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.training.replay import SampleBatch, SampleRing
from scheduling.core.training.speeds import Speeds
from scheduling.core.types import Plan, View

LASTING = 0.95  # the part of the moving average that is kept at every slot


@dataclass(frozen=True)
class Rules:
    """The settings of learning. `entropy` is divided by the number of actions; the first `resting` rounds train the
    value network alone; `bounded` weighs a sample by min(1, pi now / pi then)."""

    rate: float = 0.0001
    value_rate: float = 0.0001
    gamma: float = 0.9
    entropy: float = 0.1
    explore: float = 0.4
    batch: int = 256
    replay: int = 8192
    updates: int = 1  # steps after each slot
    resting: int = 0
    bounded: bool = False
    critic: bool = True
    recall: bool = True


@dataclass(frozen=True, eq=False)
class Brain:
    """Both networks with Adam's moments for each; `usual` is the moving average of the slots' rewards."""

    policy: Weights
    value: Weights
    policy_moments: Moments
    value_moments: Moments
    usual: float | None = None  # None before the first slot

    def after(self, reward: float) -> Brain:
        """Return the brain with one more slot's reward in the average."""
        usual = reward if self.usual is None else LASTING * self.usual + (1.0 - LASTING) * reward
        return replace(self, usual=usual)


def update(
    brain: Brain, replay: SampleRing, rules: Rules, dice: np.random.Generator, *, resting: bool = False
) -> Brain:
    """Make one step of both networks on samples drawn from the past; with `resting`, of the value network alone."""
    samples = replay.draw(rules.batch, dice) if rules.recall else replay.everything()
    if not rules.critic:
        return _led(brain, samples, samples.rewards - np.float32(brain.usual or 0.0), rules)
    targets = samples.rewards.copy()
    if len(samples.next_states):
        after = forward(brain.value, samples.next_states).outputs[:, 0]
        targets += np.where(samples.followed >= 0, np.float32(rules.gamma) * after[samples.followed], np.float32(0))
    passed = forward(brain.value, samples.states)
    _, gradients = value_gradient(brain.value, passed, targets)
    value, value_moments = adam(brain.value, gradients, brain.value_moments, rules.value_rate)
    brain = replace(brain, value=value, value_moments=value_moments)
    return brain if resting else _led(brain, samples, targets - passed.outputs[:, 0], rules)


def _led(brain: Brain, samples: SampleBatch, advantages: Floats, rules: Rules) -> Brain:
    """Make one step of the policy's network towards the actions that were better than expected."""
    if rules.bounded:
        advantages = advantages * _weights(
            brain.policy, samples.states, samples.allowed, samples.actions, samples.chances
        )
    beta = rules.entropy / samples.allowed.shape[1]
    _, gradients = policy_gradient(brain.policy, samples.states, samples.allowed, samples.actions, advantages, beta)
    policy, policy_moments = adam(brain.policy, gradients, brain.policy_moments, rules.rate)
    return replace(brain, policy=policy, policy_moments=policy_moments)


def _weights(policy: Weights, states: Floats, allowed: Any, actions: Any, chances: Floats) -> Floats:
    """Return min(1, pi now / pi then) for each sample."""
    now = np.exp(log_probabilities(forward(policy, states).outputs, allowed)[np.arange(len(actions)), actions])
    weights: Floats = np.minimum(1.0, now / np.maximum(chances, 1e-6)).astype(states.dtype)
    return weights


class Learning:
    """A policy that learns while it decides, for one round of one cluster. It changes, so it must never be served."""

    name: ClassVar[str] = "learning"

    def __init__(
        self,
        brain: Brain,
        replay: SampleRing,
        shape: NetworkShape,
        rules: Rules,
        key: tuple[int, ...],
        *,
        resting: bool,
        speeds: Speeds | None,
    ) -> None:
        self.brain, self.replay, self.shape, self.rules, self.resting = brain, replay, shape, rules, resting
        self.key, self.speeds = key, speeds
        self.open: tuple[list[Inference], float] | None = None  # the last slot's samples and reward
        self.total = 0.0
        self.slots = 0

    def decide(self, view: View) -> Plan:
        """Deal out a slot. Before that, learn from the last slot, whose following state is now known."""
        memory = Memory.read(view.memory)
        shares, never = shares_of(view, lambda job: memory.ran.get(str(job.number), 0))
        slot = Slot(view, shares, self.shape)
        batches = slot.batches()
        for batch in batches[:1]:
            batch.open()
        self.close(batches[0].state.copy() if batches else None, view.slot)
        choices: list[Inference] = []
        draw = DrawnAction(np.random.default_rng((*self.key, view.slot, 0)), self.rules.explore)
        for index, batch in enumerate(batches):
            if index:
                batch.open()
            give_out(self.brain.policy, batch, draw, choices.append)
        plan = slot_plan(slot, never, view)
        if self.speeds is not None:
            plan = self.speeds.corrected(plan, view)
        self.open = (choices, reward(plan, view))
        self.total += self.open[1]
        self.slots += 1
        return replace(plan, memory=memory.after(plan, view).document())

    def close(self, following: Floats | None, slot: int) -> None:
        """End the last slot: keep its samples, and make a step. `following` is the first state of the next slot."""
        if self.open is None:
            return
        self.brain = self.brain.after(self.open[1])
        if not self.rules.recall:
            self.replay.forget()
        self.replay.put(*self.open, following)
        self.open = None
        if len(self.replay) < (self.rules.batch if self.rules.recall else 1):
            return
        dice = np.random.default_rng((*self.key, slot, 1))
        for _ in range(self.rules.updates):
            self.brain = update(self.brain, self.replay, self.rules, dice, resting=self.resting)


def play(
    scenario: Scenario,
    brain: Brain,
    replay: SampleRing,
    shape: NetworkShape,
    rules: Rules,
    key: tuple[int, ...],
    *,
    resting: bool = False,
    speeds: Speeds | None = None,
) -> tuple[Brain, Mapping[str, float]]:
    """Play one round, the scenario from beginning to end. Return the networks after it, and the mean reward and the
    number of its slots.

    All that is drawn depends on `key` and the slot. `speeds` are those of this round, or None for the one speed that
    all policies share.
    """
    learning = Learning(brain, replay, shape, rules, key, resting=resting, speeds=speeds)
    simulate(scenario, {"batch": learning})
    learning.close(None, scenario.slots)
    return learning.brain, {"reward": learning.total / max(learning.slots, 1), "slots": learning.slots}
