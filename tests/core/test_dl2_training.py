"""DL2's training: lessons, replay, targets, rounds over several clusters, and going on after an interruption."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.dl2 import networks
from scheduling.core.policies.dl2.choosing import Inference
from scheduling.core.policies.dl2.shape import BOTH, WORKER_ONLY, NetworkShape
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.speed import elastic_rate
from scheduling.core.training import course as courses
from scheduling.core.training import learner
from scheduling.core.training.analytical import Analytical
from scheduling.core.training.course import Course
from scheduling.core.training.judging import judge, margin, served
from scheduling.core.training.learner import Brain, Rules
from scheduling.core.training.lessons import Lessons, in_other_rows, lessons, study
from scheduling.core.training.replay import SampleRing
from scheduling.core.workload import synthetic
from tests.core.builders import make_cluster, make_job, make_scenario

SHAPE = NetworkShape(jobs=3, columns=3, hidden=16, max_workers=8, max_ps=8)
TINY = Course(SHAPE, passes=3, rules=Rules(replay=512, batch=32))


def small(seed: int) -> Scenario:
    return read(synthetic(seed=seed, preset="dl2", tenants=1, servers=4, jobs=5, span=3, slots=60, cells=False))


def taught(
    scenario: Scenario, name: str = "dominant_resource_fairness", shape: NetworkShape = SHAPE, **settings: object
) -> Lessons:
    policy = build({"name": name} | settings, scenario.cluster, scenario.jobs)
    return lessons([(scenario, simulate(scenario, {"batch": policy}))], shape)


def test_lessons_are_the_teachers_units_in_order_and_void_at_the_end():
    """By hand: a job has three workers and two parameter servers for three fifths of its work, then for the rest."""
    scenario = make_scenario([make_job(0, epochs=1, chunks=5, max_ps=2)], cluster=make_cluster(((4,), (4,))))
    answer = taught(scenario, "srtf", workers=3)
    assert answer.actions.tolist() == [BOTH, WORKER_ONLY, SHAPE.void] * 2
    rows = answer.states.reshape(6, 3, 8)
    np.testing.assert_allclose(rows[:, 0, 4], [1.0] * 3 + [0.4] * 3)  # work left
    np.testing.assert_allclose(rows[:, 0, 6] * 8, [1, 2, 3, 1, 2, 3])  # workers
    assert rows[0, 0, 3] == 0 < rows[3, 0, 3]  # age


def test_bundles_go_round_before_the_rest():
    """By hand: two jobs with two workers and a parameter server each, without first bundles."""
    jobs = [make_job(number, epochs=1, chunks=4, max_ps=1) for number in range(2)]
    scenario = make_scenario(jobs, cluster=make_cluster(((6,), (4,))))
    answer = taught(scenario, "srtf", replace(SHAPE, first_bundle=False), workers=2)
    assert answer.actions.tolist() == [BOTH, 3 + BOTH, WORKER_ONLY, 3 + WORKER_ONLY, SHAPE.void] * 2


def test_a_teacher_that_books_whole_lives_teaches_slot_by_slot():
    scenario = make_scenario([make_job(0, epochs=4, chunks=2)], cluster=make_cluster(((4,), (4,))))
    assert taught(scenario, "fifo", workers=2).actions.tolist() == [BOTH, SHAPE.void] * 4


def test_jobs_in_other_rows_are_the_same_lesson():
    examples = taught(small(2))
    rows = np.array([2, 0, 1])
    states, allowed, actions = in_other_rows(examples.states, examples.allowed, examples.actions, SHAPE, rows)
    for before, after, action, moved in zip(examples.states, states, examples.actions, actions, strict=True):
        assert (after.reshape(3, 8) == before.reshape(3, 8)[rows]).all()
        if action == SHAPE.void:
            assert moved == SHAPE.void
        else:
            assert rows[moved // 3] == action // 3
            assert moved % 3 == action % 3
    assert allowed[np.arange(len(actions)), actions].all()


def test_lessons_are_learnt():
    examples, dice = taught(small(3)), np.random.default_rng(1)
    weights = networks.start(dice, SHAPE.inputs, SHAPE.actions, 64, np.float32)
    moments, losses = networks.still(weights), []
    for _ in range(30):
        weights, moments, loss = study(weights, moments, examples, SHAPE, dice, rate=0.005, batch=64, shuffle=False)
        losses.append(loss)
    assert losses[-1] < 0.6 * losses[0]


def choice(number: int) -> Inference:
    state = np.full(SHAPE.inputs, number, np.float32)
    return Inference(state, np.ones(SHAPE.actions, np.bool_), number % SHAPE.actions, 0.5)


def test_replay_forgets_the_oldest_and_knows_what_followed_each_slot():
    replay = SampleRing(SHAPE, 8)
    for slot in range(6):
        following = None if slot == 5 else choice(100 + slot).state
        replay.put([choice(2 * slot), choice(2 * slot + 1)], float(slot), following)
    batch = replay.draw(200, np.random.default_rng(1))
    assert sorted({int(state[0]) for state in batch.states}) == list(range(4, 12))
    for state, reward, followed in zip(batch.states, batch.rewards, batch.followed, strict=True):
        slot = int(state[0]) // 2
        assert reward == slot
        assert (followed == -1) if slot == 5 else batch.next_states[followed][0] == 100 + slot


def test_targets_are_the_reward_and_the_discounted_value_of_the_next_slot(monkeypatch):
    """By hand: V is 0.1 times the first input, gamma 0.9, nothing follows the last slot."""
    flat = networks.start(np.random.default_rng(1), SHAPE.inputs, 1, 16, np.float32)
    value = {name: np.zeros_like(array) for name, array in flat.items()}
    for layer, factor in (("w1", 1.0), ("w2", 1.0), ("w3", 0.1)):
        value[layer][0, 0] = factor
    policy = networks.start(np.random.default_rng(1), SHAPE.inputs, SHAPE.actions, 16, np.float32)
    brain = Brain(policy, value, networks.still(policy), networks.still(value))
    replay = SampleRing(SHAPE, 64)
    replay.put([choice(1)], 2.0, choice(10).state)
    replay.put([choice(3)], 4.0, None)
    by_state = {}
    real = learner.policy_gradient

    def spied(weights, states, allowed, actions, advantages, beta):
        by_state.update(zip(states[:, 0].tolist(), advantages.tolist(), strict=True))
        assert beta == pytest.approx(0.1 / SHAPE.actions)
        return real(weights, states, allowed, actions, advantages, beta)

    monkeypatch.setattr(learner, "policy_gradient", spied)
    learner.update(brain, replay, Rules(batch=32), np.random.default_rng(1))
    assert by_state == pytest.approx({1.0: 2.0 + 0.9 * 1.0 - 0.1, 3.0: 4.0 - 0.3}, abs=1e-6)


def test_while_the_policy_rests_only_the_value_network_learns():
    state = courses.begin(replace(TINY, rules=replace(TINY.rules, resting=1)))
    course = replace(TINY, rules=replace(TINY.rules, resting=1))
    after = courses.learn(course, state, [small(1)])
    assert all((after.brain.policy[name] == state.brain.policy[name]).all() for name in networks.NAMES)
    assert any((after.brain.value[name] != state.brain.value[name]).any() for name in networks.NAMES)
    again = courses.learn(course, after, [small(2)])
    assert any((again.brain.policy[name] != state.brain.policy[name]).any() for name in networks.NAMES)


def test_a_training_that_was_interrupted_goes_on_as_if_it_had_not_been():
    def step(state):
        return courses.judged(courses.learn(TINY, state, [small(state.rounds)]), 9.0 - state.rounds, 1.0)

    straight = courses.begin(TINY)
    broken = courses.begin(TINY)
    examples = taught(small(1))
    straight, broken = (courses.take_lessons(TINY, state, examples) for state in (straight, broken))
    for _ in range(3):
        straight = step(straight)
        broken = courses.thaw(TINY, courses.freeze(TINY, step(broken)))
    assert courses.freeze(TINY, straight) == courses.freeze(TINY, broken)
    assert len(straight.replays[0]) > 32, "nothing was learnt, so nothing is compared"
    assert courses.thaw(replace(TINY, seed=2), courses.freeze(TINY, straight)) is None


def test_every_round_has_dice_of_its_own():
    state = courses.begin(TINY)
    first, later = (
        courses.learn(TINY, replace(state, rounds=rounds, replays=copies(TINY, state)), [small(1)]) for rounds in (0, 1)
    )
    assert (first.brain.policy["w1"] != later.brain.policy["w1"]).any()


def test_best_weights_are_those_with_the_shortest_completion():
    state = courses.begin(TINY)
    first = courses.judged(state, 5.0, 1.0)
    worse = courses.judged(replace(first, brain=courses.begin(replace(TINY, seed=2)).brain), 6.0, 2.0)
    assert worse.best is state.brain.policy
    assert courses.network(TINY, worse, {}).weights is state.brain.policy


def test_clusters_begin_each_round_alike_and_become_their_mean():
    course = replace(TINY, clusters=2)
    state = courses.begin(course)
    for rounds in range(2):
        alone = [
            courses.learn(TINY, replace(state, replays=[replay]), [small(seed)])
            for seed, replay in zip((1, 2), copies(course, state), strict=True)
        ]
        state = courses.learn(course, state, [small(1), small(2)])
        if rounds == 0:  # the second cluster's dice are its own
            assert (state.brain.policy["w1"] != alone[0].brain.policy["w1"]).any()
    assert state.slots > 0
    one, other = (courses.begin(replace(TINY, seed=seed)).brain for seed in (1, 2))
    mean = courses._mean([one, other])
    np.testing.assert_allclose(mean.policy["w1"], (one.policy["w1"] + other.policy["w1"]) / 2, atol=1e-7)
    np.testing.assert_allclose(mean.value["w2"], (one.value["w2"] + other.value["w2"]) / 2, atol=1e-7)


def copies(course: Course, state):
    """Replays as they are now."""
    return courses.thaw(course, courses.freeze(course, state)).replays


def test_the_analytical_speed_is_fitted_to_probes_and_nearly_the_real_one():
    job = small(1).jobs[0]
    speeds = Analytical(1200.0, NetworkShape())
    errors = []
    for workers in range(1, 13):
        for ps in range(1, 9):
            real = elastic_rate(job, workers, ps, (0, 0), 1200.0, centralized=False)
            errors.append(abs(speeds.rate(job, workers, ps, (0, 0)) / real - 1.0))
    assert 0 < np.mean(errors) < 0.25


def test_offline_rounds_train_at_the_analytical_speed():
    state = courses.begin(TINY)
    offline = courses.learn(replace(TINY, offline=True), state, [small(1)])
    online = courses.learn(TINY, courses.begin(TINY), [small(1)])
    assert (offline.brain.value["w1"] != online.brain.value["w1"]).any()


def test_margins_are_paired():
    result = margin([10.0, 20.0], [9.0, 22.0])
    assert (round(result.mean, 9), result.wins, result.runs) == (0.0, 1, 2)
    assert result.spread == pytest.approx(0.2 / np.sqrt(2))


def test_a_little_training_is_better_than_none():
    """A cluster with one short and one long type: the network learns to give by the reward, beyond its random start."""
    course = replace(TINY, shape=replace(SHAPE, jobs=5, columns=9, types=("ctc", "vgg-16")))
    course = replace(course, rules=Rules(replay=1024, batch=64, rate=0.002, value_rate=0.002, gamma=0.0, updates=2))
    state = courses.begin(course)
    held_out = [small(seed) for seed in (71, 72, 73)]

    def reward(policy_state) -> float:
        network = courses.network(course, policy_state, {})
        return float(np.mean([judge(served(network), scenario).reward for scenario in held_out]))

    before = reward(state)
    for seed in range(8):
        state = courses.learn(course, state, [small(seed)])
    assert reward(state) > before
