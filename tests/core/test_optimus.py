"""Optimus: marginal gains, gangs on few servers, and whole runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.placement import Vacancies
from scheduling.core.policies import build
from scheduling.core.policies.optimus.allocation import JobDemands, allocate, dominant
from scheduling.core.policies.optimus.placing import Order, PlacingServers, Row
from scheduling.core.policies.optimus.pools import demands, is_mixed, pools
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import AWARDED, REJECTED, WAITING, Samples
from tests.core import reference_optimus as reference
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_unit_type, make_worker


def run(scenario: Scenario, **settings: Any) -> tuple[Track, ...]:
    policy = build({"name": "optimus", "restart": 0, "young": 1} | settings, scenario.cluster, scenario.jobs)
    return simulate(scenario, {"batch": policy}).tracks


def gangs(track: Track) -> list[tuple[int, int]]:
    return [(booking.ps, booking.workers) for booking in track.bookings]


def random_asked(seed: int) -> tuple[JobDemands, np.ndarray]:
    """Odd seeds have round numbers, so that gains are equal all the time; some speeds fall and rise again."""
    dice = np.random.default_rng(seed)
    jobs, width, resources = int(dice.integers(1, 12)), int(dice.integers(1, 7)), int(dice.integers(1, 4))
    if seed % 2:
        seconds = dice.integers(1, 9, (jobs, width, width)).astype(float)
        demand = dice.integers(0, 3, (jobs, 2, resources)).astype(float)
    else:
        counts = np.arange(1.0, width + 1.0)
        theta = dice.uniform(0, 5, (jobs, 4, 1, 1))
        step = theta[:, 0] + theta[:, 1] * counts[None, :] / counts[:, None] + theta[:, 2] * counts[None, :]
        seconds = 100 * (step + theta[:, 3] * counts[:, None]) / counts[None, :]
        demand = dice.uniform(0, 3, (jobs, 2, resources))
    least = dice.integers(1, 3, (jobs, 2))
    free = demand.sum(axis=(0, 1)) * dice.uniform(0.3, 4)
    most = least + dice.integers(0, width, (jobs, 2))
    weight = dominant(demand, free * 1.5, "share" if dice.random() < 0.7 else "amount")
    return JobDemands(seconds, least, most, demand, weight, dice.choice([1.0, 0.95], jobs)), free


@pytest.mark.parametrize("stop", ["skip", "break"])
@pytest.mark.parametrize("seed", range(150))
def test_allocates_like_a_plain_heap(seed, stop):
    requests, free = random_asked(seed)
    assert [tuple(row) for row in allocate(requests, free, stop).tolist()] == reference.allocate(requests, free, stop)


def test_the_rest_after_many_kinds_ended_is_dealt_like_a_plain_heap(monkeypatch):
    monkeypatch.setattr("scheduling.core.policies.optimus.allocation.ROUNDS", 0)
    for seed in range(100):
        requests, free = random_asked(seed)
        assert [tuple(row) for row in allocate(requests, free).tolist()] == reference.allocate(requests, free, "skip")


@pytest.mark.parametrize("seed", range(60))
def test_one_pool_is_as_good_as_three_where_servers_host_both_kinds(seed):
    """What all workers take, what all parameter servers take, and both together, each within the same total."""
    requests, free = random_asked(seed)
    ps, worker = requests.demand[:, 0], requests.demand[:, 1]
    nothing = np.zeros_like(ps)
    three = np.stack([np.hstack([nothing, ps, ps]), np.hstack([worker, nothing, worker])], axis=1)
    assert (allocate(replace(requests, demand=three), np.tile(free, 3)) == allocate(requests, free)).all()


def test_pools_are_counted_apart_where_a_server_hosts_one_kind():
    hosts = {"hosts_workers": (True, True, False), "hosts_ps": (False, True, True)}
    apart = make_cluster(((1, 2, 4),), resources=("r0",), **hosts)
    job = make_job(0)
    assert pools(apart, apart.capacity).tolist() == [3, 6, 7]
    assert [len(each) for each in demands(job, (0, 0), is_mixed(apart))] == [3 * len(job.worker_types[0].amounts)] * 2
    both = make_cluster(
        ((1, 2, 4),), resources=("r0",), hosts_workers=(True, True, False), hosts_ps=(True, True, False)
    )
    assert pools(both, both.capacity).tolist() == [3]
    assert [len(each) for each in demands(job, (0, 0), is_mixed(both))] == [len(job.worker_types[0].amounts)] * 2


def two_jobs(first: list[float], second: list[float], demand: list[Any]) -> JobDemands:
    """Jobs whose time falls with workers alone."""
    seconds = np.array([[first], [second]], dtype=float)
    least, shape = np.ones((2, 2), np.intp), seconds.shape
    most = np.array([[1, shape[2]]] * 2)
    units = np.array(demand, dtype=float)
    return JobDemands(seconds, least, most, units, np.ones((2, 2)), np.ones(2))


def test_units_go_where_the_remaining_time_falls_most():
    """60, 30, 20, 15 seconds against 100, 50, 33, 25: by hand the gains are 30, 10, 5 and 50, 17, 8."""
    requests = two_jobs([60, 30, 20, 15], [100, 50, 33, 25], [[[0], [1]], [[0], [1]]])
    assert allocate(requests, np.array([5.0]))[:, 1].tolist() == [2, 3]
    assert allocate(requests, np.array([6.0]))[:, 1].tolist() == [3, 3]


def test_a_gain_counts_by_the_share_that_it_takes():
    demand = np.array([[[0, 1], [2, 1]], [[0, 1], [1, 4]]], dtype=float)
    assert dominant(demand, np.array([10.0, 40.0]), "share")[:, 1].tolist() == [0.2, 0.1]
    assert dominant(demand, np.array([10.0, 40.0]), "amount")[:, 1].tolist() == [2.0, 1.0]


def test_with_break_the_first_unit_that_does_not_fit_ends_everything():
    requests = two_jobs([90, 10, 5, 4], [60, 30, 20, 15], [[[0], [4]], [[0], [1]]])
    assert allocate(requests, np.array([8.0]), "skip")[:, 1].tolist() == [1, 4]
    assert allocate(requests, np.array([8.0]), "break")[:, 1].tolist() == [1, 1]


def test_who_finds_no_room_for_its_least_gang_does_not_stop_the_others():
    requests = two_jobs([9, 8, 7, 6], [9, 8, 7, 6], [[[0], [4]], [[0], [1]]])
    assert allocate(requests, np.array([2.0])).tolist() == [[0, 0], [1, 2]]


def servers(capacity: Any, key: int = 0, **hosts: Any) -> PlacingServers:
    resources = [f"r{index}" for index in range(len(capacity))]
    cluster = make_cluster(capacity, resources=resources, **hosts)
    return PlacingServers(Vacancies(cluster, np.zeros((len(resources), 0, len(cluster.servers)))), key)


def exchange(rows: list[Row]) -> int:
    """The publication's measure: the most that a task of the job exchanges with tasks on other servers."""
    workers, ps = sum(row[1] for row in rows), sum(row[2] for row in rows)
    return max([workers - w for _, w, p in rows if p] + [ps - p for _, w, p in rows if w])


