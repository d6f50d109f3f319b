"""An elastic pool's policy: numbers of another policy, the operator's prices, and nobody who cannot pay."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core import records
from scheduling.core.policies import POLICIES, build
from scheduling.core.policies.elastic import SINGLE_SLOTS
from scheduling.core.scenario import BadScenario
from scheduling.core.settlement import charges
from scheduling.core.simulation import simulate
from scheduling.core.types import OWN, SHARED, Plan, View
from scheduling.services.chain import policy_bytes
from tests.core.builders import make_cluster, make_job, make_scenario, make_tenant, make_view
from tests.core.policy_examination import Examined, frozen
from tests.core.random_markets import random_market

ASKED = sorted(SINGLE_SLOTS & POLICIES.keys())
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
        ({"funds": np.array([9, 9, 1.4])}, {}, "low_balance", {"price": 1.5, "left": 1.4}),
        ({"paid": {0: 3.0}}, {"max_price": 4.0}, "over_max_price", {"price": 1.5, "max_price": 4.0, "spent": 3.0}),
        ({}, {"rent": "never"}, "rent_never", {"price": 1.5}),
        (
            {"u2": {"rent": "budget", "budget": 5.0}, "spent": np.array([0, 0, 4.0])},
            {},
            "over_budget",
            {"price": 1.5, "left": 1.0},
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


def test_a_job_that_has_begun_is_never_refused_for_good() -> None:
    job = gang(chunks=9, min_workers=9)
    view = shared_server(job)
    assert [refusal.state for refusal in decided(view).refusals] == ["rejected"]
    begun = replace(view, remaining=np.array([float(job.work - 1)]))
    assert [refusal.state for refusal in decided(begun).refusals] == ["waiting"]


@pytest.mark.parametrize("policy", ASKED)
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


def test_its_view_is_read_back_with_what_jobs_have_paid() -> None:
    view = shared_server(gang(), paid={0: 3.25})
    again = records.view_from(records.view_bytes(view))
    assert frozen(again.paid) == frozen(view.paid)
    assert b'"paid"' not in records.view_bytes(make_view()).replace(b'"paid":0.0', b"")  # of pools without, as before


@pytest.mark.parametrize("policy", ASKED)
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
    assert json.loads(json.dumps(track.reason.numbers)) == {"price": 1.5, "max_price": 4.0, "spent": 3.0}
