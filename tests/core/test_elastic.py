"""An elastic pool's policy: numbers of another policy, the operator's prices, and nobody who cannot pay."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduling.core import records
from scheduling.core.policies import POLICIES, SINGLE_SLOTS, build
from scheduling.core.policies.elastic import Elastic
from scheduling.core.scenario import BadScenario
from scheduling.core.settlement import charges
from scheduling.core.simulation import simulate
from scheduling.core.types import OWN, SHARED, Allocation, Booking, Plan, View
from scheduling.market.decide.chain import policy_bytes
from tests.core.builders import make_cluster, make_job, make_scenario, make_tenant, make_unit_type, make_view
from tests.core.policy_examination import Examined, frozen
from tests.core.random_markets import random_market

NAMES = sorted(SINGLE_SLOTS & POLICIES.keys())
PRICES = {"worker": 0.5, "ps": 0.25}


def decided(view: View, policy: str = "srtf", prices: dict[str, float] = PRICES) -> Plan:
    settings = {"name": "elastic", "policy": {"name": policy}, "prices": prices}
    return build(settings, view.cluster, view.waiting).decide(view)


def shared_server(*jobs: Any, **fields: Any) -> View:
    """One server of four workers and four parameter servers: u0 has half of the workers, u1 a quarter; u2 has none."""
    tenants = [make_tenant(f"u{number}", **fields.pop(f"u{number}", {})) for number in range(3)]
    cells = [[[2], [1], [0]], [[0], [0], [0]]]
    cluster = make_cluster([[4], [4]], cells=cells, quota=np.sum(cells, axis=2), tenants=tenants)
    return make_view(cluster=cluster, waiting=jobs, **fields)


def gang(number: int = 0, **fields: Any) -> Any:
    """Two workers and two parameter servers (srtf), with work for ten slots."""
    return make_job(number, **{"chunks": 2, "minibatches": 10, "tenant": 2, "min_workers": 2} | fields)


def test_a_slot_costs_its_units_at_the_prices_and_owners_are_paid_by_what_they_have_on_the_server() -> None:
    (booking,) = decided(shared_server(gang())).bookings
    assert (booking.workers, booking.ps) == (2, 2)
    assert booking.cost == booking.paid == 2 * 0.5 + 2 * 0.25
    assert booking.payouts.tolist() == [0.5, 0.25, 0.0, 0.25 + 0.5]  # the operator: a worker's quarter, and all ps
    assert booking.phase == SHARED
    assert charges(booking).tolist() == [[500_000, 250_000, 0, 750_000]]


def test_the_payers_own_part_is_not_charged() -> None:
    (booking,) = decided(shared_server(gang(tenant=0))).bookings
    assert (booking.cost, booking.paid) == (1.5, 1.0)
    assert booking.payouts.tolist() == [0.0, 0.25, 0.0, 0.75]
    cluster = make_cluster([[4], [4]], cells=[[[4]], [[4]]], quota=[[4], [4]])
    (own,) = decided(make_view(cluster=cluster, waiting=(gang(tenant=0),))).bookings
    assert (own.paid, own.payouts, own.phase) == (0.0, None, OWN)


@pytest.mark.parametrize(
    ("fields", "job", "code", "numbers"),
    [
        ({"funds": np.array([9, 9, 1.2])}, {}, "low_balance", {"price": 1.5, "left": 1.2, "least_price": 1.25}),
        ({"funds": np.array([9, 9, 0.7])}, {"max_ps": 1}, "low_balance", {"price": 1.25, "left": 0.7}),
        (
            {"paid": {0: 3.0}},
            {"max_price": 4.0},
            "over_max_price",
            {"price": 1.5, "max_price": 4.0, "spent": 3.0, "least_price": 1.25},
        ),
        ({}, {"rent": "never"}, "rent_never", {"price": 1.5}),
        (
            {"u2": {"rent": "budget", "budget": 5.0}, "spent": np.array([0, 0, 4.0])},
            {},
            "over_budget",
            {"price": 1.5, "left": 1.0, "least_price": 1.25},
        ),
    ],
)
def test_who_cannot_pay_the_slot_waits_and_is_told_the_numbers(
    fields: dict[str, Any], job: dict[str, Any], code: str, numbers: dict[str, float]
) -> None:
    plan = decided(shared_server(gang(**job), **fields))
    assert not plan.bookings
    assert [(r.reason.code, r.reason.numbers, r.state) for r in plan.refusals] == [(code, numbers, "waiting")]


def test_the_room_of_who_cannot_pay_is_given_to_others() -> None:
    poor, rich = gang(0, chunks=4, min_workers=4), gang(1, tenant=1, minibatches=99)
    view = shared_server(poor, rich, funds=np.array([9, 9, 1.4]))
    plan = decided(view)
    assert [booking.job for booking in plan.bookings] == [1]
    assert [(refusal.job, refusal.reason.code) for refusal in plan.refusals] == [(0, "low_balance")]


def test_a_tenants_money_goes_to_its_earlier_job() -> None:
    jobs = gang(0, arrival=0.0, minibatches=99), gang(1, arrival=0.0)  # the later would end sooner
    plan = decided(shared_server(*jobs, funds=np.array([9, 9, 1.6])))
    assert [booking.job for booking in plan.bookings] == [0]


def test_who_cannot_pay_its_size_gets_the_largest_that_it_can_and_is_told_the_numbers() -> None:
    view = shared_server(gang(chunks=4, min_workers=1), funds=np.array([9, 9, 2.3]))
    plan = decided(view)
    [booking] = plan.bookings
    assert (booking.workers, booking.ps, booking.paid) == (3, 3, 2.25)
    assert plan.smaller[0].code == "smaller_size"
    assert plan.smaller[0].numbers == {
        "workers": 3,
        "ps": 3,
        "price": 2.25,
        "asked": 4,
        "asked_ps": 4,
        "asked_price": 3.0,
        "left": 2.3,
        "limit": "low_balance",
    }
    assert decided(shared_server(gang(chunks=4, min_workers=1))).smaller == {}


def test_the_least_of_funds_budget_and_limit_says_how_large_it_may_be() -> None:
    means: dict[str, Any] = {"funds": np.array([9, 9, 2.3]), "u2": {"rent": "budget", "budget": 5.0}}
    view = shared_server(gang(chunks=4, min_workers=1, max_price=9.0), spent=np.array([0, 0, 3.4]), **means)
    plan = decided(view)
    assert [booking.workers for booking in plan.bookings] == [2]
    assert (plan.smaller[0].numbers["limit"], plan.smaller[0].numbers["left"]) == ("over_budget", pytest.approx(1.6))


def test_what_a_smaller_gang_leaves_goes_to_the_next_job() -> None:
    jobs = gang(0, chunks=4, min_workers=1), gang(1, tenant=1, chunks=4, min_workers=1, minibatches=99)
    plan = decided(shared_server(*jobs, funds=np.array([9, 9, 2.3])), "dominant_resource_fairness")
    rich = decided(shared_server(*jobs), "dominant_resource_fairness")
    assert [(b.job, b.workers) for b in rich.bookings] == [(0, 2), (1, 2)]
    assert [(b.job, b.workers) for b in plan.bookings] == [(0, 2), (1, 2)]
    poor = decided(shared_server(*jobs, funds=np.array([9, 9, 0.8])), "dominant_resource_fairness")
    assert [(b.job, b.workers) for b in poor.bookings] == [(0, 1), (1, 3)]
    assert list(poor.smaller) == [0]


def test_a_later_job_of_the_tenant_gets_what_the_earlier_one_leaves_of_its_money() -> None:
    jobs = gang(0), gang(1, minibatches=99, min_workers=1)
    plan = decided(shared_server(*jobs, funds=np.array([9, 9, 2.5])))
    assert [(booking.job, booking.workers, booking.paid) for booking in plan.bookings] == [(0, 2, 1.5), (1, 1, 0.75)]


def test_what_a_smaller_gang_does_not_cost_is_there_for_a_later_job_of_the_tenant() -> None:
    light = gang(1, chunks=1, min_workers=1, minibatches=99, worker_types=[make_unit_type((0.5, 0))])
    view = shared_server(gang(0, chunks=3, min_workers=1), light, funds=np.array([9, 9, 2.1]))
    plan = decided(view)  # a worker with its parameter server costs 0.75, of the light job 0.5
    assert [(booking.job, booking.workers) for booking in plan.bookings] == [(0, 2), (1, 1)]


@dataclass(frozen=True)
class Stubborn:
    """Gives every job four workers and a parameter server, whatever it asks for."""

    name: ClassVar[str] = "stubborn"
    views: list[View]

    def decide(self, view: View) -> Plan:
        self.views.append(view)
        rows = (Allocation(0, view.slot, view.slot + 1, 4, 1),)
        return Plan([Booking(job.number, view.slot, view.slot + 1, rows, 1.0, 4, 1) for job in view.waiting])


def test_a_policy_that_heeds_no_limit_leaves_the_job_without_a_slot() -> None:
    view = shared_server(gang(chunks=4, min_workers=1), funds=np.array([9, 9, 1.0]))
    policy = Stubborn([])
    plan = Elastic(policy, PRICES).decide(view)
    assert (plan.bookings, plan.smaller) == ([], {})
    assert [len(each.waiting) for each in policy.views] == [1, 1, 0]
    assert [refusal.reason.code for refusal in plan.refusals] == ["low_balance"]


@pytest.mark.parametrize("policy", sorted(set(NAMES) - {"dorm", "dl2", "offline_rl", "optimus"}))
@pytest.mark.parametrize("funds", [0.2, 0.8, 1.3, 1.9, 2.6, 3.4, 9.0])
def test_no_larger_size_could_be_paid(policy: str, funds: float) -> None:
    """The reference tries every size by itself, with all the money in the world."""

    def size(most: int, money: float) -> tuple[int, float]:
        jobs = gang(chunks=6, max_workers=most, min_workers=1)
        cluster = make_cluster([[8], [8]], quota=[[0], [0]])
        view = make_view(cluster=cluster, waiting=[replace(jobs, tenant=0)], funds=np.array([money]))
        plan = decided(view, policy)
        return max(((b.workers, b.paid) for b in plan.bookings), default=(0, 0.0))

    alone = [size(most, 1e9) for most in range(1, 7)]
    best = max((workers for workers, paid in alone if paid <= funds), default=0)
    workers, paid = size(6, funds)
    assert paid <= funds
    assert workers >= best


@pytest.mark.parametrize("policy", ["optimus", "dl2"])
def test_a_policy_that_chooses_both_numbers_stays_within_the_means(policy: str) -> None:
    view = shared_server(gang(chunks=4, min_workers=1), funds=np.array([9, 9, 0.8]))
    [booking] = decided(view, policy).bookings
    assert (booking.workers, booking.ps, booking.paid) == (1, 1, 0.75)


def test_optimus_tries_a_job_anew_that_may_have_more_again() -> None:
    view = shared_server(gang(chunks=4, min_workers=1, minibatches=100), funds=np.array([9, 9, 0.8]))
    for slot, allowed in ((0, [1, 1]), (1, [1, 1]), (2, [16, 4])):
        money = np.array([9, 9, 0.8 if slot < 2 else 9.0])
        view = replace(view, slot=slot, remaining=np.array([400.0 - slot]), funds=money)
        plan = decided(view, "optimus")
        view = replace(view, memory=json.loads(json.dumps(plan.memory)))
        assert plan.memory is not None
        assert plan.memory["jobs"]["0"]["probed"] == allowed


def test_a_plan_is_read_back_with_what_made_its_gangs_smaller() -> None:
    plan = decided(shared_server(gang(chunks=4, min_workers=1), funds=np.array([9, 9, 2.3])))
    again = records.plan_from(records.plan_bytes(plan))
    assert frozen(again.smaller) == frozen(plan.smaller) != frozen({})
    assert b"smaller" not in records.plan_bytes(decided(shared_server(gang())))


def test_a_job_that_has_begun_is_never_refused_for_good() -> None:
    job = gang(chunks=9, min_workers=9)
    view = shared_server(job)
    assert [refusal.state for refusal in decided(view).refusals] == ["rejected"]
    begun = replace(view, remaining=np.array([float(job.work - 1)]))
    assert [refusal.state for refusal in decided(begun).refusals] == ["waiting"]
    reports_nothing = replace(view, paid={0: 0.0})
    assert [refusal.state for refusal in decided(reports_nothing).refusals] == ["waiting"]


@pytest.mark.parametrize("policy", NAMES)
def test_every_policy_of_single_slots_keeps_its_promises_with_prices(policy: str) -> None:
    booked = 0
    for seed in range(1 if policy == "dorm" else 2):  # its programs take seconds
        scenario = random_market(seed, "guarantee", backlog=True)
        prices = dict.fromkeys(scenario.cluster.resources, 0.3)
        settings = {"name": "elastic", "policy": {"name": policy}, "prices": prices}
        examined = Examined(build(settings, scenario.cluster, scenario.jobs))
        outcome = simulate(scenario, {"batch": examined})
        for track in outcome.tracks:
            booked += len(track.bookings)
            paid = sum(booking.paid for booking in track.bookings)
            assert track.job.max_price is None or paid <= track.job.max_price + 1e-9
    assert booked


@pytest.mark.parametrize(
    "policy", [*({"name": name} for name in NAMES), {"name": "gandiva_fair", "restart": 30}], ids=str
)
@pytest.mark.parametrize("count", [2, 30])  # with thirty, Dorm counts the cluster as a whole
def test_no_gang_stays_on_a_server_that_is_drained(policy: dict[str, Any], count: int) -> None:
    cluster = make_cluster([[4] * count, [4] * count])
    waiting = [gang(number, tenant=0) for number in range(4)]
    settings = {"name": "elastic", "policy": policy, "prices": PRICES}
    before = build(settings, cluster, waiting).decide(make_view(waiting, cluster=cluster))
    assert len(before.bookings) >= 2
    used = {row.server for booking in before.bookings for row in booking.allocation}
    in_service = [server != min(used) for server in range(count)]
    drained = make_cluster([[4] * count, [4] * count], hosts_workers=in_service, hosts_ps=in_service)
    view = make_view(waiting, slot=1, cluster=drained, memory=before.memory or {})
    after = build(settings, drained, waiting).decide(view)
    assert after.bookings
    assert all(in_service[row.server] for booking in after.bookings for row in booking.allocation)


@pytest.mark.parametrize("policy", NAMES)
def test_jobs_run_again_once_their_only_server_is_back(policy: str) -> None:
    hosts, waiting, memory = [[True], [False], [True]], (gang(tenant=0),), {}
    settings = {"name": "elastic", "policy": {"name": policy}, "prices": PRICES}
    counts = []
    for slot, now in enumerate(hosts):
        cluster = make_cluster([[4], [4]], hosts_workers=now, hosts_ps=now)
        view = make_view(waiting, slot=slot, cluster=cluster, memory=memory, paid={0: 0.0} if slot else {})
        plan = build(settings, cluster, waiting).decide(view)
        counts.append(len(plan.bookings))
        memory = view.memory if plan.memory is None else plan.memory
    assert counts == [1, 0, 1]


@pytest.mark.parametrize("policy", NAMES)
def test_paused_jobs_run_again_once_all_servers_are_back_while_another_runs(policy: str) -> None:
    """Each server holds one of the gangs."""
    waiting = tuple(gang(number, tenant=0, chunks=4, min_workers=4) for number in range(3))
    memory, counts = {}, []
    settings = {"name": "elastic", "policy": {"name": policy}, "prices": PRICES}
    for slot, now in enumerate([[True] * 3, [False, True, True], [False, False, True], [True] * 3]):
        cluster = make_cluster([[4] * 3, [4] * 3], hosts_workers=now, hosts_ps=now)
        view = make_view(waiting, slot=slot, cluster=cluster, memory=memory, paid=dict.fromkeys(range(3), 0.0))
        plan = build(settings, cluster, waiting).decide(view)
        counts.append(len(plan.bookings))
        memory = view.memory if plan.memory is None else plan.memory
    assert counts == [3, 2, 1, 3]


@pytest.mark.parametrize("policy", ["dominant_resource_fairness", "dorm", "optimus", "tetris"])
def test_a_job_that_can_no_longer_pay_its_size_gets_a_smaller_one(policy: str) -> None:
    """A worker with its parameter server costs 0.75: four of them at first, then there is money for two."""
    job = gang(chunks=4, min_workers=1)
    first = decided(shared_server(job), policy)
    assert first.bookings[0].workers == 4
    later = decided(shared_server(job, slot=1, memory=first.memory or {}, funds=np.array([9.0, 9.0, 1.6])), policy)
    assert [booking.workers for booking in later.bookings] == [2]


@pytest.mark.parametrize("policy", ["gandiva_fair", "rrh", "srtf"])
def test_a_gang_of_the_size_that_was_asked_for_is_smaller_where_that_cannot_be_paid(policy: str) -> None:
    job = gang(chunks=4, min_workers=1, asked_workers=4)
    (booking,) = decided(shared_server(job, funds=np.array([9.0, 9.0, 1.6])), policy).bookings
    assert booking.workers == 2


def test_its_view_is_read_back_with_what_jobs_have_paid() -> None:
    view = shared_server(gang(), paid={0: 3.25})
    again = records.view_from(records.view_bytes(view))
    assert frozen(again.paid) == frozen(view.paid)
    assert b'"paid"' not in records.view_bytes(make_view()).replace(b'"paid":0.0', b"")  # of pools without, as before


@pytest.mark.parametrize("policy", NAMES)
def test_what_is_stored_of_it_builds_it_again(policy: str) -> None:
    settings = {"name": "elastic", "policy": {"name": policy}, "prices": PRICES}
    stored = policy_bytes(build(settings, make_cluster(), ()))
    assert json.loads(stored)["policy"]["name"] == policy
    assert policy_bytes(build(json.loads(stored), make_cluster(), ())) == stored


def test_only_policies_of_single_slots_may_be_asked() -> None:
    for name, place in (("fifo", "policy.policy.name"), ("astraea", "policy.policy.name")):
        with pytest.raises(BadScenario, match=place):
            build({"name": "elastic", "policy": {"name": name}}, make_cluster(), ())
    with pytest.raises(BadScenario, match=r"policy.policy.max_ps"):
        build({"name": "elastic", "policy": {"name": "optimus", "max_ps": "many"}}, make_cluster(), ())
    with pytest.raises(BadScenario, match=r"policy.prices"):
        build({"name": "elastic", "prices": {"gpu": 1}}, make_cluster(), ())


def test_a_run_pays_slot_by_slot_and_stops_at_the_jobs_limit() -> None:
    scenario = make_scenario(
        cluster=make_cluster([[4], [4]], quota=[[0], [0]]),
        jobs=[gang(0, tenant=0, max_price=4.0)],
        slots=20,
    )
    settings = {"name": "elastic", "policy": {"name": "srtf"}, "prices": PRICES}
    outcome = simulate(scenario, {"batch": build(settings, scenario.cluster, scenario.jobs)})
    (track,) = outcome.tracks
    assert [booking.paid for booking in track.bookings] == [1.5, 1.5]
    assert track.reason is not None
    assert json.loads(json.dumps(track.reason.numbers)) == {
        "price": 1.5,
        "max_price": 4.0,
        "spent": 3.0,
        "least_price": 1.25,
    }