def test_places_the_example_of_the_publication():
    """Three servers of three units, two parameter servers and four workers: (c) is the best, with 2 against 3."""
    one = make_unit_type((1,))
    rows = servers(((3, 3, 3),)).evenly(Order(4, 2, one, one))
    assert sorted(rows) == [(0, 2, 1), (1, 2, 1)]
    assert exchange(rows) == 2
    assert exchange([(0, 1, 1), (1, 1, 1), (2, 2, 0)]) == 3


def test_units_that_were_given_back_are_dealt_again():
    """The first gang's worker leaves no room for its parameter server, and goes back; the second finds room for one."""
    room, ps = servers(((8,),)), make_unit_type((5,))
    assert room.anywhere(Order(1, 1, make_unit_type((6,)), ps)) is None
    assert room.anywhere(Order(1, 1, make_unit_type((3,)), ps)) == [(0, 1, 1)]


@pytest.mark.parametrize("seed", range(200))
def test_places_like_plain_loops_over_sorted_servers(seed):
    dice = np.random.default_rng(seed)
    count, key = int(dice.integers(1, 7)), int(dice.integers(0, 2))
    capacity = dice.integers(0, 9, (2, count)).astype(float)
    room = servers(capacity, key)
    wanted, orders = [], []
    for _ in range(8):
        workers, ps = int(dice.integers(1, 6)), int(dice.integers(1, 4))
        demand = [dice.integers(0, 3, 2).astype(float) for _ in range(2)]
        wanted.append((workers, ps, *demand))
        orders.append(Order(workers, ps, *(make_unit_type(each) for each in demand)))
    answers = [room.evenly(order) for order in orders]
    expected = reference.place(capacity, key, wanted)
    assert [rows and sorted(rows) for rows in answers] == [rows and sorted(rows) for rows in expected]


