"""The slow reference is itself checked: against the paper's worked example and worked guarantees, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import Booking, Job
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_tenant, make_worker
from tests.core.reference_astraea import ReferenceAstraea

WORKED_CLUSTER = make_cluster(((2, 2, 2, 2), (1, 1, 1, 1)), quota=((4, 4), (2, 2)))


def worked_jobs(*, slope_of_j21: float = -2.0) -> list[Job]:
    """Tenant 0: j11 and j12; tenant 1: j21 and j22. Off one server everything takes twice as long."""
    rows = [(0, 2, -2.0, "j11"), (0, 3, -2.0, "j12"), (1, 2, slope_of_j21, "j21"), (1, 30, -2.0, "j22")]
    return [
        make_job(
            number,
            name=name,
            tenant=tenant,
            arrival=3,
            epochs=2,
            chunks=chunks,
            gradient_mb=225,
            value=Linear(slope, 100),
        )
        for number, (tenant, chunks, slope, name) in enumerate(rows)
    ]


def paper(jobs: list[Job], **changes: Any) -> Scenario:
    policy = {"name": "astraea", "mode": "paper", "theta": 16, "rounds": 2, "intervals": 2} | changes
    return make_scenario(jobs, cluster=WORKED_CLUSTER, slots=40, policy=policy)


def guarantee(jobs: list[Job], capacity: Any, size: int, **changes: Any) -> Scenario:
    """One server for each tenant, all of it at home."""
    cells = [[[row[s] if s == u else 0 for s in range(2)] for u in range(2)] for row in capacity]
    tenants = [make_tenant("u1", rent=changes.pop("rent", "auto")), make_tenant("u2")]
    cluster = make_cluster(capacity, cells=cells, tenants=tenants)
    policy = {"mode": "guarantee", "theta": 4, "price_floor": 0.5}
    policy |= {"clock": {"first": size, "cap": size, "restart": False}} | changes
    return make_scenario(jobs, cluster=cluster, slots=100, policy=policy)


def linear_job(number: int, tenant: int, arrival: float, epochs: int, chunks: int, slope: float, base: float) -> Job:
    fields = {"tenant": tenant, "arrival": arrival, "epochs": epochs, "chunks": chunks}
    return make_job(number, value=Linear(slope, base), worker_types=[make_worker()], ps_types=[make_ps()], **fields)


def run(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": ReferenceAstraea(scenario.policy, scenario.cluster, scenario.jobs)})


def brief(booking: Booking) -> tuple[Any, ...]:
    amounts = (booking.value, booking.shadow_cost or booking.cost, booking.paid)
    return (booking.phase, booking.start, booking.end, booking.workers, *(round(amount, 9) for amount in amounts))


def decided(outcome: Outcome) -> dict[str, tuple[Any, ...]]:
    return {track.job.name: brief(track.bookings[0]) for track in outcome.tracks if track.bookings}


def payouts(outcome: Outcome, name: str) -> list[float]:
    [booking] = [track.bookings[0] for track in outcome.tracks if track.job.name == name]
    return [] if booking.payouts is None else [round(float(amount), 9) for amount in booking.payouts]


def test_reproduces_the_table_of_the_worked_example() -> None:
    outcome = run(paper(worked_jobs(), workers="exact", server_choice="least_used"))
    assert decided(outcome) == {
        "j11": ("own", 8, 10, 2, 96, 0, 0),
        "j21": ("own", 10, 12, 2, 92, 0, 0),
        "j12": ("shared", 8, 12, 3, 92, 16, 16),
    }
    assert payouts(outcome, "j12") == [8, 8, 0]


def test_reproduces_the_algorithm_as_it_is_written() -> None:
    assert decided(run(paper(worked_jobs()))) == {
        "j11": ("own", 8, 10, 2, 96, 0, 0),
        "j12": ("own", 9, 12, 2, 92, 3, 0),
        "j21": ("own", 10, 12, 2, 92, 6, 0),
    }


def test_starts_everybody_at_once_when_own_units_cost_nothing() -> None:
    assert decided(run(paper(worked_jobs(), own_price="zero"))) == {
        "j11": ("own", 8, 10, 2, 96, 0, 0),
        "j12": ("own", 8, 11, 2, 94, 0, 0),
        "j21": ("own", 8, 10, 2, 96, 0, 0),
    }


def test_charges_more_after_the_lie_of_the_worked_example() -> None:
    outcome = run(paper(worked_jobs(slope_of_j21=-3), workers="exact", server_choice="least_used"))
    assert decided(outcome)["j12"] == ("shared", 8, 12, 3, 92, 24, 24)
    assert payouts(outcome, "j12") == [12, 12, 0]


def test_lets_a_home_job_run_past_the_boundary() -> None:
    jobs = [
        linear_job(0, 0, 0, 6, 2, -2, 100),
        linear_job(1, 0, 5, 1, 2, -2, 100),
        linear_job(2, 1, 0, 1, 4, -2, 100),
    ]
    assert decided(run(guarantee(jobs, ((2, 4), (1, 1)), 4, rent="never"))) == {
        "j0": ("own", 4, 10, 2, 80, 0, 0),
        "j1": ("own", 10, 11, 2, 88, 0, 0),
        "j2": ("own", 4, 5, 4, 90, 0, 0),
    }


def test_upgrades_a_slow_home_schedule_that_renting_beats() -> None:
    outcome = run(guarantee([linear_job(0, 0, 0, 2, 4, -5, 100)], ((1, 4), (1, 1)), 8))
    assert decided(outcome) == {"j0": ("shared", 8, 10, 4, 50, 5, 5)}
    assert payouts(outcome, "j0") == [0, 5, 0]


@pytest.mark.parametrize(
    ("number", "floor", "booked"),
    [
        (0, 92, ("own", 4, 8, 2, 92, 0, 0)),
        (1, 104, ("shared", 4, 8, 2, 136, 6, 6)),
        (2, 99.1, ("shared", 8, 10, 2, 99.5, 3, 0)),
        (3, 94, ("own", 8, 12, 2, 94, 0, 0)),
        (4, 28, ("shared", 10, 12, 2, 46, 3, 3)),
    ],
)
def test_keeps_a_floor_behind_the_cells_of_a_job_that_left(number: int, floor: float, booked: tuple[Any, ...]) -> None:
    jobs = [
        linear_job(0, 0, 0, 4, 2, -1, 100),
        linear_job(1, 0, 0, 4, 2, -8, 200),
        linear_job(2, 0, 5, 2, 2, -0.1, 100),
        linear_job(3, 1, 6, 4, 2, -1, 100),
        linear_job(4, 1, 6, 2, 2, -9, 100),
    ]
    track = run(guarantee(jobs, ((2, 2), (1, 1)), 4)).tracks[number]
    assert track.floor is not None
    assert (track.floor.value, brief(track.bookings[0])) == (pytest.approx(floor), booked)
