"""What PD-ORS refuses and why, how it finds gangs, what an operator may set, and worlds out of the ordinary."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.pdors import Pdors
from scheduling.core.policies.pdors.bounds import propose
from scheduling.core.policies.pdors.work import speed_of
from scheduling.core.posted.menu import MARKET, MODES
from scheduling.core.scenario import BadScenario
from scheduling.core.types import CENTRALIZED, DISTRIBUTED, Job, Reason
from scheduling.core.value import Convex, Linear, Sigmoid
from tests.core.builders import make_job, make_ps, make_worker
from tests.core.pdors_worlds import SLOT_SECONDS, World, make_policy, make_sample_job

CEILING = {"r0": 16.0}


def make_world(*, servers: Any = ((4.0,), (4.0,)), slots: int = 4, floor: float = 1.0, **settings: Any) -> World:
    return World(servers, slots, make_policy(floor=floor, ceiling=CEILING, **settings))


def make(**fields: Any) -> Job:
    usual: dict[str, Any] = {
        "arrival": 0.0,
        "samples": 2,
        "batch": 2,
        "worker": [1],
        "ps": [1],
        "ratio": 2.0,
        "value": Sigmoid(80, 0, 1),
    }
    return make_sample_job(0, **(usual | fields))


def plan_for(job: Job, world: World | None = None) -> Any:
    world = world or make_world()
    return world.policy.decide(world.view(job, world.empty()))


def refusal(job: Job, world: World | None = None) -> Reason:
    plan = plan_for(job, world)
    assert not plan.bookings
    return plan.refusals[0].reason


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("worker", "ps"), [([0], [1]), ([1], [0]), ([0], [0])])
def test_refuses_a_job_that_demands_nothing(worker: list[int], ps: list[int]) -> None:
    assert refusal(make(worker=worker, ps=ps)).code == "no_demand"


def test_refuses_a_job_that_the_horizon_is_too_short_for() -> None:
    assert refusal(make(epochs=9)) == Reason("horizon_too_short", {"needs_slots": 9, "slots": 4})


def test_refuses_a_job_that_no_server_has_room_for() -> None:
    assert refusal(make(worker=[5])) == Reason("no_room", {"asked": 2, "free": 0.0})


def test_refuses_a_job_whose_price_equals_its_value() -> None:
    assert plan_for(make(value=Linear(0, 3.5))).bookings
    assert refusal(make(value=Linear(0, 3.0))) == Reason("outbid", {"price": 3.0, "value": 3.0})


def test_refuses_a_job_worth_less_than_any_price() -> None:
    reason = refusal(make(value=Linear(0, 0.5)))
    assert reason == Reason("outbid", {"price_at_least": 3.0, "value": 0.5})


def test_refuses_a_job_whose_value_has_run_out() -> None:
    assert refusal(make(value=Linear(0, -1))) == Reason("not_worth_it", {"best_value": -1.0})


def test_refuses_a_price_above_what_the_job_may_pay() -> None:
    assert refusal(make(max_price=2.5)) == Reason("over_max_price", {"price": 3.0, "max_price": 2.5})


# --- deployments ----------------------------------------------------------------------------------------------------


def test_a_gang_that_fits_one_server_runs_there_at_the_internal_rate() -> None:
    job = make(samples=4, batch=4, sample_slots=0.5, exchange=1.0, rates=(8.0, 1.0), ratio=2.0)
    booking = plan_for(job, make_world(servers=((6.0,), (6.0,)))).bookings[0]
    assert booking.placement == CENTRALIZED
    assert [(row.server, row.workers, row.ps) for row in booking.allocation] == [(0, 3, 2)]
    assert booking.end - booking.start == 1  # 4 * (0.5 + 2 * 2 / (8 * 4)) = 2.5 worker-slots; elsewhere 6


def test_a_gang_that_fits_no_single_server_is_spread() -> None:
    booking = plan_for(make(samples=4, batch=4, ratio=4.0, value=Linear(-40, 100))).bookings[0]
    assert booking.placement == DISTRIBUTED
    assert (booking.workers, booking.ps, booking.end) == (4, 1, 1)


def test_a_worker_never_stands_where_workers_may_not() -> None:
    world = make_world(servers=((9.0,), (9.0,)))
    split = replace(world.cluster, hosts_workers=np.array([False, True]), hosts_ps=np.array([True, False]))
    job = make(batch=2)
    booking = world.policy.decide(replace(world.view(job, world.empty()), cluster=split)).bookings[0]
    assert [(row.server, row.workers, row.ps) for row in booking.allocation] == [(0, 0, 1), (1, 2, 0)]


def test_a_gang_keeps_its_limits() -> None:
    job = make(samples=6, batch=6, ratio=2.0, max_ps=2, min_workers=2, value=Linear(-1, 100))
    booking = plan_for(job, make_world(servers=((20.0,),))).bookings[0]
    assert booking.ps <= 2
    assert all(row.workers in range(2, 5) for row in booking.allocation)
    assert refusal(replace(job, max_ps=1, min_workers=3)).code == "no_room"


def test_a_job_without_samples_runs_at_the_speed_that_other_policies_give_it() -> None:
    """Counted in mini-batches: no exchange on one server, two megabytes' worth elsewhere (Astraea, Eq. 1)."""
    job = make_job(chunks=2, epochs=3, gradient_mb=225.0, worker_types=[make_worker()], ps_types=[make_ps(mbps=2.0)])
    speed = speed_of(job, job.worker_types[0], job.ps_types[0], SLOT_SECONDS)
    assert (speed.samples, speed.internal, speed.external, speed.ps_ratio) == (6, 1, 2, 2)


