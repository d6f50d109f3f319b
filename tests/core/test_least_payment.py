"""Units of another tenant never cost nothing: the smallest amount that can be paid, for each slot, whoever decides."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core import records
from scheduling.core.policies import build
from scheduling.core.policies.elastic.prices import owners_shares, priced
from scheduling.core.scenario import Scenario
from scheduling.core.settlement import charges, micro
from scheduling.core.simulation import Outcome
from scheduling.core.types import OWN, SHARED, Allocation, Booking, Plan, View
from scheduling.core.value import Linear
from tests.core import oasis_worlds, pdors_worlds
from tests.core.builders import make_cluster, make_job, make_tenant, make_unit_type, make_view
from tests.core.in_blocks import in_blocks
from tests.core.random_markets import VECTOR, random_market
from tests.core.test_floor_promise import SLOTS, Recorded, broken, recorded_run

COIN = 1e-6
ROUNDING = 1e-9


@dataclass(frozen=True)
class Draw:
    """What tells one random market from another."""

    seed: int
    mode: str
    backlog: bool
    least: float


def draw_of(number: int) -> Draw:
    """Both modes, with and without a backlog, and a smallest payment that is small or large."""
    seed = random.Random(number).randint(10**6, 10**9)
    return Draw(seed, ("paper", "guarantee")[number % 2], number % 4 < 2, (COIN, 0.25)[number % 8 < 4])


on_random_markets = in_blocks(draw_of)


# The batch lane.


def market(draw: Draw) -> Scenario:
    """Nothing costs anything but for scarcity, and sometimes a floor below what can be paid; everybody sells."""
    chance, least = random.Random(draw.seed), draw.least
    scenario = random_market(draw.seed, draw.mode, backlog=draw.backlog)
    tenants = [
        replace(each, lend="lend", reserve_price=np.zeros_like(each.reserve_price)) for each in scenario.cluster.tenants
    ]
    cluster = replace(scenario.cluster, tenants=tuple(tenants), least_payment=least)
    floor = dict.fromkeys(cluster.resources, chance.choice((0.0, 0.0, least / 7, 0.3)))
    return replace(scenario, cluster=cluster, policy=scenario.policy | {"price_floor": floor}, slots=SLOTS, preload=())


def sales(view: View, plan: Plan) -> Iterator[tuple[Booking, int, float]]:
    """(rented booking, place of the slot, the least that can be paid for it): each worker and parameter server that
    takes something which another tenant has for sale."""
    for booking in plan.bookings:
        if booking.phase != SHARED:
            continue
        job = view.jobs[booking.job]
        window = next(one for one in plan.windows if one.start <= booking.start < one.end)
        others = np.delete(window.idle[:, :-1], job.tenant, axis=1) > 0
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for place, slot in enumerate(range(booking.start - window.start, booking.end - window.start)):
            sold = others[:, :, slot].any(axis=1)
            members = booking.workers * bool(sold[worker > 0].any()) + booking.ps * bool(sold[ps > 0].any())
            yield booking, place, members * view.cluster.least_payment


@cache
def played(draw: Draw) -> tuple[Scenario, Outcome, Recorded]:
    """Its market, what became of it and every answer. No test changes it."""
    scenario = market(draw)
    return scenario, *recorded_run(scenario)


@on_random_markets
def test_no_slot_with_units_of_another_tenant_is_free(draw: Draw) -> None:
    scenario, _, run = played(draw)
    for slot, plan in run.plans.items():
        for booking, place, at_least in sales(run.views[slot], plan):
            assert booking.slot_payouts[place].sum() >= at_least * (1 - ROUNDING)
            assert booking.slot_payouts.min() >= 0
            assert booking.payouts.sum() == pytest.approx(booking.paid, rel=1e-12, abs=1e-15)
            assert booking.cost >= booking.paid * (1 - ROUNDING)
        assert json.loads(records.plan_bytes(plan)) == json.loads(records.plan_bytes(again(run.views[slot], scenario)))


def again(view: View, scenario: Scenario) -> Plan:
    """Decided from the bytes that an interval keeps."""
    stored = records.view_from(records.view_bytes(view))
    assert stored.cluster.least_payment == view.cluster.least_payment
    return build(scenario.policy, stored.cluster, scenario.jobs).decide(stored)


@on_random_markets
def test_what_is_charged_is_a_micro_credit_a_slot_at_least_and_sums_exactly(draw: Draw) -> None:
    _, _, run = played(replace(draw, mode="guarantee"))
    for slot, plan in run.plans.items():
        slots: dict[int, int] = {}
        for booking, _, at_least in sales(run.views[slot], plan):
            slots[booking.job] = slots.get(booking.job, 0) + (at_least > 0)
        for booking in plan.bookings:
            assert charges(booking).sum() == micro(booking.paid) >= slots.get(booking.job, 0)


@on_random_markets
def test_nobody_gets_less_than_alone(draw: Draw) -> None:
    _, outcome, run = played(replace(draw, mode="guarantee"))
    assert [flaw for track in outcome.tracks if (flaw := broken(track, run.window_end))] == []


@on_random_markets
def test_prices_that_can_be_paid_stay_as_they_are(draw: Draw) -> None:
    scenario = random_market(draw.seed, "guarantee", backlog=draw.backlog)
    scenario = replace(
        scenario, policy=scenario.policy | {"price_floor": dict.fromkeys(scenario.cluster.resources, 0.5)}
    )
    _, without = recorded_run(scenario)
    _, run = recorded_run(replace(scenario, cluster=replace(scenario.cluster, least_payment=1e-12)))
    assert [records.plan_bytes(plan) for plan in run.plans.values()] == [
        records.plan_bytes(plan) for plan in without.plans.values()
    ]


def idle_owner(least: float, policy: dict[str, Any], **job: Any) -> Booking:
    """What a tenant without cells pays on the idle server of another, for two slots of two workers."""
    tenants = [make_tenant("owner"), make_tenant("renter")]
    cells = [[[4], [0]], [[2], [0]]]
    cluster = replace(make_cluster([[4], [2]], cells=cells, tenants=tenants), least_payment=least)
    asks = make_job(0, **{"tenant": 1, "chunks": 4, "min_workers": 2, "max_workers": 2} | job)
    settings = {
        "name": "astraea",
        "theta": {"worker": 2.0, "ps": 2.0},
        "clock": {"first": 4, "cap": 4, "restart": True},
    }
    view = make_view([asks], slot=4, cluster=cluster)
    (booking,) = build(settings | policy, cluster, ()).decide(view).bookings
    return booking


@pytest.mark.parametrize("policy", [{"mode": "guarantee", "price_floor": 0.0}, {"mode": "paper"}])
def test_a_first_renter_of_an_idle_cluster_pays_its_owner(policy: dict[str, Any]) -> None:
    assert idle_owner(0.0, policy).paid == 0.0  # as it was
    booking = idle_owner(COIN, policy)
    assert (booking.workers, booking.ps, booking.end - booking.start) == (2, 1, 2)
    assert charges(booking).tolist() == [[3, 0, 0], [3, 0, 0]]
    assert booking.cost == booking.paid == pytest.approx(6 * COIN)


def test_a_price_below_the_smallest_amount_is_rounded_up_and_shared_as_it_was() -> None:
    booking = idle_owner(COIN, {"mode": "guarantee", "price_floor": 1e-9})
    assert charges(booking).tolist() == [[3, 0, 0], [3, 0, 0]]


def test_ones_own_units_stay_free() -> None:
    booking = idle_owner(COIN, {"mode": "guarantee", "price_floor": 0.0}, tenant=0)
    assert (booking.phase, booking.paid) == (OWN, 0.0)


def test_a_job_that_cannot_pay_the_smallest_amount_does_not_rent() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        idle_owner(COIN, {"mode": "guarantee", "price_floor": 0.0}, max_price=5e-6)
    assert idle_owner(COIN, {"mode": "guarantee", "price_floor": 0.0}, max_price=6e-6).paid == pytest.approx(6e-6)


# The instant lane.

TINY = 1e-15


@pytest.mark.parametrize("seed", range(30))
def test_oasis_asks_the_smallest_amount_for_each_worker_and_parameter_server(seed: int) -> None:
    chance = random.Random(seed)
    bounds = {"r0": TINY, "r1": TINY}
    policy = oasis_worlds.make_policy(floors=(TINY, TINY), ceilings=(bounds, bounds))
    servers = [[chance.randint(1, 4), 0] for _ in range(2)], [[0, chance.randint(1, 3)] for _ in range(2)]
    world = oasis_worlds.World(*servers, 9, policy)
    job = oasis_worlds.make_instant_job(
        1, arrival=0.0, value=Linear(-1.0, 50.0), worker=(1, 0), ps=(0, 1), epochs=1, chunks=chance.randint(1, 5)
    )
    check_instant(world.view(job, world.empty()), policy)


@pytest.mark.parametrize("external", ["greedy", "rounding", "milp"])
@pytest.mark.parametrize("seed", range(10))
def test_pdors_asks_the_smallest_amount_for_each_worker_and_parameter_server(seed: int, external: str) -> None:
    chance = random.Random(seed)
    policy = pdors_worlds.make_policy(floor=TINY, ceiling={"r0": TINY, "r1": TINY}, external=external)
    world = pdors_worlds.World([[chance.randint(1, 3), chance.randint(2, 4)] for _ in range(3)], 9, policy)
    job = pdors_worlds.make_sample_job(
        1, arrival=0.0, value=Linear(-1.0, 50.0), worker=(1, 0.25), ps=(0, 1), samples=chance.randint(1, 6), batch=4
    )
    check_instant(world.view(job, world.empty()), policy)


def check_instant(view: View, policy: Any) -> None:
    """The payer has no cells: all that it takes is somebody else's."""
    plan = policy.decide(replace(view, cluster=replace(view.cluster, least_payment=COIN)))
    for booking in plan.bookings:
        members = sum((row.workers + row.ps) * (row.end - row.start) for row in booking.allocation)
        assert booking.paid == pytest.approx(members * COIN, abs=1e-12)
        assert charges(booking).sum() == micro(booking.paid) == members
    free = policy.decide(view)
    assert [booking.paid for booking in free.bookings] == [0.0] * len(free.bookings)  # as it was
    assert len(plan.bookings) == len(free.bookings)


