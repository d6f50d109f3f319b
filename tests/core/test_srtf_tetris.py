"""Shortest remaining time first, and Tetris: gangs and tasks in the order of their own rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import AWARDED, REJECTED, WAITING, Samples
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_unit_type
from tests.core.random_markets import random_market
from tests.core.reference_packing import run as reference

AS_MANY_AS_ALLOWED = 1000


def run(scenario: Scenario, name: str, **settings: Any) -> tuple[Track, ...]:
    if name == "srtf":
        settings = {"workers": AS_MANY_AS_ALLOWED} | settings
    policy = build({"name": name} | settings, scenario.cluster, scenario.jobs)
    return simulate(scenario, {"batch": policy}).tracks


def ran(track: Track) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for booking in track.bookings:
        hosts = [(row.server, row.workers, row.ps) for row in booking.allocation]
        workers = np.repeat([s for s, _, _ in hosts], [w for _, w, _ in hosts]).tolist()
        servers = np.repeat([s for s, _, _ in hosts], [p for _, _, p in hosts]).tolist()
        rows.append((booking.start, (booking.worker_type, booking.ps_type), workers, servers))
    return rows


def slots(track: Track) -> list[int]:
    return [booking.start for booking in track.bookings]


@pytest.mark.parametrize(("name", "workers"), [("srtf", 3), ("tetris", 4)])
@pytest.mark.parametrize("seed", range(50))
def test_decides_like_plain_loops_over_the_rules(seed, name, workers):
    scenario = random_market(seed, "paper", backlog=seed % 2 == 1)
    settings = {"workers": workers} if name == "srtf" else {"max_workers": workers}
    expected = reference(scenario, name, workers)
    for track in run(replace(scenario, policy={}), name, **settings):
        assert ran(track) == expected[track.job.number]


def test_the_job_that_ends_soonest_runs_first():
    """By hand, one worker at a time: 2 slots before 3 before 5; the newcomer with 1 interrupts the second."""
    jobs = [make_job(0, epochs=5), make_job(1, epochs=2), make_job(2, epochs=3), make_job(3, epochs=1, arrival=3)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((1,), (1,)))), "srtf")
    assert [slots(track) for track in tracks] == [[6, 7, 8, 9, 10], [0, 1], [2, 4, 5], [3]]


def test_a_job_that_does_not_fit_lets_a_longer_one_run():
    """The first two end in a slot, and the earlier goes first; the third fits beside it."""
    jobs = [make_job(0, chunks=2), make_job(1, chunks=3), make_job(2, epochs=9)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((3,), (3,)))), "srtf")
    assert [slots(track)[0] for track in tracks] == [0, 1, 0]


def test_each_worker_has_a_parameter_server_as_far_as_the_job_allows():
    jobs = [make_job(0, chunks=3), make_job(1, chunks=3, max_ps=2)]
    for name in ("srtf", "tetris"):
        tracks = run(make_scenario(jobs, cluster=make_cluster(((9,), (9,)))), name)
        assert [(track.bookings[0].workers, track.bookings[0].ps) for track in tracks] == [(3, 3), (3, 2)]


def test_a_task_goes_where_it_fits_best():
    """By hand: of (8, 1) and (2, 6) cpu and memory, 3 + 1 of a worker fit the first, 1 + 4 the second."""
    kit = {"resources": ("cpu", "memory")}
    none = make_unit_type((0, 0), mbps=99)
    cluster = make_cluster(((8, 2), (1, 6)), **kit)
    jobs = [
        make_job(0, worker_types=[make_unit_type((1, 4))], ps_types=[none]),
        make_job(1, worker_types=[make_unit_type((2, 1))], ps_types=[none]),
    ]
    tracks = run(make_scenario(jobs, cluster=cluster), "tetris")
    assert [track.bookings[0].allocation[0].server for track in tracks] == [1, 0]


def test_remaining_time_decides_between_tasks_that_fit_alike():
    jobs = [make_job(0, epochs=5), make_job(1, epochs=2)]
    scenario = make_scenario(jobs, cluster=make_cluster(((1,), (1,))))
    assert [slots(track)[0] for track in run(scenario, "tetris")] == [2, 0]
    assert [slots(track)[0] for track in run(scenario, "tetris", weight=0)] == [0, 5]


def test_a_job_fills_a_server_before_it_takes_the_next():
    [track] = run(make_scenario([make_job(chunks=5)], cluster=make_cluster(((3, 4), (3, 4)))), "tetris")
    assert [(row.server, row.workers, row.ps) for row in track.bookings[0].allocation] == [(0, 1, 1), (1, 4, 4)]


@pytest.mark.parametrize("name", ["srtf", "tetris"])
def test_machines_for_one_kind_alone_are_used(name):
    cluster = make_cluster(((5, 0), (0, 5)), hosts_workers=[True, False], hosts_ps=[False, True])
    [track] = run(make_scenario([make_job(chunks=4)], cluster=cluster), name)
    assert ran(track) == [(0, (0, 0), [0] * 4, [1] * 4)]


@pytest.mark.parametrize("name", ["srtf", "tetris"])
def test_refuses_for_good_what_could_never_run(name):
    jobs = [make_job(0, chunks=9, min_workers=9), make_job(1)]
    [giant, dwarf] = run(make_scenario(jobs, cluster=make_cluster(((8,), (8,)))), name)
    assert (giant.state, giant.reason.code) == (REJECTED, "no_room")
    assert dwarf.state == AWARDED


@pytest.mark.parametrize("name", ["srtf", "tetris"])
@pytest.mark.parametrize(
    "job",
    [
        make_job(chunks=10**6, max_workers=10**6, epochs=1000),
        make_job(chunks=4, ps_types=[make_ps(mbps=1e-6)], gradient_mb=1e6),
        make_job(chunks=4, worker_types=[make_unit_type((1e-9, 0))], ps_types=[make_unit_type((0, 0))]),
        make_job(chunks=4, samples=Samples(mode="async", speed=(0.0, 0.0, 0.0, 0.0))),
        make_job(chunks=4, samples=Samples(speed=(1e12, 1e12, 1e12, 1e12, 1e12))),
    ],
    ids=["giant", "no network", "nothing taken", "zero", "huge"],
)
def test_odd_jobs_run_or_wait_and_nothing_breaks(name, job):
    tracks = run(make_scenario([job, replace(make_job(1), name="other")], slots=6), name)
    assert all(track.state in (AWARDED, WAITING) for track in tracks)
    assert all(np.isfinite(booking.work) and booking.work > 0 for track in tracks for booking in track.bookings)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"name": "srtf", "workers": 0}, "policy.workers"),
        ({"name": "srtf", "wrokers": 1}, "policy.wrokers"),
        ({"name": "tetris", "weight": -1}, "policy.weight"),
        ({"name": "tetris", "max_workers": 0}, "policy.max_workers"),
    ],
)
def test_wrong_settings_are_named(fields, place):
    with pytest.raises(BadScenario) as refusal:
        build(fields, make_cluster(), ())
    assert refusal.value.place == place


def test_tetris_tries_a_gang_like_one_that_failed_where_it_needs_fewer_parameter_servers():
    """Two of four parameter servers are left: too few for a gang of four with one each, enough for four with one."""
    first = make_job(0, minibatches=1, chunks=2, min_workers=2)
    second = make_job(1, minibatches=2, chunks=4, min_workers=4)
    third = make_job(2, minibatches=9, chunks=4, min_workers=4, max_ps=1)
    cluster = make_cluster(((8,), (4,)))
    tracks = run(make_scenario([first, second, third], cluster=cluster), "tetris")
    assert [slots(track)[0] for track in tracks] == [0, 1, 0]


def test_tetris_lets_no_gang_wait_for_ever_that_an_empty_cluster_holds():
    """Three processors and six, of which only the first three host workers. The first worker and its parameter server
    fit there best and leave no room for the others; dealt round, all three parameter servers are on the second."""
    cluster = make_cluster([[3, 6], [9, 9]], resources=("cpu", "memory_gb"), hosts_workers=[True, False])
    job = make_job(chunks=3, min_workers=3, worker_types=[make_unit_type((1, 0))], ps_types=[make_unit_type((2, 0))])
    [track] = run(make_scenario([job], cluster=cluster), "tetris")
    assert [(row.server, row.workers, row.ps) for row in track.bookings[0].allocation] == [(0, 3, 0), (1, 0, 3)]