@pytest.mark.parametrize("seed", range(100))
def test_a_gang_without_an_even_split_is_placed_whole_on_no_more_servers_than_an_even_one(seed):
    dice = np.random.default_rng(seed)
    capacity = dice.integers(0, 9, (2, int(dice.integers(1, 7)))).astype(float)
    gentle = servers(capacity)
    for _ in range(6):
        workers, ps = int(dice.integers(1, 6)), int(dice.integers(0, 4))
        units = [make_unit_type(dice.integers(0, 3, 2).astype(float)) for _ in range(2)]
        order = Order(workers, ps, *units)
        before = np.array(gentle.free)
        rows, even = gentle.nearly(order), servers(before.T).evenly(order)
        assert rows is not None or even is None
        if rows is None:
            assert (np.array(gentle.free) == before).all()
            continue
        assert (sum(row[1] for row in rows), sum(row[2] for row in rows)) == (workers, ps)
        assert len(rows) <= (len(even) if even else len(before))
        amounts = np.zeros_like(before)
        for server, some_workers, some_ps in rows:
            amounts[server] += some_workers * units[0].demand + some_ps * units[1].demand
        assert np.array(gentle.free) == pytest.approx(before - amounts)
        assert (np.array(gentle.free) >= 0).all()


def test_where_room_is_uneven_a_gang_is_as_even_as_it_allows():
    """Room for four, three and one: three workers and three parameter servers."""
    one = make_unit_type((1,))
    for split in (PlacingServers.nearly, PlacingServers.evenly):
        assert sorted(split(servers(((4, 3, 1),)), Order(3, 3, one, one))) == [(0, 2, 2), (1, 1, 1)]
    assert servers(((5, 1, 1),)).nearly(Order(4, 2, one, one)) == [(0, 3, 2), (1, 1, 0)]
    assert servers(((5, 1, 1),)).evenly(Order(4, 2, one, one)) is None


def test_more_parameter_servers_than_bandwidth_needs_are_not_taken():
    """By hand: a mini-batch takes an hour and exchanges nothing, so that only workers gain anything."""
    [track] = run(make_scenario([make_job(chunks=4, epochs=4)], cluster=make_cluster(((8,), (8,)))))
    assert gangs(track) == [(1, 4)] * 4
    assert track.state == AWARDED


def test_a_slow_parameter_server_is_joined_by_another():
    job = make_job(chunks=4, epochs=8, gradient_mb=225.0, ps_types=[make_ps(mbps=0.5)], max_workers=4)
    [track] = run(make_scenario([job], cluster=make_cluster(((4,), (16,)))))
    assert max(booking.ps for booking in track.bookings) > 1
    assert max(booking.workers for booking in track.bookings) == 4


def test_the_job_that_is_longer_gets_more():
    jobs = [make_job(0, chunks=8, epochs=1), make_job(1, chunks=8, epochs=9)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((8,), (8,)))))
    assert [track.bookings[0].workers for track in tracks] == [2, 6]  # 4/2 = 8/4 a worker more: 8/2^.5 to 72/6^.5


