"""Strange markets: nothing to sell, nobody to sell it, absurd values, everything alike, far too much of everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import AWARDED, EXPIRED, OWN, REJECTED, SHARED, WAITING, Cluster, Job
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_tenant, make_unit_type
from tests.core.outcomes import differences
from tests.core.policy_examination import Examined
from tests.core.reference_astraea import ReferenceAstraea

both_modes = pytest.mark.parametrize("mode", ["paper", "guarantee"])


def each(number: float) -> dict[str, float]:
    """The same number for both resources."""
    return {"worker": number, "ps": number}


def scenario_of(jobs: Sequence[Job], cluster: Cluster, mode: str, *, slots: int = 20, **fields: Any) -> Scenario:
    policy = {"name": "astraea", "mode": mode, "theta": each(4), "price_floor": each(0.5 if mode == "guarantee" else 0)}
    if mode == "guarantee":
        policy["clock"] = {"first": 4, "cap": 4, "restart": False}
    return make_scenario(jobs, cluster=cluster, slots=slots, policy=policy | fields)


def examined(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": Examined(build(scenario.policy, scenario.cluster, scenario.jobs))})


def as_the_rules_say(scenario: Scenario) -> Outcome:
    """The outcome, once it is known to be the reference's too."""
    outcome = examined(scenario)
    reference = ReferenceAstraea(scenario.policy, scenario.cluster, scenario.jobs)
    assert differences(outcome, simulate(scenario, {"batch": reference})) == []
    return outcome


def states(outcome: Outcome) -> set[str]:
    return {track.state for track in outcome.tracks}


def homes(*servers: tuple[float, float], operators: Sequence[tuple[float, float]] = ()) -> Cluster:
    """One server of (workers, ps) for each tenant, and some of the operator's."""
    units = np.array([*servers, *operators], dtype=float).T
    cells = np.zeros((2, len(servers), units.shape[1]))
    for u in range(len(servers)):
        cells[:, u, u] = units[:, u]
    return make_cluster(units, cells=cells)


@both_modes
@pytest.mark.parametrize("empty", [(0.0, 2.0), (4.0, 0.0), (0.0, 0.0)])
def test_awards_nothing_where_a_resource_is_missing(mode: str, empty: tuple[float, float]) -> None:
    jobs = [make_job(number, tenant=number % 2, chunks=3, epochs=2) for number in range(4)]
    outcome = as_the_rules_say(scenario_of(jobs, homes(empty, empty), mode))
    assert states(outcome) == {REJECTED if mode == "guarantee" else WAITING}


@both_modes
def test_decides_nothing_when_the_only_slot_comes_before_the_first_boundary(mode: str) -> None:
    outcome = as_the_rules_say(scenario_of([make_job()], homes((4, 1)), mode, slots=1))
    assert states(outcome) == {WAITING}


def test_decides_windows_of_one_slot() -> None:
    jobs = [make_job(number, tenant=number % 2, chunks=4, arrival=number / 2) for number in range(8)]
    clock = {"first": 1, "cap": 1, "restart": False}
    outcome = as_the_rules_say(scenario_of(jobs, homes((4, 1), (2, 1)), "guarantee", clock=clock))
    assert states(outcome) == {AWARDED}


@both_modes
@pytest.mark.parametrize(
    "value",
    [Linear(-1e9, 1e12), Convex(1e12, 1.0), Sigmoid(1e12, 2.0, 5.0), Deadline(1e12, 9.0), Sigmoid(1.0, 1e6, 1e6)],
)
def test_stays_exact_with_huge_values(mode: str, value: Any) -> None:
    jobs = [make_job(number, tenant=number % 2, chunks=4, epochs=2, value=value) for number in range(6)]
    outcome = as_the_rules_say(scenario_of(jobs, homes((2, 1), (4, 2)), mode, theta=each(1e6)))
    assert AWARDED in states(outcome)