def test_posted_prices_are_none_that_cannot_be_paid() -> None:
    bounds = {"r0": TINY, "r1": TINY}
    policy = oasis_worlds.make_policy(floors=(TINY, TINY), ceilings=(bounds, bounds))
    world = oasis_worlds.World([[2, 0]], [[0, 2]], 3, policy)
    cluster = replace(world.cluster, least_payment=COIN)
    view = make_view(cluster=cluster, waiting=())
    assert (policy.posted(view, 3) == COIN).all()


# The elastic pool.

shares_of = st.lists(st.integers(0, 2), min_size=3, max_size=3)
rates_of = st.sampled_from([0.0, 0.0, TINY, COIN / 3, COIN, 0.4])


@settings(max_examples=300, deadline=None)
@given(st.lists(shares_of, min_size=4, max_size=4), st.tuples(rates_of, rates_of), st.integers(0, 2), st.data())
def test_a_slot_of_an_elastic_pool_is_free_only_on_ones_own_or_the_operators_units(
    cells: list[list[int]], rates: tuple[float, float], payer: int, data: st.DataObject
) -> None:
    """Two servers of eight workers and eight parameter servers; `cells` of each resource on each server by tenant."""
    owned = np.array(cells, dtype=float).reshape(2, 2, 3).transpose(0, 2, 1)
    tenants = [make_tenant(f"u{index}") for index in range(3)]
    cluster = replace(make_cluster(np.full((2, 2), 8.0), cells=owned, tenants=tenants), least_payment=COIN)
    counts = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=2))
    rows = tuple(Allocation(server, 0, 1, *count) for server, count in enumerate(counts) if any(count))
    job = make_job(0, tenant=payer)
    booking = Booking(0, 0, 1, rows, 1.0, sum(row.workers for row in rows), sum(row.ps for row in rows))
    view = make_view([job], cluster=cluster)
    after = priced(booking, view, np.array(rates), owners_shares(cluster))
    theirs = np.delete(owned, payer, axis=1).sum(axis=1)  # (resources, servers)
    takes_theirs = any((row.workers and theirs[0, row.server]) or (row.ps and theirs[1, row.server]) for row in rows)
    before = priced(
        booking, replace(view, cluster=replace(cluster, least_payment=0.0)), np.array(rates), owners_shares(cluster)
    )
    if takes_theirs or before.paid > 0:
        assert after.paid == pytest.approx(max(before.paid, COIN), rel=1e-12)
        assert (after.phase, after.payouts[payer]) == (SHARED, 0.0)
        assert charges(after).sum() == micro(after.paid) >= 1
    else:
        assert (after.paid, after.phase, after.cost) == (0.0, before.phase, before.cost)
    if before.paid >= COIN:
        assert records.plan_bytes(Plan([after])) == records.plan_bytes(Plan([before]))


