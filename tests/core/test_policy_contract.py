"""What every policy promises, whatever it is after. A new policy is examined as soon as it is in `POLICIES`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import POLICIES, build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import Plan, Policy, View
from tests.core.builders import make_cluster, make_job, make_view
from tests.core.policy_examination import Examined, frozen
from tests.core.random_markets import random_market

# Settings that a policy cannot do without, or variants that deserve an examination of their own.
SETTINGS: dict[str, list[dict[str, Any]]] = {"astraea": [{"mode": "paper"}, {"mode": "guarantee"}]}
EXAMINED = [(name, settings) for name in sorted(POLICIES) for settings in SETTINGS.get(name, [{}])]
SEEDS = range(40)

each_policy = pytest.mark.parametrize(
    ("name", "settings"), EXAMINED, ids=["-".join([name, *map(str, settings.values())]) for name, settings in EXAMINED]
)


def market(seed: int, name: str, settings: dict[str, Any]) -> Scenario:
    """A random market, with home cells so that every policy can be asked."""
    return replace(random_market(seed, "guarantee", backlog=seed % 2 == 1), policy={"name": name} | settings)


def examined(scenario: Scenario) -> tuple[Outcome, Examined]:
    policy = Examined(build(scenario.policy, scenario.cluster, scenario.jobs))
    return simulate(scenario, {"batch": policy}), policy


class Counted:
    """Passes every question on. `plans` counts the answers that held a booking."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name, self.plans = policy, policy.name, 0

    def decide(self, view: View) -> Plan:
        plan = self.policy.decide(view)
        self.plans += bool(plan.bookings)
        return plan


def counted(scenario: Scenario) -> tuple[Outcome, int]:
    """The run of a market whose answers are examined elsewhere: every one of `SEEDS` is."""
    policy = Counted(build(scenario.policy, scenario.cluster, scenario.jobs))
    return simulate(scenario, {"batch": policy}), policy.plans


def occupied(scenario: Scenario, outcome: Outcome) -> np.ndarray:
    """(resources, slots, servers) summed up from the bookings alone."""
    ends = [booking.end for track in outcome.tracks for booking in track.bookings]
    last = max([scenario.slots, *ends, *(preload.slot + 1 for preload in scenario.preload)])
    amounts = np.zeros((len(scenario.cluster.resources), last, len(scenario.cluster.servers)))
    for preload in scenario.preload:
        amounts[preload.resource, preload.slot, preload.server] += preload.amount
    for track in outcome.tracks:
        for booking in track.bookings:
            worker = track.job.worker_types[booking.worker_type].demand
            ps = track.job.ps_types[booking.ps_type].demand
            for row in booking.allocation:
                amounts[:, row.start : row.end, row.server] += (row.workers * worker + row.ps * ps)[:, None]
    return amounts


@each_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_keeps_what_every_policy_promises(name: str, settings: dict[str, Any], seed: int) -> None:
    scenario = market(seed, name, settings)
    outcome, _ = examined(scenario)
    capacity = scenario.cluster.capacity[:, None, :]
    assert (occupied(scenario, outcome) <= capacity + 1e-9).all(), "more than there is"
    for track in outcome.tracks:
        assert sum(booking.work for booking in track.bookings) <= track.job.work * (1 + 1e-9)


@each_policy
def test_books_jobs_in_these_markets(name: str, settings: dict[str, Any]) -> None:
    """An examination of a policy that never books anything would prove nothing."""
    assert sum(counted(market(seed, name, settings))[1] for seed in SEEDS[:12]) >= 12


@each_policy
def test_answers_an_empty_view_with_an_empty_plan(name: str, settings: dict[str, Any]) -> None:
    scenario = market(0, name, settings)
    policy = build(scenario.policy, scenario.cluster, scenario.jobs)
    for slot in range(10):
        plan = policy.decide(make_view(slot=slot, cluster=scenario.cluster))
        assert not plan.bookings
        assert not plan.refusals
        assert not plan.floors


@each_policy
def test_two_builds_of_a_policy_decide_alike(name: str, settings: dict[str, Any]) -> None:
    for seed in SEEDS[:6]:
        scenario = market(seed, name, settings)
        assert frozen(counted(scenario)[0].tracks) == frozen(counted(scenario)[0].tracks)


@pytest.mark.parametrize("name", ["fifo", "gandiva_fair", "hived", "rrh", "srtf"])
def test_a_fixed_gang_is_halved_down_to_the_jobs_least_number(name: str) -> None:
    """Five workers do not fit on four, and half of five is less than the three that the job needs."""
    cluster = make_cluster([[4], [4]], cells=[[[4]], [[4]]])
    job = make_job(chunks=5, min_workers=3, minibatches=2)
    plan = build({"name": name, "workers": 5}, cluster, [job]).decide(make_view([job], cluster=cluster))
    assert [booking.workers for booking in plan.bookings] == [3]
    assert not plan.refusals


class Careless:
    """Writes into the view that it is given."""

    name = "careless"

    def decide(self, view: View) -> Any:
        view.occupied[...] = 0.0


def test_a_policy_cannot_write_into_its_view() -> None:
    view = make_view(occupied=np.ones((2, 1, 1)))
    with pytest.raises(ValueError, match="read-only"):
        Careless().decide(view)
