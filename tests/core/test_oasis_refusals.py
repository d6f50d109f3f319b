"""What OASiS cannot serve it refuses with a reason and numbers; what an operator may not set is refused in one line."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.oasis import Oasis
from scheduling.core.policies.oasis.bounds import propose
from scheduling.core.posted.menu import MARKET, MODES, PAPER
from scheduling.core.scenario import BadScenario
from scheduling.core.types import REJECTED, Job, Reason
from scheduling.core.value import Convex, Linear, Sigmoid
from tests.core.oasis_worlds import World, make_instant_job, make_policy

CEILING = {"r0": 16.0}


def make_world(*, slots: int = 4, floor: float = 1.0) -> World:
    return World([[4.0]], [[4.0]], slots, make_policy(floors=(floor, floor), ceilings=(CEILING, CEILING)))


def make(**fields: Any) -> Job:
    usual: dict[str, Any] = {
        "arrival": 0.0,
        "epochs": 1,
        "chunks": 2,
        "worker": [1],
        "ps": [1],
        "value": Sigmoid(40, 0, 1),
        "bandwidths": (1.0, 2.0),
    }
    return make_instant_job(0, **(usual | fields))


def refusal(job: Job, world: World | None = None) -> Reason:
    world = world or make_world()
    plan = world.policy.decide(world.view(job, world.empty()))
    assert not plan.bookings
    assert plan.refusals[0].state == REJECTED
    return plan.refusals[0].reason


def test_refuses_workers_with_more_bandwidth_than_their_parameter_server() -> None:
    assert refusal(make(bandwidths=(3.0, 2.0))) == Reason(
        "ps_bandwidth_below_worker", {"worker_mbps": 3.0, "ps_mbps": 2.0}
    )


@pytest.mark.parametrize(("worker", "ps"), [([0], [1]), ([1], [0]), ([0], [0])])
def test_refuses_a_job_that_demands_nothing(worker: list[int], ps: list[int]) -> None:
    assert refusal(make(worker=worker, ps=ps)).code == "no_demand"


def test_refuses_a_job_that_the_horizon_is_too_short_for() -> None:
    assert refusal(make(epochs=9)) == Reason("horizon_too_short", {"needs_slots": 9, "slots": 4})


def test_refuses_a_job_that_no_server_has_room_for() -> None:
    assert refusal(make(worker=[5])) == Reason("no_room", {"asked": 2, "free": 0.0})
    longer = make(worker=[5], epochs=2, value=Linear(0, 1e6))
    assert refusal(longer) == Reason("no_room", {"asked": 2, "free": 0.0}), "workers, and not their work"


def test_refuses_a_job_whose_price_equals_its_value() -> None:
    assert make_world().policy.decide(make_world().view(make(value=Linear(0, 3.5)), make_world().empty())).bookings
    reason = refusal(make(value=Linear(0, 3.0)))
    assert reason == Reason("outbid", {"price": 3.0, "value": 3.0})


def test_refuses_a_job_worth_less_than_any_price() -> None:
    reason = refusal(make(value=Linear(0, 0.5)))
    assert reason.code == "outbid"
    assert reason.numbers["value"] == 0.5
    assert reason.numbers["price_at_least"] >= 2.0  # type: ignore[operator]


def test_refuses_a_job_whose_value_has_run_out() -> None:
    assert refusal(make(value=Linear(0, -1))) == Reason("not_worth_it", {"best_value": -1.0})


def test_refuses_a_price_above_what_the_job_may_pay() -> None:
    assert refusal(make(max_price=2.5)) == Reason("over_max_price", {"price": 3.0, "max_price": 2.5})


def test_refuses_workers_and_parameter_servers_that_compete_for_one_resource_on_one_server() -> None:
    world = make_world()
    both = replace(world.cluster, hosts_workers=np.array([True, True]), hosts_ps=np.array([True, True]))
    view = replace(world.view(make(), world.empty()), cluster=both)
    assert world.policy.decide(view).refusals[0].reason == Reason("shared_resource", {"resource": "r0"})


def test_values_that_underflow_are_refused_with_numbers_and_never_as_not_a_number() -> None:
    reason = refusal(make(arrival=0, epochs=3, value=Sigmoid(80, 600, 1)))
    assert reason.code in ("not_worth_it", "outbid")
    assert all(math.isfinite(number) for number in reason.numbers.values() if isinstance(number, float))


def test_a_value_without_bound_at_no_delay_counts_as_after_one_slot() -> None:
    world = make_world()
    booking = world.policy.decide(world.view(make(value=Convex(20, 1)), world.empty())).bookings[0]
    assert booking.value == 20.0


def test_a_gang_smaller_than_the_smallest_allowed_never_runs() -> None:
    world = make_world()
    job = make(epochs=3, chunks=3, min_workers=2, value=Sigmoid(400, 0, 1))
    booking = world.policy.decide(world.view(job, world.empty())).bookings[0]
    assert sum(row.workers * (row.end - row.start) for row in booking.allocation) >= 9
    assert {row.workers for row in booking.allocation if row.workers} <= {2, 3}


BAD_BOUNDS = [
    ({"floor": 4, "ceiling": {"r0": 2}}, "policy.worker_price.ceiling.r0: must not be below the floor, 4"),
    ({"floor": 0, "ceiling": {}}, "policy.worker_price.floor: must be a positive finite number"),
    ({"floor": math.nan, "ceiling": {}}, "policy.worker_price.floor: must be a positive finite number"),
    ({"floor": 1, "ceiling": {"r0": math.inf}}, "policy.worker_price.ceiling.r0: must be a positive finite number"),
    ({"floor": 1, "ceiling": {"gpu": 2}}, "policy.worker_price.ceiling.gpu: no server has this resource; known: r0"),
    ({"floor": 1}, "policy.worker_price: must be an object with the fields floor and ceiling"),
    ("1e-600", "policy.worker_price: must be an object with the fields floor and ceiling"),
]


@pytest.mark.parametrize(("bounds", "line"), BAD_BOUNDS)
def test_bounds_that_no_operator_may_set_are_refused_in_one_line(bounds: Any, line: str) -> None:
    with pytest.raises(BadScenario) as refused:
        build({"name": "oasis", "worker_price": bounds}, make_world().cluster, [])
    assert str(refused.value) == line


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(BadScenario, match=r"policy\.price: unknown field"):
        build({"name": "oasis", "price": 1}, make_world().cluster, [])


@pytest.mark.parametrize("mode", MODES)
def test_proposed_bounds_are_usable_even_for_values_that_underflow(mode: str) -> None:
    jobs = [make(value=Sigmoid(80, decay, 0.5), epochs=epochs) for decay in (0, 5, 600) for epochs in (1, 30, 300)]
    for bounds in propose(make_world().cluster, jobs, mode):
        assert 0 < bounds.floor <= min(bounds.ceiling.values(), default=bounds.floor) < math.inf


@pytest.mark.parametrize("mode", MODES)
def test_jobs_that_are_worth_nothing_in_any_run_do_not_lower_the_floor(mode: str) -> None:
    good = [make(value=Sigmoid(80, 0.5, 4), epochs=epochs) for epochs in (1, 2, 3)]
    hopeless = [make(value=Sigmoid(80, 6, 0.5), epochs=30) for _ in range(9)]
    cluster = make_world().cluster
    assert [bounds.floor for bounds in propose(cluster, [*good, *hopeless], mode)] == [
        bounds.floor for bounds in propose(cluster, good, mode)
    ]


def test_a_ceiling_is_what_the_shortest_run_is_worth_by_the_clock_of_the_mode() -> None:
    job = make(value=Linear(-10, 100))  # two workers for a slot
    worker = {mode: propose(make_world().cluster, [job], mode)[0] for mode in MODES}
    assert worker[MARKET].ceiling == {"r0": 90.0}  # it ends one slot after it came
    assert worker[PAPER].ceiling == {"r0": 100.0}  # it ends in the slot in which it came


def test_without_jobs_the_bounds_are_still_usable() -> None:
    policy = build({"name": "oasis"}, make_world().cluster, [])
    assert isinstance(policy, Oasis)
    assert policy.worker_price["floor"] > 0
