"""The calendar of two lanes: who may sell what until when, and who is paid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.calendar import Shared
from scheduling.core.occupancy import CapacityExceeded
from scheduling.core.parts import parts_of
from scheduling.core.policies.oasis import Oasis
from scheduling.core.posted.menu import MARKET
from scheduling.core.types import BATCH, INSTANT, OWN, Allocation, Booking, Job, Plan, View, Window
from scheduling.core.value import Sigmoid
from tests.core.builders import make_cluster, make_job, make_ps, make_tenant
from tests.core.oasis_worlds import make_policy

CHEAP = make_policy(floors=(1.0, 1.0), ceilings=({"worker": 16.0}, {"ps": 16.0}), mode=MARKET)


def make_calendar(*, operator: int = 0, tenants: list[Any] | None = None) -> Shared:
    """One server: u0 has 2 workers and 1 ps at home, u1 likewise, the operator so many of each on top."""
    cells = np.array([[[2.0], [2.0]], [[1.0], [1.0]]])
    cluster = make_cluster(
        [[4 + operator], [2 + operator]],
        quota=cells.sum(axis=2),
        cells=cells,
        tenants=tenants or [make_tenant("u0"), make_tenant("u1")],
    )
    return Shared(parts_of(cluster))


def make_instant(*, workers: int = 1, work: int = 4, arrival: int = 5, value: float = 1000.0) -> Job:
    return make_job(
        chunks=work,
        max_workers=workers,
        arrival=arrival,
        value=Sigmoid(2 * value, 0, 1),
        ps_types=[make_ps(mbps=8.0)],
    )


def admit(calendar: Shared, job: Job, *, policy: Oasis = CHEAP, horizon: int = 40) -> Plan:
    """What the instant lane answers, entered in the calendar."""
    stage = calendar.stage(INSTANT, job.first_slot)
    plan = policy.decide(
        View(
            slot=job.first_slot,
            horizon=horizon,
            cluster=stage.cluster,
            waiting=(job,),
            remaining=np.array([job.work]),
            occupied=stage.occupied,
            tail=stage.tail,
            windows=stage.windows,
        )
    )
    placed = [calendar.place(INSTANT, job, booking) for booking in plan.bookings]
    return replace(plan, bookings=placed)


def home_booking(job: Job, start: int, end: int, *, workers: int = 2) -> Booking:
    rows = (Allocation(0, start, end, workers, 1),)
    return Booking(job.number, start, end, rows, work=job.work, workers=workers, ps=1, phase=OWN)


def test_home_cells_are_sold_only_before_the_frontier() -> None:
    calendar = make_calendar()
    calendar.publish(BATCH, 0, Plan(frontier=8))
    job = make_instant(workers=1, work=4, arrival=5)
    refused = admit(calendar, job)
    assert not refused.bookings
    assert refused.refusals[0].reason.code == "no_room"
    assert refused.refusals[0].reason.numbers["asked"] == 1


def test_operator_units_are_sold_beyond_the_frontier() -> None:
    calendar = make_calendar(operator=1)
    calendar.publish(BATCH, 0, Plan(frontier=8))
    booking = admit(calendar, make_instant(workers=1, work=4, arrival=5)).bookings[0]
    assert booking.end == 9
    assert booking.payouts is not None
    assert booking.payouts[-1] > 0


def test_a_frontier_that_moves_opens_home_cells_and_never_moves_back() -> None:
    calendar = make_calendar()
    calendar.publish(BATCH, 0, Plan(frontier=16))
    calendar.publish(BATCH, 1, Plan(frontier=3))
    booking = admit(calendar, make_instant(workers=1, work=4, arrival=5)).bookings[0]
    assert (booking.start, booking.end) == (5, 9)


def test_the_batch_lane_sees_the_home_pool_without_the_instant_lane() -> None:
    calendar = make_calendar(operator=1)
    calendar.publish(BATCH, 0, Plan(frontier=20))
    before = calendar.stage(BATCH, 5)
    assert admit(calendar, make_instant(workers=2, work=4)).bookings
    after = calendar.stage(BATCH, 5)
    assert after.cluster is before.cluster
    assert not after.occupied.any()
    np.testing.assert_array_equal(after.cluster.capacity, [[4.0], [2.0]])


def test_both_lanes_together_never_exceed_a_cell() -> None:
    calendar = make_calendar()
    calendar.publish(BATCH, 0, Plan(frontier=20))
    assert admit(calendar, make_instant(workers=4, work=4)).bookings
    with pytest.raises(CapacityExceeded):
        calendar.place(BATCH, make_job(tenant=0), home_booking(make_job(tenant=0), 5, 6))


def test_owners_are_paid_by_what_they_left_idle() -> None:
    calendar = make_calendar()
    owner = make_job(number=7, tenant=0)
    calendar.place(BATCH, owner, home_booking(owner, 5, 6))
    idle = np.zeros((2, 3, 4))
    idle[:, 1] = [[2.0], [1.0]]
    idle[:, 0, 2:] = [[2.0], [1.0]]  # the first tenant is back from slot 6 on
    window = Window(4, 8, np.zeros((2, 4)), idle, np.zeros((2, 4)))
    calendar.publish(BATCH, 4, Plan(windows=[window], frontier=8))
    booking = admit(calendar, make_instant(workers=1, work=3, arrival=5), horizon=8).bookings[0]
    assert booking.slot_payouts is not None
    np.testing.assert_allclose(booking.slot_payouts[0] / booking.slot_payouts[0].sum(), [0, 1, 0])
    np.testing.assert_allclose(booking.slot_payouts[1] / booking.slot_payouts[1].sum(), [0.5, 0.5, 0])


def test_the_price_is_never_below_the_slots_batch_price() -> None:
    calendar = make_calendar()
    prices = np.array([[7.0] * 8, [3.0] * 8])
    window = Window(4, 12, prices, np.ones((2, 3, 8)), np.zeros((2, 8)))
    calendar.publish(BATCH, 4, Plan(windows=[window], frontier=12))
    assert admit(calendar, make_instant(workers=1, work=1)).bookings[0].paid == pytest.approx(10.0)


def test_what_a_tenant_keeps_is_not_for_sale_and_earns_nothing() -> None:
    calendar = make_calendar(tenants=[make_tenant("u0", lend="keep"), make_tenant("u1")])
    calendar.publish(BATCH, 0, Plan(frontier=40))
    assert not admit(calendar, make_instant(workers=3, work=3, arrival=5), horizon=6).bookings
    booking = admit(calendar, make_instant(workers=2, work=2, arrival=5), horizon=6).bookings[0]
    assert booking.payouts is not None
    assert booking.payouts[0] == 0
    assert booking.payouts[1] == pytest.approx(booking.paid)


def test_cells_below_their_reserve_price_are_held_back_slot_by_slot() -> None:
    reserved = make_tenant("u0", reserve_price=(5.0, 5.0))
    calendar = make_calendar(tenants=[reserved, make_tenant("u1")])
    prices = np.array([[1.0, 6.0], [1.0, 6.0]])
    idle = np.zeros((2, 3, 2))
    idle[:, :2] = np.array([[2.0, 2.0], [1.0, 1.0]])[:, :, None]
    calendar.publish(BATCH, 5, Plan(windows=[Window(5, 7, prices, idle, np.zeros((2, 2)))], frontier=7))
    booking = admit(calendar, make_instant(workers=4, work=6, arrival=5)).bookings[0]
    in_slot = [sum(row.workers for row in booking.allocation if row.start <= slot < row.end) for slot in (5, 6)]
    assert in_slot == [2, 4]
    assert booking.slot_payouts is not None
    assert booking.slot_payouts[0, 0] == 0
    assert booking.slot_payouts[1, 0] > 0


def test_the_two_parts_of_a_server_come_back_as_one_row() -> None:
    calendar = make_calendar(operator=1)
    calendar.publish(BATCH, 0, Plan(frontier=20))
    booking = admit(calendar, make_instant(workers=5, work=10), horizon=7).bookings[0]
    assert {(row.server, row.workers) for row in booking.allocation} == {(0, 5)}


def test_free_counts_what_neither_lane_holds() -> None:
    calendar = make_calendar(operator=1)
    calendar.publish(BATCH, 0, Plan(frontier=20))
    owner = make_job(number=7, tenant=0)
    calendar.place(BATCH, owner, home_booking(owner, 6, 7))
    admit(calendar, make_instant(workers=1, work=2))  # in slots 5 and 7, where it gets part of the payment back itself
    np.testing.assert_array_equal(calendar.free(5, 8)[0, :, 0], [4.0, 3.0, 4.0])