@both_modes
def test_takes_equals_in_order_of_submission(mode: str) -> None:
    jobs = [make_job(number, tenant=number % 3, chunks=2, epochs=2) for number in range(9)]
    outcome = as_the_rules_say(scenario_of(jobs, homes((2, 1), (2, 1), (2, 1)), mode, slots=40))
    starts = [track.bookings[0].start for track in outcome.tracks if track.job.tenant == 0 and track.bookings]
    assert starts == sorted(starts)
    assert states(outcome) <= {AWARDED, WAITING}


@pytest.mark.wide
@both_modes
def test_serves_thousands_of_identical_jobs(mode: str) -> None:
    """Far more than the slow reference could follow: the calendar's own checks, and the order."""
    jobs = [make_job(number, tenant=number % 2, chunks=2, value=Linear(-0.001, 100)) for number in range(3000)]
    cluster = homes(*[(8, 4)] * 2)
    scenario = scenario_of(jobs, cluster, mode, slots=20)
    outcome = simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)})
    awarded = [track for track in outcome.tracks if track.state == AWARDED]
    assert 40 <= len(awarded) < 3000
    for tenant in range(2):
        mine = [track for track in outcome.tracks if track.job.tenant == tenant]
        served = [track.state == AWARDED for track in mine]
        assert served == sorted(served, reverse=True), "a later one of equal jobs was served before an earlier one"


@both_modes
def test_lets_a_tenant_without_quota_rent(mode: str) -> None:
    cluster = homes((0, 0), (4, 2))
    jobs = [make_job(number, tenant=0, chunks=2, epochs=2) for number in range(3)]
    outcome = as_the_rules_say(scenario_of(jobs, cluster, mode))
    booked = [booking for track in outcome.tracks for booking in track.bookings]
    assert {booking.phase for booking in booked} == {SHARED}
    assert sum(booking.paid for booking in booked) == pytest.approx(sum(b.payouts[1] for b in booked))


@both_modes
def test_pays_the_operator_where_no_tenant_owns_anything(mode: str) -> None:
    cluster = homes((0, 0), (0, 0), operators=[(4, 2), (2, 1)])
    jobs = [make_job(number, tenant=number % 2, chunks=4, epochs=2) for number in range(5)]
    outcome = as_the_rules_say(scenario_of(jobs, cluster, mode))
    booked = [booking for track in outcome.tracks for booking in track.bookings]
    assert {booking.phase for booking in booked} == {SHARED}
    assert sum(booking.paid for booking in booked) > 0
    assert sum(booking.payouts[-1] for booking in booked) == pytest.approx(sum(booking.paid for booking in booked))


@both_modes
def test_books_nothing_that_is_never_worth_anything(mode: str) -> None:
    worthless = [Linear(-1, -5), Linear(0, 0), Deadline(-3, 10), Deadline(50, 0.5)]
    jobs = [make_job(number, value=value, chunks=2) for number, value in enumerate(worthless)]
    outcome = as_the_rules_say(scenario_of(jobs, homes((4, 2)), mode))
    assert states(outcome) == {EXPIRED if mode == "guarantee" else WAITING}
    if mode == "guarantee":
        assert {track.reason.code for track in outcome.tracks} == {"not_worth_it"}


@both_modes
def test_names_the_window_that_a_job_is_too_large_for(mode: str) -> None:
    wide = make_job(0, chunks=9, min_workers=9)
    long = make_job(1, tenant=1, epochs=9, chunks=1, value=Linear(-1, 1000))
    outcome = as_the_rules_say(scenario_of([wide, long], homes((4, 2), (0, 0)), mode))
    if mode == "guarantee":
        assert [track.state for track in outcome.tracks] == [REJECTED, REJECTED]
        assert {track.reason.code for track in outcome.tracks} == {"larger_than_window"}
        assert dict(outcome.tracks[1].reason.numbers) == {"needs_slots": 9, "window_slots": 4}


def test_runs_a_job_of_any_length_at_home() -> None:
    outcome = as_the_rules_say(
        scenario_of([make_job(epochs=300, chunks=1, value=Linear(-1, 1000))], homes((1, 1)), "guarantee")
    )
    [booking] = outcome.tracks[0].bookings
    assert (booking.phase, booking.start, booking.end) == (OWN, 4, 304)


