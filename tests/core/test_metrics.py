"""The figures of a run, on runs small enough to add up by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduling.core import metrics
from scheduling.core.cells import deal_cells, deal_servers
from scheduling.core.policies import build
from scheduling.core.scenario import Preload, Scenario
from scheduling.core.simulation import Outcome, Track, simulate
from scheduling.core.types import (
    AWARDED,
    EXPIRED,
    OWN,
    REJECTED,
    SHARED,
    WAITING,
    Allocation,
    Booking,
    Floor,
    Job,
    Window,
)
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_scenario, make_tenant
from tests.core.random_markets import random_market

# The paper's worked example: eight workers and four parameter servers, half of each for either of two tenants.
CLUSTER = make_cluster(((2, 2, 2, 2), (1, 1, 1, 1)), quota=((4, 4), (2, 2)))


def paper_job(number: int, tenant: int) -> Job:
    return make_job(number, tenant=tenant, arrival=3.0, chunks=4, value=Linear(slope=-2.0, base=100.0))


def booked(job: int, start: int, end: int, workers: int, ps: int = 1, **terms: Any) -> Booking:
    allocation = (Allocation(0, start, end, workers, ps),)
    fields: dict[str, Any] = {"allocation": allocation, "work": 4.0, "workers": workers, "ps": ps}
    return Booking(job=job, start=start, end=end, **fields | terms)


def outcome_of(*tracks: Track, windows: tuple[Window, ...] = ()) -> Outcome:
    return Outcome(tracks, windows, decisions=1)


def worked_example() -> tuple[Scenario, Outcome]:
    jobs = [paper_job(0, 0), paper_job(1, 0), paper_job(2, 1), paper_job(3, 1)]
    shared = {"phase": SHARED, "cost": 16.0, "paid": 16.0, "payouts": [8.0, 8.0, 0.0], "ideal": 92.0}
    outcome = outcome_of(
        Track(jobs[0], AWARDED, None, [booked(0, 8, 10, 2, phase=OWN, ideal=96.0)]),
        Track(jobs[1], AWARDED, None, [booked(1, 8, 12, 3, **shared)]),
        Track(jobs[2], AWARDED, None, [booked(2, 10, 12, 2, phase=OWN, ideal=92.0)]),
        Track(jobs[3], WAITING),
    )
    return make_scenario(jobs, cluster=CLUSTER), outcome


def test_adds_up_the_paper_example():
    scenario, outcome = worked_example()
    assert metrics.gains(scenario, outcome).tolist() == [160.0, 90.0]
    assert metrics.fairness_ratios(scenario, outcome) == pytest.approx([1.28, 0.72])
    summary = metrics.summary(scenario, outcome)
    assert (summary["revenue"], summary["ideal_revenue"]) == (250.0, 280.0)
    assert summary["fairness_variance"] == pytest.approx(0.0784)
    assert [summary[state] for state in (AWARDED, REJECTED, WAITING, EXPIRED)] == [3, 0, 1, 0]
    assert (summary["payments"], summary["payouts"], summary["owners_income"]) == (16.0, 16.0, 8.0)
    assert summary["mean_completion_slots"] == pytest.approx((7 + 9 + 9) / 3)
    assert summary["median_completion_slots"] == 9
    assert summary["makespan_slots"] == 12
    assert summary["utilisation"] == {"worker": (4 + 12 + 4) / 96, "ps": (2 + 4 + 2) / 48}


def test_rows_say_what_each_tenant_gained_and_would_have_alone():
    scenario, outcome = worked_example()
    first, second = metrics.tenant_rows(scenario, outcome, [100.0, None])
    assert first == {
        "name": "u0",
        "gain": 160.0,
        "alone": 100.0,
        "sharing_ratio": 1.6,
        "fairness_ratio": pytest.approx(1.28),
        "revenue": 168.0,
        "paid": 16.0,
        "earned": 0.0,
    }
    assert (second["alone"], second["sharing_ratio"], second["earned"]) == (None, None, 8.0)


def test_names_the_tenants_that_are_worse_off():
    scenario, outcome = worked_example()
    assert metrics.worse_off(metrics.tenant_rows(scenario, outcome, [161.0, 90.0])) == ["u0"]
    assert metrics.worse_off(metrics.tenant_rows(scenario, outcome, [None, 90.0 + 1e-9])) == []


def test_gains_of_tenants_and_income_of_the_operator_are_the_revenue():
    job = paper_job(0, 0)
    terms = {"phase": SHARED, "cost": 9.0, "paid": 9.0, "payouts": [0.0, 4.0, 5.0]}
    scenario = make_scenario([job], cluster=CLUSTER)
    outcome = outcome_of(Track(job, AWARDED, None, [booked(0, 4, 8, 1, **terms)]))
    assert metrics.gains(scenario, outcome).tolist() == [90.0 - 9.0, 4.0]
    assert metrics.summary(scenario, outcome)["operator_income"] == 5.0


def test_an_unfinished_job_is_worth_nothing_but_was_paid_for():
    job = paper_job(0, 0)
    scenario = make_scenario([job], cluster=CLUSTER)
    track = Track(job, WAITING, None, [booked(0, 4, 5, 1, work=1.0, paid=3.0, payouts=[0.0, 3.0, 0.0])])
    assert metrics.gains(scenario, outcome_of(track)).tolist() == [-3.0, 3.0]
    assert metrics.summary(scenario, outcome_of(track))["revenue"] == 0.0


def test_ratios_are_unknown_where_there_is_nothing_to_share():
    scenario = make_scenario(
        [], cluster=make_cluster(((4,), (2,)), quota=((4, 0), (2, 0)), tenants=[make_tenant("a"), make_tenant("b")])
    )
    assert metrics.fairness_ratios(scenario, outcome_of()) == [None, None]
    assert metrics.summary(scenario, outcome_of())["fairness_variance"] is None
    job = make_job()
    done = outcome_of(Track(job, AWARDED, None, [booked(0, 0, 1, 1)]))
    assert metrics.fairness_ratios(scenario, done) == [1.0, None]


def test_sums_up_a_run_without_jobs():
    summary = metrics.summary(make_scenario([]), outcome_of())
    assert (summary["revenue"], summary["makespan_slots"]) == (0.0, 0)
    assert summary["utilisation"] == {"worker": 0.0, "ps": 0.0}


@pytest.mark.parametrize(
    ("terms", "rides"),
    [
        ({"phase": SHARED, "cost": 0.0}, 1),
        ({"phase": SHARED, "cost": 2.0, "paid": 0.0}, 0),  # all that was for sale was its own
        ({"phase": OWN, "cost": 0.0}, 0),
    ],
)
def test_a_free_ride_is_rent_at_no_price(terms, rides):
    job = paper_job(0, 0)
    outcome = outcome_of(Track(job, AWARDED, None, [booked(0, 8, 12, 1, **terms)]))
    assert metrics.summary(make_scenario([job], cluster=CLUSTER), outcome)["free_rides"] == rides


def window(start: int, end: int, idle: Any) -> Window:
    nothing = np.zeros((2, end - start))
    return Window(
        start, end, nothing, np.broadcast_to(np.asarray(idle, float)[:, :, None], (2, 3, end - start)), nothing
    )


def test_reward_is_counted_by_share_offered_and_slot():
    """u0 offers half of the workers for 4 slots, u1 a quarter of both for 8; each earns 12 from others."""
    jobs = [paper_job(0, 0), paper_job(1, 1)]
    paid = {"phase": SHARED, "cost": 12.0, "paid": 12.0}
    outcome = outcome_of(
        Track(jobs[0], AWARDED, None, [booked(0, 8, 12, 1, payouts=[0.0, 12.0, 0.0], **paid)]),
        Track(jobs[1], AWARDED, None, [booked(1, 8, 12, 1, payouts=[12.0, 0.0, 0.0], **paid)]),
        windows=(window(8, 12, [[4, 2, 0], [0, 1, 0]]), window(12, 16, [[0, 2, 0], [0, 1, 0]])),
    )
    scenario = make_scenario(jobs, cluster=CLUSTER)
    assert metrics.rewards(scenario, outcome).tolist() == [12.0, 6.0]
    assert metrics.summary(scenario, outcome)["jain_index"] == pytest.approx(18**2 / (2 * (144 + 36)))


def test_jain_is_one_for_equals_and_one_over_n_for_a_monopoly():
    assert metrics.jain_index(np.array([3.0, 3.0, 3.0])) == 1.0
    assert metrics.jain_index(np.array([5.0, 0.0, 0.0, 0.0])) == 0.25
    assert metrics.jain_index(np.zeros(3)) is None


def floored(floor: Floor, state: str, *bookings: Booking) -> Track:
    return Track(paper_job(floor.job, 0), state, None, list(bookings), floor)


def test_a_job_below_its_floor_is_listed():
    """f = 100 - 2 (end - 3)."""
    rent = {"phase": SHARED, "payouts": [0.0, 4.0, 0.0], "paid": 4.0, "cost": 4.0}
    outcome = outcome_of(
        floored(Floor(0, 90.0), AWARDED, booked(0, 4, 8, 1)),
        floored(Floor(1, 90.0), AWARDED, booked(1, 4, 9, 1)),
        floored(Floor(2, 90.0), AWARDED, booked(2, 4, 6, 1, **rent)),
        floored(Floor(3, 90.0), AWARDED, booked(3, 4, 7, 1, **rent)),
        floored(Floor(4, 0.0), REJECTED),
        floored(Floor(5, 1.0), EXPIRED),
    )
    assert metrics.below_floor(outcome) == [1, 3, 5]
    scenario = make_scenario([track.job for track in outcome.tracks], cluster=CLUSTER)
    assert metrics.summary(scenario, outcome)["jobs_below_floor"] == 3
    assert metrics.alone_gains(scenario, outcome).tolist() == [361.0, 0.0]


def test_a_floor_that_the_end_cut_off_counts_in_neither_world():
    late, due = Floor(0, 90.0, start=16, end=20), Floor(1, 90.0, start=15, end=20)
    outcome = outcome_of(floored(late, WAITING), floored(due, WAITING), windows=(window(8, 16, np.zeros((2, 3))),))
    assert metrics.below_floor(outcome) == [1]
    scenario = make_scenario([track.job for track in outcome.tracks], cluster=CLUSTER)
    assert metrics.alone_gains(scenario, outcome).tolist() == [90.0, 0.0]


def test_nothing_is_known_alone_without_floors():
    scenario, outcome = worked_example()
    assert metrics.alone_gains(scenario, outcome) is None


def test_alone_is_a_cluster_of_the_own_cells_with_the_own_jobs():
    cells = [[[2, 0, 1], [0, 1, 1]], [[1, 0, 0], [0, 1, 1]]]
    cluster = make_cluster(((2, 1, 4), (1, 1, 2)), cells=cells, hosts_ps=[True, True, False])
    jobs = [make_job(0, tenant=1), make_job(1, tenant=0), make_job(2, tenant=1)]
    alone = metrics.alone_scenario(make_scenario(jobs, cluster=cluster, preload=[Preload(0, 0, 0, 1.0)]), 1)
    assert alone.cluster.servers == ("s1", "s2")
    assert alone.cluster.capacity.tolist() == [[1, 1], [1, 1]]
    assert alone.cluster.quota.tolist() == [[0, 2], [0, 2]]
    assert alone.cluster.operator_cells.tolist() == [[0, 0], [0, 0]]
    assert alone.cluster.hosts_ps.tolist() == [True, False]
    assert [job.number for job in alone.jobs] == [0, 2]
    assert alone.preload == ()


def test_alone_deals_mere_counts_to_servers():
    scenario = make_scenario([], cluster=make_cluster(((2, 2, 2), (1, 1, 1)), quota=((3, 2), (1, 1))))
    assert metrics.alone_scenario(scenario, 0).cluster.capacity.tolist() == [[2, 1], [1, 0]]
    second = metrics.alone_scenario(scenario, 1).cluster
    assert (second.servers, second.capacity.tolist()) == (("s1", "s2"), [[1, 1], [1, 0]])
    assert second.cells is None


@pytest.mark.parametrize("name", ["fifo", "dominant_resource_fairness", "astraea"])
def test_alone_without_cells_nothing_runs(name):
    cluster = make_cluster(((2,), (2,)), quota=((2, 0), (2, 0)))
    world = metrics.alone_scenario(make_scenario([make_job(0, tenant=1)], cluster=cluster), 1)
    outcome = simulate(world, {"batch": build({"name": name}, world.cluster, world.jobs)})
    assert metrics.gains(world, outcome).tolist() == [0.0, 0.0]
    assert metrics.summary(world, outcome)["utilisation"] == {"worker": 0.0, "ps": 0.0}


@pytest.mark.parametrize("name", ["fifo", "dominant_resource_fairness"])
def test_a_tenant_with_everything_gains_the_same_alone(name):
    cluster = make_cluster(((2, 2), (2, 2)))
    jobs = [make_job(k, arrival=k / 3, chunks=3, epochs=2) for k in range(6)]
    scenario = make_scenario(jobs, cluster=cluster)
    policy = build({"name": name}, cluster, jobs)
    shared, alone = (
        metrics.gains(world, simulate(world, {"batch": policy}))
        for world in (scenario, metrics.alone_scenario(scenario, 0))
    )
    assert shared.tolist() == alone.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_in_guarantee_mode_nobody_is_worse_off_and_every_credit_is_somebodys(seed):
    scenario = random_market(seed, "guarantee", backlog=seed % 2 == 1)
    outcome = simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)})
    alone = metrics.alone_gains(scenario, outcome)
    rows = metrics.tenant_rows(scenario, outcome, [None] * len(scenario.cluster.tenants) if alone is None else alone)
    summary = metrics.summary(scenario, outcome)
    if scenario.policy == {"name": "astraea", "mode": "guarantee"}:
        assert metrics.worse_off(rows) == []
        assert summary["jobs_below_floor"] == 0
    assert sum(row["gain"] for row in rows) + summary["operator_income"] == pytest.approx(summary["revenue"])
    assert summary["payments"] == pytest.approx(summary["payouts"])


@pytest.mark.parametrize("seed", range(20))
def test_deals_exactly_the_quotas_and_never_more_than_a_server_has(seed):
    dice = np.random.default_rng(seed)
    capacity = dice.integers(0, 9, (2, 6)).astype(float)
    quota = np.floor(capacity.sum(axis=1, keepdims=True) * dice.dirichlet(np.ones(4), 2))
    cells = deal_cells(capacity, quota)
    assert cells.sum(axis=2).tolist() == quota.tolist()
    assert (cells.sum(axis=1) <= capacity).all()
    assert (cells >= 0).all()


def test_deals_no_more_than_there_is():
    with pytest.raises(ValueError, match="more than its capacity"):
        deal_cells(np.array([[2.0, 2.0]]), np.array([[3.0, 2.0]]))


def test_a_stretch_of_servers_holds_workers_and_parameter_servers_together():
    cells = deal_servers(np.array([[8.0, 4.0], [2.0, 1.0]]), np.array([0.0, 0.25, 1.0, 1.75]))
    assert cells.tolist() == [[[2, 0], [6, 0], [0, 3]], [[0, 0], [2, 0], [0, 1]]]
