"""Astraea's decisions in small markets worked out by hand: types, limits, reasons, published windows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from scheduling.core import policies
from scheduling.core.types import EXPIRED, REJECTED, WAITING, Booking, Cluster, Job, Plan, Refusal, View
from scheduling.core.value import Deadline, Linear
from tests.core.builders import make_cluster, make_job, make_tenant, make_unit_type, make_view

STEADY = {"first": 4, "cap": 4, "restart": False}
SLOW, FAST, PS = (1, 0, 0), (0, 1, 0), (0, 0, 1)


def decide(cluster: Cluster, jobs: list[Job], slot: int = 4, **fields: Any) -> Plan:
    """The plan at a boundary whose window is [slot, slot + 4)."""
    settings = {"mode": "guarantee", "theta": dict.fromkeys(cluster.resources, 4), "price_floor": 0.5, "clock": STEADY}
    policy = policies.build({"name": "astraea", **settings, **fields}, cluster, jobs)
    return policy.decide(make_view(jobs, slot=slot, cluster=cluster))


def booking_of(plan: Plan, number: int = 0) -> Booking:
    (booking,) = [booking for booking in plan.bookings if booking.job == number]
    return booking


def refusal_of(plan: Plan, number: int = 0) -> Refusal:
    (refusal,) = [refusal for refusal in plan.refusals if refusal.job == number]
    return refusal


def two_homes(*, renter: Any = None, owner: Any = None) -> Cluster:
    """u0 has one worker and one parameter server on s0, u1 four workers and one on s1."""
    return make_cluster(
        ((1, 4), (1, 1)),
        cells=(((1, 0), (0, 4)), ((1, 0), (0, 1))),
        tenants=(renter or make_tenant("u0"), owner or make_tenant("u1")),
    )


def three_types() -> Cluster:
    """u0 has two slow workers and a parameter server on s0, u1 two fast workers and one on s1."""
    return make_cluster(
        ((2, 0), (0, 2), (1, 1)),
        cells=(((2, 0), (0, 0)), ((0, 0), (0, 2)), ((1, 0), (0, 1))),
        resources=("slow", "fast", "ps"),
    )


def either_type(number: int = 0, tenant: int = 0) -> Job:
    """Eight mini-batches on two workers: four slots on slow ones, two on fast ones."""
    slow, fast = make_unit_type(SLOW, seconds=3600), make_unit_type(FAST, seconds=1800)
    ps = make_unit_type(PS, seconds=0)
    value = Linear(-2, 100)
    return make_job(number, tenant=tenant, epochs=4, chunks=2, worker_types=(slow, fast), ps_types=(ps,), value=value)


def urgent(number: int = 0, *, slope: float = -5.0, tenant: int = 0, **fields: Any) -> Job:
    """Eight worker-slots for up to four workers: eight slots at home, two on the other server."""
    return make_job(number, tenant=tenant, epochs=2, chunks=4, value=Linear(slope, 100), **fields)


def test_a_job_takes_the_type_that_serves_it_best_and_pays_that_type_s_owner() -> None:
    # Home: slow, [4, 8), 100 - 16 = 84. Pool: fast, [4, 6), 100 - 12 = 88 for 2 slots * (2 * 0.5 + 0.5) = 3: 85.
    plan = decide(three_types(), [either_type()])
    booking = booking_of(plan)
    assert (booking.start, booking.end, booking.worker_type, booking.workers, booking.ps) == (4, 6, 1, 2, 1)
    assert (booking.phase, booking.value, booking.floor) == ("shared", 88.0, 84.0)
    assert booking.paid == pytest.approx(3.0)
    assert booking.payouts is not None
    assert booking.payouts.tolist() == pytest.approx([0.0, 3.0, 0.0])


def test_owners_of_other_types_get_nothing() -> None:
    # In paper mode u0's share keeps the slow type: the fast one is not its own (R20).
    plan = decide(three_types(), [either_type(0), either_type(1, tenant=1)], mode="paper", price_floor=0)
    first, second = booking_of(plan, 0), booking_of(plan, 1)
    assert [(first.worker_type, first.end), (second.worker_type, second.end)] == [(0, 8), (1, 6)]
    assert all(booking.payouts is None for booking in plan.bookings)


def test_equal_types_are_taken_in_order() -> None:
    cluster = make_cluster(((2,), (2,), (1,)), quota=((2,), (2,), (1,)), resources=("slow", "fast", "ps"))
    twins = [make_unit_type(demand, seconds=3600) for demand in (SLOW, FAST)]
    job = make_job(chunks=2, worker_types=twins, ps_types=[make_unit_type(PS, seconds=0)])
    booking = booking_of(decide(cluster, [job], mode="paper"))
    assert (booking.worker_type, booking.ps_type) == (0, 0)


def test_publishes_prices_contributions_and_what_was_sold() -> None:
    (window,) = decide(two_homes(), [urgent()]).windows  # rents four workers and a parameter server in [4, 6)
    assert (window.start, window.end) == (4, 8)
    assert window.rented.tolist() == [[4, 4, 0, 0], [1, 1, 0, 0]]
    # Home was idle for nobody but u0's eight slots of one worker when renting began.
    assert window.idle[:, :, 0].tolist() == [[0, 4, 0], [0, 1, 0]]
    assert window.prices == pytest.approx(np.array([[3.5, 3.5, 0.5, 0.5]] * 2))


def test_publishes_windows_in_paper_mode_too() -> None:
    (window,) = decide(two_homes(), [urgent()], mode="paper", price_floor=0).windows  # its share is four slots short
    assert window.idle[:, :, 0].tolist() == [[1, 4, 0], [1, 1, 0]]
    assert window.rented.tolist() == [[4, 4, 0, 0], [1, 1, 0, 0]]
    assert window.prices[0].tolist() == pytest.approx([4**0.8 - 1, 4**0.8 - 1, 0, 0])


def test_refuses_a_job_whose_price_exceeds_its_value() -> None:
    refusal = refusal_of(decide(two_homes(), [urgent(slope=-30)], price_floor=50))
    assert refusal.state == EXPIRED  # 100 - 30 * 5 at best
    plan = decide(two_homes(), [urgent(slope=-15)], price_floor=50)
    reason = refusal_of(plan).reason
    assert (reason.code, refusal_of(plan).state) == ("outbid", WAITING)
    assert reason.numbers["price"] >= reason.numbers["value"] > 0  # type: ignore[operator]


def test_tells_how_much_room_there_was() -> None:
    gang = make_job(0, chunks=8, min_workers=6)
    reason = refusal_of(decide(two_homes(), [gang], mode="paper")).reason
    assert (reason.code, dict(reason.numbers)) == ("no_room", {"asked": 6, "free": 4})


def test_tells_how_much_room_scattered_servers_have() -> None:
    # Two workers on different servers are enough for a gang of two only if one parameter server carries one elsewhere.
    cluster = make_cluster(((1, 1), (1, 1)), quota=((2,), (2,)))
    together = make_job(0, chunks=2, min_workers=2, ps_types=[make_unit_type((0, 1), seconds=0, mbps=0.25)])
    reason = refusal_of(decide(cluster, [together], mode="paper")).reason
    assert reason.code == "no_room"
    assert reason.numbers["free"] < reason.numbers["asked"]  # type: ignore[operator]


def test_a_job_longer_than_the_window_waits_in_paper_mode() -> None:
    refusal = refusal_of(decide(two_homes(), [make_job(epochs=5)], mode="paper"))
    assert (refusal.state, refusal.reason.code) == (WAITING, "larger_than_window")
    assert dict(refusal.reason.numbers) == {"needs_slots": 5, "window_slots": 4}


def test_rejects_what_fits_neither_at_home_nor_any_window() -> None:
    gang = make_job(0, epochs=9, chunks=4, min_workers=2)  # home has one worker; four elsewhere take nine slots
    refusal = refusal_of(decide(two_homes(), [gang]))
    assert (refusal.state, refusal.reason.code) == (REJECTED, "larger_than_window")
    assert dict(refusal.reason.numbers) == {"needs_slots": 9, "window_slots": 4}


def test_rejects_what_no_number_of_slots_is_enough_for() -> None:
    refusal = refusal_of(decide(two_homes(), [make_job(0, chunks=9, min_workers=9)]))
    assert (refusal.state, dict(refusal.reason.numbers)) == (REJECTED, {"needs_slots": None, "window_slots": 4})


def test_a_job_without_any_value_left_expires() -> None:
    refusal = refusal_of(decide(two_homes(), [make_job(0, value=Deadline(10, 4))]))
    assert (refusal.state, refusal.reason.code, dict(refusal.reason.numbers)) == (
        EXPIRED,
        "not_worth_it",
        {"best_value": 0.0},
    )


def test_a_job_that_waits_for_its_home_is_told_when_and_for_what() -> None:
    cluster = two_homes(renter=make_tenant("u0", rent="never"))
    plan = decide(cluster, [make_job(0, epochs=5), make_job(1, arrival=1.0)])
    assert booking_of(plan).end == 9
    reason = refusal_of(plan, 1).reason
    assert (reason.code, dict(reason.numbers)) == ("waiting_at_home", {"start": 9, "value": 91.0})


def test_a_tenant_that_never_rents_is_told_so() -> None:
    cluster = two_homes(renter=make_tenant("u0", rent="never"))
    reason = refusal_of(decide(cluster, [make_job(0, chunks=2, min_workers=2)])).reason
    assert reason.code == "rent_never"


def test_a_job_may_rent_although_its_tenant_does_not() -> None:
    cluster = two_homes(renter=make_tenant("u0", rent="never"))
    assert booking_of(decide(cluster, [urgent(rent="auto")])).phase == "shared"
    assert booking_of(decide(two_homes(), [urgent(rent="never")])).phase == "own"


def test_a_price_above_the_job_s_limit_is_named() -> None:
    gang = make_job(0, chunks=2, min_workers=2, max_price=1.0)  # 2 * 0.5 * 4/5 + 0.5 * 1/2: net of its owner's part
    reason = refusal_of(decide(two_homes(), [gang])).reason
    assert (reason.code, dict(reason.numbers)) == ("over_max_price", {"price": pytest.approx(1.05), "max_price": 1.0})


def test_a_budget_runs_out_within_one_interval() -> None:
    cluster = two_homes(renter=make_tenant("u0", rent="budget", budget=2.0))
    gangs = [make_job(number, chunks=2, min_workers=2, max_workers=2) for number in range(2)]
    plan = decide(cluster, gangs)
    assert booking_of(plan).paid == pytest.approx(1.05)
    reason = refusal_of(plan, 1).reason
    assert reason.code == "over_budget"
    assert dict(reason.numbers) == pytest.approx({"price": 1.05, "left": 0.95})


@pytest.mark.parametrize(("limit", "start", "paid"), [(None, 4, 4.5), (4.5, 4, 4.5), (4.4, 6, 1.5)])
def test_a_limit_leaves_the_job_the_schedules_below_it(limit: float | None, start: int, paid: float) -> None:
    # Half of all is rented in [4, 6): 3 * (0.5 + 1) there, 3 * 0.5 later, for a value that falls by 2 a slot.
    cluster = make_cluster(((4,), (2,)), cells=(((0,), (4,)), ((0,), (2,))))
    before = make_job(0, epochs=2, chunks=2, min_workers=2)
    limited = make_job(1, chunks=2, min_workers=2, value=Linear(-2, 100), max_price=limit)
    booking = booking_of(decide(cluster, [before, limited]), 1)
    assert (booking.start, booking.paid) == (start, pytest.approx(paid))


def test_max_price_holds_in_paper_mode() -> None:
    pure_renter = make_cluster(((4,), (1,)), quota=((0, 4), (0, 1)))
    jobs = [urgent(0, tenant=1, slope=-1), urgent(1, slope=-1), urgent(2, slope=-1, max_price=0.0)]
    plan = decide(pure_renter, jobs, mode="paper", price_floor=0.1)
    assert booking_of(plan, 1).paid > 0
    assert refusal_of(plan, 2).reason.code in {"over_max_price", "no_room"}


def test_cells_below_their_owner_s_reserve_price_are_not_sold() -> None:
    asks = make_tenant("u1", reserve_price=(0.6, 0.6))
    assert refusal_of(decide(two_homes(owner=asks), [make_job(0, chunks=2, min_workers=2)])).reason.code == "no_room"
    assert booking_of(decide(two_homes(owner=asks), [make_job(0, chunks=2, min_workers=2)], price_floor=0.6))


def test_floors_come_by_priority_then_arrival() -> None:
    cluster = two_homes(renter=make_tenant("u0", rent="never"))
    jobs = [make_job(0, arrival=0.0), make_job(1, arrival=1.0), make_job(2, arrival=2.0, priority=1)]
    plan = decide(cluster, jobs)
    assert [(floor.job, floor.start) for floor in plan.floors] == [(2, 4), (0, 5), (1, 6)]


def test_floors_that_were_given_stay_and_are_kept_free_of_later_jobs() -> None:
    cluster = two_homes(renter=make_tenant("u0", rent="never"))
    first, second = make_job(0, epochs=6), make_job(1, arrival=5.0)
    floors = {floor.job: floor for floor in decide(cluster, [first]).floors}
    policy = policies.build(
        {"name": "astraea", "mode": "guarantee", "theta": {"worker": 4, "ps": 4}, "clock": STEADY}, cluster, [first]
    )
    jobs = {0: first, 1: second}
    occupied = np.zeros((2, 2, 2))
    occupied[:, :, 0] = 1
    plan = policy.decide(make_view([second], slot=8, cluster=cluster, floors=floors, jobs=jobs, occupied=occupied))
    assert [(floor.job, floor.start) for floor in plan.floors] == [(1, 10)]


@pytest.mark.parametrize("mode", ["paper", "guarantee"])
def test_the_same_view_gives_the_same_plan_and_stays_as_it_was(mode: str) -> None:
    cluster = two_homes()
    jobs = [urgent(number, tenant=number % 2, arrival=number / 4) for number in range(6)]
    policy = policies.build({"name": "astraea", "mode": mode, "clock": STEADY}, cluster, jobs)
    view: View = make_view(jobs, slot=4, cluster=cluster, occupied=np.zeros((2, 3, 2)))
    before = copy.deepcopy({name: getattr(view, name) for name in ("occupied", "remaining", "spent", "waiting")})
    first = repr(policy.decide(view))
    assert first == repr(policy.decide(view))
    assert repr(before["occupied"]) == repr(view.occupied)
    assert repr(before["spent"]) == repr(view.spent)
    assert len(first) > 100