def test_the_owners_speed_function_steers_the_numbers():
    """A step that lasts longer with each worker: one worker is best, whatever the mini-batches say."""
    slow = Samples(mode="sync", speed=(0.0, 0.0, 0.0, 5.0, 1.0))
    [track] = run(make_scenario([make_job(chunks=4, epochs=2, samples=slow)], cluster=make_cluster(((8,), (8,)))))
    assert set(gangs(track)) == {(1, 1)}


def test_a_resized_job_loses_the_time_of_a_checkpoint():
    """Ten minutes of the hour in which it first runs with more workers."""
    jobs = [make_job(0, chunks=4, epochs=3), make_job(1, chunks=4, epochs=2, max_workers=2)]
    scenario = make_scenario(jobs, cluster=make_cluster(((4,), (4,))))
    free, charged = (run(scenario, restart=restart)[0] for restart in (0, 600))
    grown = [booking.workers for booking in charged.bookings]
    changes = [later for later in range(1, len(grown)) if grown[later] != grown[later - 1]]
    assert changes
    assert charged.bookings[changes[0]].work == pytest.approx(grown[changes[0]] * 5 / 6)
    assert free.bookings[changes[0]].work == grown[changes[0]]


def test_growing_is_not_worth_twice_its_cost_at_the_end_of_a_job():
    jobs = [make_job(0, chunks=4, epochs=3), make_job(1, chunks=4, epochs=2, max_workers=2)]
    scenario = make_scenario(jobs, cluster=make_cluster(((4,), (4,))))
    free, dear = ([booking.workers for booking in run(scenario, restart=cost)[0].bookings] for cost in (0, 100_000))
    assert max(free) > free[0]
    assert max(dear) == dear[0]


def test_after_its_restarts_a_job_keeps_its_numbers():
    jobs = [make_job(0, chunks=6, epochs=6)] + [make_job(n, chunks=6, arrival=n) for n in (1, 2, 3)]
    scenario = make_scenario(jobs, cluster=make_cluster(((6,), (6,))))
    free, bound = run(scenario)[0], run(scenario, max_restarts=0)[0]
    assert len(set(gangs(free))) > 1
    assert len(set(gangs(bound))) == 1
    assert bound.state == AWARDED


def test_a_job_whose_numbers_stay_keeps_its_servers():
    jobs = [make_job(number, chunks=3, epochs=6) for number in range(3)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((3, 3, 3), (3, 3, 3)))))
    for track in tracks:
        places = {(b.workers, b.ps): {tuple((r.server, r.workers) for r in b.allocation)} for b in track.bookings}
        assert all(len(rows) == 1 for rows in places.values())


def test_a_strict_gang_that_finds_no_even_split_runs_with_its_least_numbers():
    """Workers on one machine, parameter servers on another that is not of the split: retry finds both."""
    cluster = make_cluster(((5, 0), (0, 5)))
    scenario = make_scenario([make_job(chunks=4, epochs=1)], cluster=cluster)
    [track] = run(scenario, placement="strict")
    assert gangs(track) == [(1, 1)] * 4
    [track] = run(scenario, placement="strict", retry=False)
    assert track.state == WAITING
    assert build({"name": "optimus", "placement": "strict"}, cluster, ()) == build(
        {"name": "optimus", "scatter": False}, cluster, ()
    )


@pytest.mark.parametrize(("scatter", "workers"), [(False, 1), (True, 5)])
def test_a_stored_policy_places_as_it_did_before_gangs_went_evenly_where_there_is_room(scatter, workers):
    """A stored interval names the placement `optimus`: exactly, or else unit by unit from the first server on."""
    cluster = make_cluster(((5, 2, 2), (0, 3, 3)))
    scenario = make_scenario([make_job(chunks=5, epochs=1)], cluster=cluster)
    [before] = run(scenario, placement="optimus", scatter=scatter)
    assert before.bookings[0].workers == workers
    [now] = run(scenario)
    assert now.bookings[0].workers == 5
    if scatter:
        assert [row.server for row in before.bookings[0].allocation] == [0, 1, 2]


def test_a_gang_has_all_its_numbers_where_no_even_split_is_left():
    cluster = make_cluster(((5, 0), (0, 5)))
    [track] = run(make_scenario([make_job(chunks=4, epochs=1)], cluster=cluster))
    assert gangs(track) == [(1, 4)]


