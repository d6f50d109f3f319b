"""Nobody rents beyond what it can pay: funds are a limit that no policy of the tenant lifts."""

from __future__ import annotations

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.types import SHARED, Job, Plan, Reason, View
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_tenant

SETTINGS = {
    "name": "astraea",
    "mode": "guarantee",
    "theta": {"worker": 2, "ps": 2},
    "price_floor": {"worker": 0.5, "ps": 0.5},
    "clock": {"first": 4, "cap": 4, "restart": False},
}


def decide(jobs: list[Job], funds: float | None) -> Plan:
    """One boundary at slot 4: the first tenant has no cells and so many credits, the second lends everything."""
    cells = np.array([[[0.0], [4.0]], [[0.0], [4.0]]])
    cluster = make_cluster(
        [[4.0], [4.0]], quota=cells.sum(axis=2), cells=cells, tenants=[make_tenant("u0"), make_tenant("u1")]
    )
    view = View(
        slot=4,
        horizon=100,
        cluster=cluster,
        waiting=tuple(jobs),
        remaining=np.array([float(job.work) for job in jobs]),
        occupied=np.zeros((2, 0, 1)),
        jobs={job.number: job for job in jobs},
        funds=None if funds is None else np.array([funds, 0.0]),
    )
    return build(SETTINGS, cluster, jobs).decide(view)


def make_renter(number: int = 0, **fields: object) -> Job:
    """One worker and one parameter server for two slots: two credits at the floor price."""
    return make_job(number, epochs=2, value=Linear(-1.0, 50.0), **fields)


def test_rents_with_funds_for_exactly_the_price() -> None:
    plan = decide([make_renter()], funds=2.0)
    assert [(booking.phase, booking.paid) for booking in plan.bookings] == [(SHARED, pytest.approx(2.0))]


@pytest.mark.parametrize("rent", [None, "auto", "budget"])
def test_refuses_what_the_funds_do_not_cover_whatever_the_rent_policy(rent: str | None) -> None:
    fields = {} if rent is None else {"rent": rent}
    plan = decide([make_renter(**fields)], funds=1.99)
    assert not plan.bookings
    expected = "over_budget" if rent == "budget" else "low_balance"
    assert plan.refusals[0].reason.code == expected


def test_the_refusal_says_the_price_and_what_is_left() -> None:
    assert decide([make_renter()], funds=1.5).refusals[0].reason == Reason("low_balance", {"price": 2.0, "left": 1.5})


def test_the_second_job_of_one_decision_finds_what_the_first_left() -> None:
    plan = decide([make_renter(0), make_renter(1)], funds=3.0)
    assert [booking.job for booking in plan.bookings] == [0]
    assert plan.refusals[0].reason.code == "low_balance"
    assert plan.refusals[0].reason.numbers["left"] == pytest.approx(1.0)


def test_without_funds_in_the_view_there_is_no_limit() -> None:
    assert len(decide([make_renter(0), make_renter(1)], funds=None).bookings) == 2
