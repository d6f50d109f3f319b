"""FIFO: whole gangs in order of arrival, placed round robin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.core.policies import build
from scheduling.core.policies.fifo import Fifo
from scheduling.core.scenario import BadScenario, Preload, Scenario
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import AWARDED, CENTRALIZED, DISTRIBUTED, REJECTED, WAITING, Job
from tests.core.builders import (
    make_cluster,
    make_job,
    make_ps,
    make_scenario,
    make_unit_type,
    make_view,
    make_worker,
)
from tests.core.random_markets import random_market
from tests.core.reference_baselines import fifo as reference

AS_MANY_AS_ALLOWED = 1000
FOUR = make_cluster(((2, 2, 2, 2), (1, 1, 1, 1)))


def run(scenario: Scenario, **settings: Any) -> tuple[Track, ...]:
    settings = {"workers": AS_MANY_AS_ALLOWED} | settings
    policy = build({"name": "fifo"} | settings, scenario.cluster, scenario.jobs)
    return simulate(scenario, {"batch": policy}).tracks


def times(tracks: tuple[Track, ...]) -> list[tuple[int, int]]:
    return [(track.bookings[0].start, track.bookings[0].end) for track in tracks]


def units(track: Track) -> tuple[list[int], list[int]]:
    """The server of every worker and of every parameter server."""
    rows = track.bookings[0].allocation
    return [row.server for row in rows for _ in range(row.workers)], [row.server for row in rows for _ in range(row.ps)]


def test_nobody_overtakes_a_head_that_does_not_fit():
    few = [make_ps(mbps=99)]
    jobs = [make_job(k, chunks=chunks, epochs=2, ps_types=few) for k, chunks in enumerate((6, 4, 1))]
    assert times(run(make_scenario(jobs, cluster=FOUR))) == [(0, 2), (2, 4), (2, 4)]


def test_serves_by_arrival_then_by_submission():
    cluster = make_cluster(((1,), (1,)))
    jobs = [make_job(0, arrival=0.5), make_job(1, arrival=0.2), make_job(2, arrival=0.2)]
    assert times(run(make_scenario(jobs, cluster=cluster))) == [(3, 4), (1, 2), (2, 3)]


def test_deals_units_round_the_servers_from_where_the_last_job_ended():
    cluster = make_cluster(((4, 4, 4), (4, 4, 4)))
    jobs = [make_job(0, chunks=2), make_job(1, chunks=2), make_job(2, chunks=4)]
    tracks = run(make_scenario(jobs, cluster=cluster))
    assert units(tracks[0]) == ([0, 1], [0, 1])
    assert units(tracks[1]) == ([0, 2], [0, 2])
    assert units(tracks[2]) == ([0, 1, 1, 2], [0, 1, 1, 2])


def test_passes_over_a_server_without_room():
    cluster = make_cluster(((1, 0, 3), (1, 1, 1)))
    tracks = run(make_scenario([make_job(0, chunks=3, ps_types=[make_ps(mbps=3)])], cluster=cluster))
    assert units(tracks[0]) == ([0, 2, 2], [0])


def test_a_gang_that_does_not_fit_leaves_no_trace():
    view = make_view(
        [make_job(0, chunks=8, ps_types=[make_ps(mbps=2)])],
        cluster=FOUR,
        occupied=make_unit_type((0, 1)).demand[:, None, None].repeat(4, axis=2),
        memory={"workers_cursor": 2, "ps_cursor": 3},
    )
    plan = Fifo(workers=8).decide(view)
    assert plan.bookings == []
    assert plan.memory == {"workers_cursor": 2, "ps_cursor": 3}
    assert (plan.refusals[0].state, plan.refusals[0].reason.code) == (WAITING, "no_room")


def test_runs_at_the_speed_of_its_placement():
    """225 MB at 1 Mbit/s take as long as computing: half the speed unless all is on one server."""
    together, apart = make_cluster(((2,), (1,))), make_cluster(((2, 2), (0, 1)))
    job = make_job(chunks=2, epochs=2, gradient_mb=225, ps_types=[make_ps(mbps=2)])
    [near], [far] = run(make_scenario([job], cluster=together)), run(make_scenario([job], cluster=apart))
    assert (near.bookings[0].placement, near.bookings[0].end) == (CENTRALIZED, 2)
    assert (far.bookings[0].placement, far.bookings[0].end) == (DISTRIBUTED, 4)


def test_takes_as_many_worker_slots_as_oasis_counts():
    """On machines split by kind: ceil(W / n) slots with W = ceil(E N M (tau + 2 e / b))."""
    cluster = make_cluster(((4, 0), (0, 4)), hosts_workers=[True, False], hosts_ps=[False, True])
    worker = make_worker(seconds=900, mbps=8)
    job = make_job(
        chunks=4, epochs=7, minibatches=3, worker_types=[worker], ps_types=[make_ps(mbps=8)], gradient_mb=112.5
    )
    worker_slots = 7 * 4 * 3 * (900 + 225) / 3600
    for workers in (1, 2, 3, 4):
        [track] = run(make_scenario([job], cluster=cluster), workers=workers)
        assert track.bookings[0].end == -(-worker_slots // workers)


def test_has_parameter_servers_for_the_bandwidth_of_its_workers():
    job = make_job(chunks=5, worker_types=[make_worker(mbps=3)], ps_types=[make_ps(mbps=7)])
    [track] = run(make_scenario([job], cluster=make_cluster(((8,), (8,)))))
    assert (track.bookings[0].workers, track.bookings[0].ps) == (5, 3)


def test_halves_a_gang_that_the_empty_cluster_does_not_hold():
    [track] = run(make_scenario([make_job(chunks=30, ps_types=[make_ps(mbps=99)])], cluster=FOUR))
    assert track.bookings[0].workers == 7  # 30, 15, 7


def test_does_not_halve_a_gang_that_only_has_to_wait():
    jobs = [make_job(0), make_job(1, chunks=8, ps_types=[make_ps(mbps=99)])]
    assert run(make_scenario(jobs, cluster=FOUR))[1].bookings[0].workers == 8


@pytest.mark.parametrize(
    "limits",
    [
        {"chunks": 9, "min_workers": 9, "ps_types": [make_ps(mbps=99)]},
        {"max_ps": 1, "worker_types": [make_worker(mbps=2)]},
        {"worker_types": [make_unit_type((3, 0))]},
    ],
    ids=["least gang too large", "parameter servers forbidden", "unit larger than a server"],
)
def test_refuses_for_good_what_could_never_run(limits):
    [first, second] = run(make_scenario([make_job(0, **limits), make_job(1)], cluster=FOUR))
    assert (first.state, first.reason.code) == (REJECTED, "no_room")
    assert second.state == AWARDED


def test_takes_the_first_pair_of_types_that_the_cluster_holds():
    job = make_job(worker_types=[make_unit_type((3, 0)), make_worker()])
    [track] = run(make_scenario([job], cluster=FOUR))
    assert track.bookings[0].worker_type == 1


def test_workers_and_parameter_servers_share_a_resource_without_taking_it_twice():
    unit = make_unit_type((1, 1))
    job = make_job(chunks=3, worker_types=[unit], ps_types=[unit])
    [track] = run(make_scenario([job], cluster=make_cluster(((3, 1), (3, 1)))))
    assert (track.bookings[0].workers, track.bookings[0].ps) == (1, 1)  # 3 + 3 units do not fit, 1 + 1 do


def test_books_only_what_stays_free_for_the_whole_run():
    cluster = make_cluster(((1, 1), (1, 1)))
    preload = [Preload(server=0, slot=3, resource=0, amount=1.0)]
    jobs = [make_job(0, epochs=5), make_job(1, epochs=3), make_job(2)]
    tracks = run(make_scenario(jobs, cluster=cluster, preload=preload))
    assert [units(track)[0] for track in tracks] == [[1], [0], [0]]
    assert times(tracks) == [(0, 5), (0, 3), (4, 5)]


def workers_of(job: Job, seed: int) -> int:
    cluster = make_cluster(((99,), (99,)))
    [track] = run(make_scenario([job], cluster=cluster), workers=[1, 30], seed=seed)
    return track.bookings[0].workers


def test_draws_evenly_from_the_range_by_seed_and_job():
    numbers = [workers_of(make_job(number, chunks=40), 1) for number in range(400)]
    assert (min(numbers), max(numbers)) == (1, 30)
    assert 14 < sum(numbers) / len(numbers) < 17
    assert workers_of(make_job(7, chunks=40, arrival=5), 1) == numbers[7]
    assert [workers_of(make_job(number, chunks=40), 2) for number in range(400)] != numbers


def test_a_draw_is_kept_within_what_the_job_can_use():
    assert {workers_of(make_job(number, chunks=9, min_workers=4), 1) for number in range(60)} == set(range(4, 10))


@pytest.mark.parametrize("seed", range(300))
def test_decides_like_plain_loops_over_the_rules(seed):
    scenario = random_market(seed, "paper", backlog=seed % 2 == 1)
    workers = (1, 3, 30)[seed % 3]
    expected = reference(scenario, workers)
    for track in run(replace(scenario, policy={}), workers=workers):
        fate = expected.get(track.job.number, WAITING)
        if track.state == AWARDED:
            [booking] = track.bookings
            assert (booking.start, booking.end, *units(track)) == fate
        else:
            assert track.state == fate


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"workers": 0}, "policy.workers"),
        ({"workers": "all"}, "policy.workers"),
        ({"workers": [1]}, "policy.workers"),
        ({"workers": [5, 1]}, "policy.workers"),
        ({"workers": [0, 1]}, "policy.workers[0]"),
        ({"workers": [1, 2.5]}, "policy.workers[1]"),
        ({"seed": -1}, "policy.seed"),
        ({"gang": 1}, "policy.gang"),
    ],
)
def test_refuses_settings_by_name(settings, place):
    with pytest.raises(BadScenario) as refusal:
        build({"name": "fifo"} | settings, FOUR, ())
    assert refusal.value.place == place
