"""Dominant resource fairness: progressive filling, slot by slot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.dominant_resource_fairness import DominantResourceFairness
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import AWARDED, REJECTED, WAITING, Plan
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_unit_type, make_view
from tests.core.random_markets import random_market
from tests.core.reference_baselines import fair as reference

POLICY = DominantResourceFairness()
NO_PS = make_unit_type((0, 0), mbps=99)


def run(scenario: Scenario) -> tuple[Track, ...]:
    return simulate(scenario, {"batch": POLICY}).tracks


def workers(plan: Plan) -> dict[int, int]:
    return {booking.job: booking.workers for booking in plan.bookings}


def test_fills_like_the_example_of_its_inventors():
    """9 processors and 18 GB; units of (1, 4) and of (3, 1): three of the one and two of the other."""
    cluster = make_cluster(((9,), (18,)), resources=("cpu", "memory_gb"))
    jobs = [
        make_job(0, chunks=9, worker_types=[make_unit_type((1, 4))], ps_types=[NO_PS]),
        make_job(1, chunks=9, worker_types=[make_unit_type((3, 1))], ps_types=[NO_PS]),
    ]
    assert workers(POLICY.decide(make_view(jobs, cluster=cluster))) == {0: 3, 1: 2}


def test_deals_the_odd_worker_by_arrival_then_by_submission():
    cluster = make_cluster(((4,), (9,)))
    jobs = [make_job(1, arrival=0, chunks=9), make_job(2, arrival=0, chunks=9), make_job(0, arrival=1, chunks=9)]
    assert workers(POLICY.decide(make_view(jobs, slot=1, cluster=cluster))) == {1: 2, 2: 1, 0: 1}


def test_counts_parameter_servers_in_the_share():
    cluster = make_cluster(((12,), (4,)))
    heavy = make_job(0, chunks=9)  # a parameter server for each worker
    light = make_job(1, chunks=9, ps_types=[make_ps(mbps=9)])
    assert workers(POLICY.decide(make_view([heavy, light], cluster=cluster))) == {0: 3, 1: 9}


def test_a_job_that_can_use_no_more_leaves_the_rest_to_others():
    jobs = [make_job(0, chunks=1), make_job(1, chunks=9, max_workers=6)]
    plan = POLICY.decide(make_view(jobs, cluster=make_cluster(((8,), (8,)))))
    assert workers(plan) == {0: 1, 1: 6}


def test_starts_with_the_least_gang_or_not_at_all():
    jobs = [make_job(0, chunks=4, min_workers=3), make_job(1, chunks=4, min_workers=2)]
    plan = POLICY.decide(make_view(jobs, cluster=make_cluster(((4,), (4,)))))
    assert workers(plan) == {0: 4}
    assert [(refusal.job, refusal.state) for refusal in plan.refusals] == [(1, WAITING)]


def test_a_type_is_tried_again_where_only_the_jobs_own_workers_took_its_room():
    """One processor is left beside a large worker, and the parameter server needs two. Beside a small worker it fits:
    for the same job, and for another one of the same parameter server."""
    cluster = make_cluster(((4,), (9,)), resources=("cpu", "memory_gb"))
    large, small, server = make_unit_type((3, 0)), make_unit_type((2, 0)), make_unit_type((2, 0))
    either = make_job(0, worker_types=[large, small], ps_types=[server])
    plan = POLICY.decide(make_view([either], cluster=cluster))
    assert [(booking.worker_type, booking.workers, booking.ps) for booking in plan.bookings] == [(1, 1, 1)]
    only_large = make_job(0, worker_types=[large], ps_types=[server])
    other = make_job(1, worker_types=[small], ps_types=[server])
    assert workers(POLICY.decide(make_view([only_large, other], cluster=cluster))) == {1: 1}


def test_refuses_for_good_what_could_never_run():
    [giant, dwarf] = run(
        make_scenario([make_job(0, chunks=9, min_workers=9), make_job(1)], cluster=make_cluster(((8,), (8,))))
    )
    assert (giant.state, giant.reason.code) == (REJECTED, "no_room")
    assert dwarf.state == AWARDED


def test_a_newcomer_takes_its_share_at_once_and_gives_it_back():
    jobs = [make_job(0, chunks=4, epochs=4), make_job(1, chunks=4, arrival=1)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((4,), (4,)))))
    assert [booking.workers for booking in tracks[0].bookings] == [4, 2, 2, 4, 4]
    assert [booking.start for booking in tracks[1].bookings] == [1, 2]


def test_stays_as_it_is_until_a_job_comes_or_goes():
    jobs = [make_job(number, chunks=3, epochs=5 + number) for number in range(4)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((2, 3, 1), (3, 3, 3)))))
    first_end = min(track.bookings[-1].end for track in tracks)
    for track in tracks:
        rows = {
            tuple((row.server, row.workers, row.ps) for row in booking.allocation)
            for booking in track.bookings
            if booking.end <= first_end
        }
        assert len(rows) == 1


def test_what_others_have_taken_since_is_not_given_out_again():
    jobs, cluster = [make_job(0, chunks=9), make_job(1, chunks=9)], make_cluster(((8,), (8,)))
    assert workers(POLICY.decide(make_view(jobs, cluster=cluster))) == {0: 4, 1: 4}
    assert workers(POLICY.decide(make_view(jobs, cluster=cluster, occupied=[[[4.0]], [[0.0]]]))) == {0: 2, 1: 2}
    assert workers(POLICY.decide(make_view(jobs[:1], cluster=cluster))) == {0: 8}
    assert workers(POLICY.decide(make_view(jobs, cluster=cluster))) == {0: 4, 1: 4}


def test_books_no_more_work_than_is_left():
    [track] = run(make_scenario([make_job(chunks=2, epochs=5, minibatches=1, max_workers=2)]))
    assert sum(booking.work for booking in track.bookings) == 10
    [track] = run(
        make_scenario([make_job(chunks=4, epochs=1, minibatches=1, max_workers=3)], cluster=make_cluster(((3,), (3,))))
    )
    assert [booking.work for booking in track.bookings] == [3, 1]


def test_is_worth_something_only_when_it_is_done():
    [track] = run(make_scenario([make_job(chunks=1, epochs=3, arrival=0.5)]))
    assert [booking.value for booking in track.bookings] == [0, 0, 96.5]  # 100 - (4 - 0.5)
    assert [booking.ideal for booking in track.bookings] == [0, 0, 97.0]  # 100 - (4 - 1)


@pytest.mark.parametrize("seed", range(300))
def test_decides_like_plain_loops_over_the_rules(seed):
    scenario = random_market(seed, "paper", backlog=seed % 2 == 1)
    expected = reference(scenario)
    for track in run(replace(scenario, policy={})):
        ran = []
        for booking in track.bookings:
            hosts = [(row.server, row.workers, row.ps) for row in booking.allocation]
            ran.append(
                (
                    booking.start,
                    np.repeat([s for s, _, _ in hosts], [w for _, w, _ in hosts]).tolist(),
                    np.repeat([s for s, _, _ in hosts], [p for _, _, p in hosts]).tolist(),
                )
            )
        assert ran == expected[track.job.number]


def test_has_no_settings():
    with pytest.raises(BadScenario) as refusal:
        build({"name": "dominant_resource_fairness", "workers": 3}, make_cluster(), ())
    assert refusal.value.place == "policy.workers"
