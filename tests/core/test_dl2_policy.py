"""DL2 as a policy: its weights, its guard, its shadow, and what it decides with a network of its own."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.dl2 import files, networks
from scheduling.core.policies.dl2.files import BadWeights, Network, WeightFile
from scheduling.core.policies.dl2.policy import Dl2
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.scenario import BadScenario, Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.training.judging import judge
from scheduling.core.types import AWARDED, Plan, Policy, View
from scheduling.core.workload import synthetic
from tests.core.builders import make_cluster, make_job, make_scenario, make_view
from tests.core.policy_examination import Examined, frozen
from tests.core.random_markets import random_market

SHAPE = NetworkShape(jobs=4, columns=3, hidden=16)


def network(seed: int = 1, shape: NetworkShape = SHAPE, scale: float = 1.0, **biases: float) -> Network:
    """A network with no training; `void` and others lift an action of every job."""
    weights = dict(networks.start(np.random.default_rng(seed), shape.inputs, shape.actions, shape.hidden, np.float32))
    lifted = np.zeros(shape.actions, np.float32)
    for what, name in enumerate(("worker", "ps", "both")):
        lifted[what:-1:3] = biases.get(name, 0.0)
    lifted[-1] = biases.get("void", 0.0)
    return Network(shape, weights | {"w3": weights["w3"] * np.float32(scale), "b3": lifted}, {}, "0" * 64)


def teacher(scenario: Scenario) -> Policy:
    return build({"name": "dominant_resource_fairness"}, scenario.cluster, scenario.jobs)


def two_jobs(**fields: Any) -> Scenario:
    jobs = [make_job(number, chunks=8, epochs=20, **fields) for number in range(2)]
    return make_scenario(jobs, cluster=make_cluster(((8,), (8,))))


def decided(policy: Policy, scenario: Scenario) -> tuple[dict[str, Any], list[list[tuple[int, int]]]]:
    """What was remembered at the end, and (workers, parameter servers) by job and slot."""
    outcome = simulate(scenario, {"batch": policy})
    rows = [[(booking.workers, booking.ps) for booking in track.bookings] for track in outcome.tracks]
    return dict(outcome.memory["batch"]), rows


@pytest.mark.parametrize("bundle", [True, False])
@pytest.mark.parametrize("choice", ["argmax", "draw"])
def test_untrained_networks_keep_what_every_policy_promises(choice, bundle):
    shape, plans = replace(SHAPE, first_bundle=bundle), 0
    for seed in range(8):
        scenario = random_market(seed, "guarantee", backlog=seed % 2 == 1)
        policy = Dl2(
            network=network(seed, shape, 30.0), taught_by=teacher(scenario), guard=seed % 3 == 0, choice=choice
        )
        examined = Examined(policy)
        simulate(scenario, {"batch": examined})
        plans += examined.plans
    assert plans > 20


def test_network_gives_until_it_has_enough():
    scenario = two_jobs()
    _, rows = decided(Dl2(network=network(void=9.0), guard=False), scenario)
    assert rows[0][0] == rows[1][0] == (1, 1)
    _, rows = decided(Dl2(network=network(worker=9.0, void=5.0), guard=False), scenario)
    assert (rows[0][0][0] + rows[1][0][0], rows[0][0][1], rows[1][0][1]) == (8, 1, 1)


def test_units_that_make_no_gang_go_back():
    shape = replace(SHAPE, first_bundle=False)
    memory, rows = decided(Dl2(network=network(shape=shape, ps=9.0), guard=False), replace(two_jobs(), slots=3))
    assert rows == [[], []]
    assert memory["ran"] == {}


def test_slots_that_jobs_ran_are_remembered_while_they_wait():
    scenario = replace(two_jobs(), slots=5)
    memory, rows = decided(Dl2(network=network(void=9.0), guard=False), scenario)
    assert memory["ran"] == {"0": 5, "1": 5}
    assert len(rows[0]) == 5


def test_the_same_draw_comes_of_the_same_seed_and_slot():
    scenario = two_jobs()
    runs = [decided(Dl2(network=network(), guard=False, choice="draw", seed=seed), scenario) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


# --- the guard --------------------------------------------------------------------------------------------------------


def test_without_trained_weights_the_teacher_decides_and_it_is_said():
    scenario = random_market(3, "guarantee", backlog=True)
    policy = Dl2(network="weights_untrained", taught_by=teacher(scenario))
    outcome, expected = (simulate(scenario, {"batch": each}) for each in (policy, teacher(scenario)))
    assert frozen(outcome.tracks) == frozen(expected.tracks)
    assert outcome.memory["batch"]["guard"]["code"] == "weights_untrained"


def test_an_output_that_is_no_number_ends_the_networks_post():
    scenario = two_jobs()
    broken = network()
    weights = {name: np.full_like(array, 3e38) for name, array in broken.weights.items()}
    policy = Dl2(network=replace(broken, weights=weights), taught_by=teacher(scenario))
    memory, rows = decided(policy, scenario)
    assert memory["guard"] == {"code": "output_not_finite", "slot": 0}
    assert rows == decided(teacher(scenario), scenario)[1]
    drawing = Dl2(network=replace(broken, weights=weights), taught_by=teacher(scenario), choice="draw")
    assert decided(drawing, scenario)[0]["guard"]["code"] == "output_not_finite"


def test_three_slots_below_half_of_the_teachers_reward_end_the_networks_post():
    """By hand: two workers of eight run, a quarter of what the teacher has; so it ends with the third slot."""
    scenario = two_jobs()
    memory, rows = decided(Dl2(network=network(void=9.0), taught_by=teacher(scenario)), scenario)
    assert memory["guard"]["code"] == "reward_poor"
    assert memory["guard"]["slot"] == 2
    assert memory["guard"]["reward"] / memory["guard"]["teacher_reward"] == pytest.approx(0.25)
    assert rows[0][:3] == [(1, 1), (1, 1), (4, 4)]


def test_poor_slots_count_only_in_a_row():
    scenario = two_jobs()
    policy = Dl2(network=network(void=9.0), taught_by=teacher(scenario))
    view = make_view(scenario.jobs, cluster=scenario.cluster, memory={"poor": 2})
    assert policy.decide(view).memory["guard"] is not None
    fine = Dl2(network=network(both=9.0), taught_by=teacher(scenario))
    assert fine.decide(view).memory["poor"] == 0


@dataclass(frozen=True)
class Counting:
    """A teacher with a memory: how often it was asked."""

    name: ClassVar[str] = "counting"
    counts: list[int] = field(default_factory=list)

    def decide(self, view: View) -> Plan:
        self.counts.append(view.memory.get("asked", 0))
        return Plan(memory={"asked": self.counts[-1] + 1})


def test_the_teacher_has_its_own_memory_back_and_is_asked_once_a_slot():
    scenario, counting = replace(two_jobs(), slots=4), Counting()
    decided(Dl2(network=network(), taught_by=counting), scenario)
    assert counting.counts == [0, 1, 2, 3]


def test_without_the_guard_nobody_asks_the_teacher():
    counting = Counting()
    decided(Dl2(network=network(), taught_by=counting, guard=False), two_jobs())
    assert counting.counts == []


def test_in_the_shadow_the_teacher_decides_and_the_networks_numbers_are_kept():
    scenario = two_jobs()
    policy = Dl2(network=network(void=9.0), taught_by=teacher(scenario), mode="shadow", guard=False)
    assert decided(policy, scenario)[1] == decided(teacher(scenario), scenario)[1]
    plan = policy.decide(make_view(scenario.jobs, cluster=scenario.cluster))
    shadow = plan.memory["shadow"]
    assert shadow["units"] == {"0": [1, 1], "1": [1, 1]}
    assert shadow["reward"] == pytest.approx(shadow["teacher_reward"] / 4)


# --- weights and settings ---------------------------------------------------------------------------------------------


def test_weights_come_back_from_their_file_and_the_same_weights_are_the_same_bytes():
    content = files.encode(network())
    assert content == files.encode(network())
    again = files.decode(content)
    assert again.shape == SHAPE
    assert all(np.allclose(again.weights[name], network().weights[name], atol=1e-3) for name in networks.NAMES)


@pytest.mark.parametrize("name", ["dl2", "offline_rl"])
def test_shipped_weights_are_small_and_sooner_done_than_their_teacher_on_draws_they_never_saw(name):
    content = pkgutil.get_data("scheduling.core.policies.dl2", f"{name}.npz")
    assert len(content) < 1_000_000
    network_of_name = files.shipped(name)
    assert isinstance(network_of_name, Network)
    assert network_of_name.facts["offline"] == (name == "offline_rl")
    completions = {"shipped": [], "teacher": []}
    for seed in (9_000_001, 9_000_002, 9_000_003):
        size = {"tenants": 1, "servers": 20, "jobs": 30, "span": 20, "cells": False}
        scenario = read(synthetic(seed=seed, preset="dl2", **size))
        for kind, policy in (("shipped", Dl2(network=network_of_name, guard=False)), ("teacher", teacher(scenario))):
            completions[kind].append(judge(policy, scenario).completion)
    assert np.mean(completions["shipped"]) < np.mean(completions["teacher"])


@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04 broken", files.pack({"w1": np.zeros(3)})])
def test_bytes_that_are_no_weights_are_refused(content):
    with pytest.raises(BadWeights):
        files.decode(content)


def test_weights_of_another_shape_or_program_are_not_served():
    whole = files.unpack(files.encode(network()))
    document = json.loads(whole["schema"].tobytes())
    for changed in (
        {"format": "dl2/0"},
        {"shape": document["shape"] | {"jobs": 5}},
        {"shape": document["shape"] | {"longest": 0}},
        {"shape": {"jobs": 4}},
    ):
        text = json.dumps(document | changed).encode()
        assert files.decode(files.pack(whole | {"schema": np.frombuffer(text, np.uint8)})) == "weights_outdated"
    broken = whole | {"b3": np.full_like(whole["b3"], np.nan)}
    assert files.decode(files.pack(broken)) == "weights_not_finite"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"mode": "quiet"}, "policy.mode"),
        ({"choice": "guess"}, "policy.choice"),
        ({"teacher": "dl2"}, "policy.teacher"),
        ({"teacher": 7}, "policy.teacher"),
        ({"seed": -1}, "policy.seed"),
        ({"guard": "yes"}, "policy.guard"),
        ({"first_bundle": 1}, "policy.first_bundle"),
        ({"weights": "somewhere.npz"}, "policy.weights"),
        ({"weights": 7}, "policy.weights"),
        ({"weights": WeightFile("w.npz", b"nothing")}, "policy.weights"),
        ({"digest": "f" * 64}, "policy.digest"),
        ({"weigths": None}, "policy.weigths"),
    ],
)
@pytest.mark.parametrize("name", ["dl2", "offline_rl"])
def test_settings_that_nobody_can_use_are_refused_by_name(name, fields, place):
    with pytest.raises(BadScenario) as refusal:
        build({"name": name} | fields, make_cluster(), ())
    assert refusal.value.place == place


def test_is_built_from_a_file_somebody_read_and_says_which():
    content = files.encode(network())
    policy = build({"name": "dl2", "weights": WeightFile("mine.npz", content)}, make_cluster(), ())
    assert (policy.weights, policy.digest) == ("mine.npz", files.decode(content).digest)
    again = {"name": "dl2", "weights": WeightFile("mine.npz", content), "digest": policy.digest}
    assert build(again, make_cluster(), ()) is not None


def test_any_policy_without_settings_of_its_own_can_be_the_teacher():
    scenario = replace(two_jobs(), slots=200)
    for name in ("fifo", "srtf", "optimus", "tetris"):
        policy = build({"name": "dl2", "teacher": name}, scenario.cluster, scenario.jobs)
        outcome = simulate(scenario, {"batch": Examined(policy)})
        assert [track.state for track in outcome.tracks] == [AWARDED, AWARDED]