def test_the_dice_of_a_rounding_depend_on_the_seed_and_on_nothing_that_is_reported_about_value() -> None:
    world = make_world(servers=((3.0,), (5.0,), (4.0,)), external="rounding", tries=1)
    job = make(samples=6, batch=6, ratio=1.5, value=Linear(-1, 200))
    rich = replace(job, value=Linear(-1, 900))
    assert plan_for(job, world).bookings[0].allocation == plan_for(rich, world).bookings[0].allocation


def test_equal_slots_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from scheduling.core.policies.pdors import slots as module

    calls = []
    original = module.program_of
    monkeypatch.setattr(module, "program_of", lambda *args: calls.append(1) or original(*args))
    world = make_world(slots=40, external="milp")
    occupied = world.empty()
    occupied[:, 7] = 1.0
    world.policy.decide(world.view(make(samples=6, epochs=3, value=Linear(-1, 500)), occupied))
    assert len(calls) == 2  # an idle slot, and the one that is not


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"price": {"floor": 0, "ceiling": {}}}, "policy.price.floor"),
        ({"price": {"floor": 2, "ceiling": {"r0": 1}}}, "policy.price.ceiling.r0"),
        ({"price": {"floor": 1, "ceiling": {"gpu": 1}}}, "policy.price.ceiling.gpu"),
        ({"worker_price": {}}, "policy.worker_price"),
        ({"grid": 0}, "policy.grid"),
        ({"external": "lp"}, "policy.external"),
        ({"gain": 0}, "policy.gain"),
        ({"tries": 0}, "policy.tries"),
        ({"seed": -1}, "policy.seed"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(BadScenario) as refused:
        build({"name": "pdors"} | fields, make_world().cluster, ())
    assert refused.value.place == place


def test_bounds_that_are_left_out_come_from_the_jobs() -> None:
    bounds = propose(make_world().cluster, [make(value=Linear(-1, 100)), make(value=Convex(50, 1))], MARKET)
    assert 0 < bounds.floor <= bounds.ceiling["r0"] < math.inf
    policy = build({"name": "pdors"}, make_world().cluster, ())
    assert isinstance(policy, Pdors)
    assert policy.price["floor"] == 1.0


@pytest.mark.parametrize("mode", MODES)
def test_jobs_that_are_worth_nothing_in_any_run_do_not_lower_the_floor(mode: str) -> None:
    good = [make(value=Sigmoid(80, 0.5, 4), samples=samples) for samples in (2, 4, 6)]
    hopeless = [make(value=Sigmoid(80, 2, 0.5), samples=60) for _ in range(9)]
    cluster = make_world().cluster
    assert propose(cluster, [*good, *hopeless], mode).floor == propose(cluster, good, mode).floor > 0.01


# --- out of the ordinary --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("external", ["greedy", "milp", "rounding"])
@pytest.mark.parametrize("amount", [0.0, 0.5])
def test_servers_without_room_are_no_trouble(external: str, amount: float) -> None:
    reason = refusal(make(), make_world(servers=((amount,), (amount,)), external=external))
    assert reason.code == "no_room"


def test_one_slot_is_enough_for_a_job_of_one_slot() -> None:
    assert plan_for(make(), make_world(slots=1)).bookings[0].end == 1


@pytest.mark.parametrize("value", [Sigmoid(80, 600, 1), Convex(1e9, 3), Linear(0, 1e12)])
def test_values_without_bounds_are_priced_like_any_other(value: Any) -> None:
    for booking in plan_for(make(samples=3, epochs=2, value=value)).bookings:
        assert np.isfinite([booking.cost, booking.paid, booking.value]).all()
        assert booking.paid == pytest.approx(booking.cost, abs=5.1e-7)


def test_jobs_that_are_all_alike_fill_the_servers_and_no_more() -> None:
    world = make_world(slots=3)
    jobs = tuple(replace(make(value=Linear(0, 1000)), number=number) for number in range(12))
    view = world.view(jobs[0], world.empty())
    plan = world.policy.decide(
        replace(view, waiting=jobs, remaining=np.ones(12), jobs={job.number: job for job in jobs})
    )
    used = np.zeros((3, 2))
    for booking in plan.bookings:
        for row in booking.allocation:
            used[row.start : row.end, row.server] += row.workers + row.ps
    assert (used <= 4).all()
    assert used.sum() >= 18
    assert len(plan.bookings) + len(plan.refusals) == 12