def test_machines_for_one_kind_alone_are_used():
    cluster = make_cluster(((5, 0), (0, 5)), hosts_workers=[True, False], hosts_ps=[False, True])
    [track] = run(make_scenario([make_job(chunks=4, epochs=1)], cluster=cluster))
    assert gangs(track) == [(1, 4)]


def test_refuses_for_good_what_could_never_run():
    jobs = [make_job(0, chunks=9, min_workers=9), make_job(1)]
    [giant, dwarf] = run(make_scenario(jobs, cluster=make_cluster(((8,), (8,)))))
    assert (giant.state, giant.reason.code) == (REJECTED, "no_room")
    assert dwarf.state == AWARDED


def test_another_type_is_taken_where_the_first_is_used_up():
    kit = ("fast", "slow", "ps")
    types = [make_unit_type((1, 0, 0)), make_unit_type((0, 1, 0))]
    jobs = [make_job(n, chunks=1, worker_types=types, ps_types=[make_unit_type((0, 0, 1))]) for n in range(2)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((1,), (1,), (2,)), resources=kit)))
    assert [track.bookings[0].worker_type for track in tracks] == [0, 1]


@pytest.mark.parametrize(
    "job",
    [
        make_job(chunks=10**6, max_workers=10**6, epochs=1000),
        make_job(chunks=64, min_workers=4, epochs=1, max_ps=1),
        make_job(epochs=1, worker_types=[make_worker(seconds=1e-9)]),
        make_job(chunks=4, gradient_mb=1e6, worker_types=[make_worker(mbps=1e-6)]),
        make_job(chunks=4, ps_types=[make_unit_type((0, 1e-12), mbps=1e-6)], gradient_mb=1.0),
        make_job(chunks=4, samples=Samples(mode="async", speed=(0.0, 0.0, 0.0, 0.0))),
        make_job(chunks=4, samples=Samples(speed=(1e12, 1e12, 1e12, 1e12, 1e12))),
    ],
    ids=["giant", "gang", "instant", "no network", "no servers", "zero", "huge"],
)
def test_odd_jobs_run_or_wait_and_nothing_breaks(job):
    [track, other] = run(make_scenario([job, replace(make_job(1), name="other")], slots=8))
    assert track.state in (AWARDED, WAITING)
    assert all(0 < booking.work <= job.work for booking in track.bookings)
    assert other.state in (AWARDED, WAITING)


def test_slots_shorter_than_a_restart_still_train():
    cluster = make_cluster(((4,), (4,)), slot_seconds=10.0)
    jobs = [make_job(n, chunks=4, epochs=1, arrival=n, worker_types=[make_worker(seconds=5.0)]) for n in range(4)]
    assert all(track.state == AWARDED for track in run(make_scenario(jobs, cluster=cluster), restart=30))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"max_ps": 0}, "policy.max_ps"),
        ({"unit": "amout"}, "policy.unit"),
        ({"stop": 1}, "policy.stop"),
        ({"young": 0}, "policy.young"),
        ({"restart": -1}, "policy.restart"),
        ({"key": "gpus"}, "policy.key"),
        ({"retry": "yes"}, "policy.retry"),
        ({"scatter": 1}, "policy.scatter"),
        ({"scatter": True, "placement": "strict"}, "policy.scatter"),
        ({"scatter": False, "placement": "even"}, "policy.scatter"),
        ({"placement": "evenly"}, "policy.placement"),
        ({"workers": 3}, "policy.workers"),
    ],
)
def test_wrong_settings_are_named(fields, place):
    with pytest.raises(BadScenario) as refusal:
        build({"name": "optimus"} | fields, make_cluster(), ())
    assert refusal.value.place == place


@pytest.mark.parametrize("speed", [(1.0,), (1.0, -1.0, 0.0, 0.0)])
def test_a_speed_function_has_the_coefficients_of_its_mode(speed):
    with pytest.raises(BadScenario) as refusal:
        build({"name": "optimus"}, make_cluster(), [make_job(samples=Samples(mode="async", speed=speed))])
    assert refusal.value.place == "jobs[0].speed"
