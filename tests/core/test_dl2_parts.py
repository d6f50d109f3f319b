"""DL2's training with a part left out: what stands for the critic, and what is learnt from without replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduling.core.policies.dl2 import networks
from scheduling.core.training import course as courses
from scheduling.core.training import learner
from scheduling.core.training.learner import Rules
from scheduling.core.training.replay import SampleRing
from tests.core.test_dl2_training import SHAPE, TINY, choice, small


def test_without_the_critic_a_moving_average_of_rewards_stands_for_the_value(monkeypatch):
    """By hand: 0.95 * 2 + 0.05 * 4 = 2.1 is usual, and the value network stays as it is."""
    brain = courses.begin(TINY).brain.after(2.0).after(4.0)
    assert brain.usual == pytest.approx(2.1)
    replay = SampleRing(SHAPE, 64)
    replay.put([choice(1)], 2.0, choice(10).state)
    replay.put([choice(3)], 4.0, None)
    by_state = {}
    real = learner.policy_gradient

    def spied(weights, states, allowed, actions, advantages, beta):
        by_state.update(zip(states[:, 0].tolist(), advantages.tolist(), strict=True))
        return real(weights, states, allowed, actions, advantages, beta)

    monkeypatch.setattr(learner, "policy_gradient", spied)
    after = learner.update(brain, replay, Rules(batch=32, critic=False), np.random.default_rng(1), resting=True)
    assert by_state == pytest.approx({1.0: -0.1, 3.0: 1.9}, abs=1e-6)
    assert after.value is brain.value
    assert after.policy_moments.step == brain.policy_moments.step + 1


def test_without_replay_a_step_sees_each_sample_of_the_last_slot_once(monkeypatch):
    sizes = []
    real = learner.policy_gradient

    def spied(weights, states, allowed, actions, advantages, beta):
        sizes.append(len(states))
        return real(weights, states, allowed, actions, advantages, beta)

    monkeypatch.setattr(learner, "policy_gradient", spied)
    course = replace(TINY, rules=replace(TINY.rules, recall=False))
    state = courses.learn(course, courses.begin(course), [small(1)])
    replay = state.replays[0]
    assert len(sizes) == state.brain.policy_moments.step > 1
    assert sizes[-1] == len(replay)
    assert len(replay.everything().actions) == len(replay) < TINY.rules.batch


def test_the_moving_average_goes_on_after_an_interruption_and_is_the_mean_of_clusters():
    state = courses.learn(TINY, courses.begin(TINY), [small(1)])
    assert state.brain.usual is not None
    again = courses.thaw(TINY, courses.freeze(TINY, state))
    assert again is not None
    assert again.brain.usual == state.brain.usual
    brains = [courses.begin(TINY).brain.after(reward) for reward in (0.0, 1.0)]
    assert courses._mean(brains).usual == 0.5
    assert courses._mean([courses.begin(TINY).brain] * 2).usual is None
    assert all((brains[0].policy[name] == brains[1].policy[name]).all() for name in networks.NAMES)