@both_modes
def test_rejects_a_job_whose_workers_and_parameter_servers_share_a_resource(mode: str) -> None:
    job = make_job(ps_types=[make_unit_type((1, 1), seconds=0)])
    outcome = as_the_rules_say(scenario_of([job], homes((4, 2)), mode))
    assert (outcome.tracks[0].state, outcome.tracks[0].reason.code) == (REJECTED, "shared_resource")


@both_modes
def test_uses_the_pair_of_types_that_shares_nothing(mode: str) -> None:
    job = make_job(ps_types=[make_unit_type((1, 1), seconds=0), make_ps()])
    outcome = as_the_rules_say(scenario_of([job], homes((4, 2)), mode))
    assert outcome.tracks[0].bookings[0].ps_type == 1


@both_modes
def test_answers_for_a_cluster_with_one_tenant_and_no_jobs(mode: str) -> None:
    assert as_the_rules_say(scenario_of([], homes((4, 2)), mode)).tracks == ()


def test_nobody_rents_what_everybody_keeps() -> None:
    keepers = [make_tenant(f"u{u}", lend="keep") for u in range(2)]
    cluster = replace(homes((1, 1), (4, 2)), tenants=tuple(keepers))
    jobs = [make_job(number, tenant=0, chunks=4, epochs=2, value=Linear(-9, 200)) for number in range(4)]
    outcome = as_the_rules_say(scenario_of(jobs, cluster, "guarantee"))
    assert {booking.phase for track in outcome.tracks for booking in track.bookings} == {OWN}


def test_cells_freed_by_an_upgrade_stay_kept_where_their_owner_keeps_them() -> None:
    """The keeper rents from the lender; nobody may take the cells that this leaves empty."""
    keeper, lender, homeless = make_tenant("u0", lend="keep"), make_tenant("u1"), make_tenant("u2")
    cluster = replace(homes((2, 1), (4, 2), (0, 0)), tenants=(keeper, lender, homeless))
    upgraded = make_job(0, tenant=0, chunks=4, epochs=2, value=Linear(-30, 300))
    hungry = make_job(1, tenant=2, chunks=2, epochs=4, value=Linear(-1, 900))
    outcome = as_the_rules_say(scenario_of([upgraded, hungry], cluster, "guarantee"))
    first, second = (track.bookings[0] for track in outcome.tracks)
    assert (first.phase, first.start, first.end) == (SHARED, 4, 6), "the story needs this upgrade"
    assert (second.phase, second.start) == (SHARED, 8)
    assert {row.server for row in second.allocation} == {1}


def test_sells_nothing_where_nobody_would_be_paid() -> None:
    """An upgrade leaves cells whose owner had nothing idle when the pool was counted; the only others with idle
    units ask too high a price. Selling those cells would charge a price that is owed to no one."""
    upgraded, lender = make_tenant("u0"), make_tenant("u1")
    aloof = make_tenant("u2", reserve_price=(99.0, 99.0))
    cluster = replace(homes((1, 1), (4, 2), (2, 2)), tenants=(upgraded, lender, aloof))
    jobs = [
        make_job(0, tenant=1, chunks=4, min_workers=4, epochs=4, value=Linear(-20, 900), rent="never"),
        make_job(1, tenant=1, chunks=1, epochs=4, value=Linear(-20, 900), rent="never", priority=-1),
        make_job(2, tenant=0, chunks=4, epochs=2, value=Linear(-30, 900)),
        make_job(3, tenant=0, chunks=1, epochs=3, value=Linear(-40, 900), priority=-1),
    ]
    clock = {"first": 8, "cap": 8, "restart": False}
    outcome = as_the_rules_say(scenario_of(jobs, cluster, "guarantee", slots=40, clock=clock))
    renter = outcome.tracks[2].bookings[0]
    assert (renter.phase, renter.start, renter.workers) == (SHARED, 12, 3), "the story needs this upgrade"
    assert outcome.tracks[3].bookings[0].start >= 12