def test_without_a_price_of_use_the_other_tenants_share_the_smallest_amount() -> None:
    tenants = [make_tenant(f"u{index}") for index in range(3)]
    cells = [[[3], [1], [0]], [[0], [0], [0]]]
    cluster = replace(make_cluster([[8], [8]], cells=cells, tenants=tenants), least_payment=COIN)
    view = make_view([make_job(0, tenant=2)], cluster=cluster)
    booking = Booking(0, 0, 1, (Allocation(0, 0, 1, 2, 1),), 1.0, 2, 1)
    after = priced(booking, view, np.zeros(2), owners_shares(cluster))
    assert after.payouts.tolist() == pytest.approx([0.75 * COIN, 0.25 * COIN, 0.0, 0.0])
    assert charges(after).tolist() == [[1, 0, 0, 0]]


def test_who_cannot_pay_the_smallest_amount_waits_and_is_told_its_price() -> None:
    tenants = [make_tenant("owner"), make_tenant("poor")]
    cells = [[[4], [0]], [[4], [0]]]
    cluster = replace(make_cluster([[4], [4]], cells=cells, tenants=tenants), least_payment=COIN)
    job = make_job(0, tenant=1, chunks=2, minibatches=10)
    policy = build({"name": "elastic", "policy": {"name": "srtf"}, "prices": {}}, cluster, ())
    plan = policy.decide(make_view([job], cluster=cluster, funds=np.array([0.0, 0.0])))
    (refusal,) = plan.refusals
    assert (plan.bookings, refusal.reason.code) == ([], "low_balance")
    assert refusal.reason.numbers["price"] == pytest.approx(COIN)
    (booking,) = policy.decide(make_view([job], cluster=cluster, funds=np.array([0.0, COIN]))).bookings
    assert booking.paid == pytest.approx(COIN)


def test_demands_of_parts_of_a_unit_are_covered_too() -> None:
    """A vector of resources, of which a unit takes fractions: it is the unit that has a least price, not its parts."""
    assert any(amount % 1 for demand in (*VECTOR.workers, *VECTOR.ps) for amount in demand)
    booking = idle_owner(
        COIN,
        {"mode": "guarantee", "price_floor": 0.0},
        worker_types=[make_unit_type((1e-9, 0))],
        ps_types=[make_unit_type((0, 1e-9), seconds=0.0)],
    )
    assert charges(booking).sum() == 6
