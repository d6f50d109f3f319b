"""Jobs without parameter servers: how fast they are, in files and records, and with every policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core import records
from scheduling.core.offline import oasis, pdors
from scheduling.core.offline.astraea import upper_bound
from scheduling.core.policies import build
from scheduling.core.policies.oasis import policy as oasis_policy
from scheduling.core.policies.pdors import policy as pdors_policy
from scheduling.core.scenario import BadScenario, Scenario, read, to_json, write
from scheduling.core.simulation import Track, simulate
from scheduling.core.speed import elastic_rate, minibatches_per_slot, parameter_servers
from scheduling.core.types import Booking, Job, UnitType
from tests.core import offline_oasis, offline_pdors
from tests.core.builders import SLOT_SECONDS, make_cluster, make_job, make_unit_type, make_view
from tests.core.random_markets import random_market
from tests.core.test_astraea_what_if import Examined as Asking
from tests.core.test_policy_contract import EXAMINED, Counted, each_policy, examined, occupied

SEEDS = range(16)
WIDE = 1000.0  # Mbit/s: one parameter server carries all workers of these markets


def all_reduce(job: Job) -> Job:
    return replace(job, ps_types=(), max_ps=None)


def market(seed: int, name: str, settings: dict[str, Any], *, every: int = 1) -> Scenario:
    """A random market in which every so manieth job has no parameter servers."""
    scenario = random_market(seed, "guarantee", backlog=seed % 2 == 1)
    jobs = tuple(all_reduce(job) if job.number % every == 0 else job for job in scenario.jobs)
    return replace(scenario, jobs=jobs, policy={"name": name} | settings)


def run(scenario: Scenario) -> tuple[Track, ...]:
    return simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)}).tracks


def trained(job: Job, booking: Booking) -> float:
    """Mini-batches that the gang of a booking trains, by the law of the specification, slot by slot: with n servers a
    mini-batch takes 2 * (n - 1) / n * gradient_mb * 8 / worker_mbps seconds longer."""
    worker, total = job.worker_types[booking.worker_type], 0.0
    for slot in range(booking.start, booking.end):
        rows = [row for row in booking.allocation if row.start <= slot < row.end and row.workers]
        if rows:
            n = len({row.server for row in rows})
            seconds = worker.seconds + 2 * (n - 1) / n * job.gradient_mb * 8 / worker.mbps
            total += sum(row.workers for row in rows) * SLOT_SECONDS / seconds
    return total


# ---- how fast they are


def test_across_servers_a_ring_takes_longer_and_on_one_server_it_is_free() -> None:
    job = make_job(chunks=8, worker_types=[make_unit_type(seconds=2.0, mbps=100.0)], ps_types=(), gradient_mb=50.0)
    job = all_reduce(job)
    for n in range(1, 9):
        seconds = 2.0 + 2 * (n - 1) / n * 50.0 * 8 / 100.0
        assert minibatches_per_slot(job, 0, 0, 60.0, centralized=False, servers=n) == pytest.approx(60.0 / seconds)
        assert elastic_rate(job, 8, 0, (0, 0), 60.0, centralized=False, servers=n) == pytest.approx(480.0 / seconds)
    central = minibatches_per_slot(job, 0, 0, 60.0, centralized=True)
    assert minibatches_per_slot(job, 0, 0, 60.0, centralized=False, servers=1) == central == 30.0


def test_needs_no_parameter_server_for_any_number_of_workers() -> None:
    nothing = all_reduce(make_job()).ps_types[0]
    assert nothing.absent
    assert not nothing.demand.any()
    assert {parameter_servers(n, 10_000.0, nothing.mbps) for n in (1, 2, 100, 10**6)} == {0}


def test_a_gang_that_is_spread_is_booked_for_as_long_as_its_ring_takes() -> None:
    """By hand: 12 mini-batches by 4 workers on 2 servers, half an hour each and half an hour for the exchange."""
    worker = make_unit_type(seconds=1800.0, mbps=1.0)
    job = make_job(chunks=4, minibatches=3, worker_types=[worker], gradient_mb=225.0)  # 2 * 225 * 8 = 3600 s
    scenario = Scenario(
        make_cluster([[2, 2], [0, 0]]), (all_reduce(job),), 20, {"name": "fifo", "workers": 4}, preload=()
    )
    (track,) = run(scenario)
    (booking,) = track.bookings
    assert (booking.workers, booking.ps, booking.placement) == (4, 0, "distributed")
    assert booking.end - booking.start == 3  # 12 / 4 mini-batches of 1800 + 3600 / 2 seconds
    together = replace(scenario, cluster=make_cluster([[4], [0]]))
    (track,) = run(together)
    assert [(b.placement, b.end - b.start) for b in track.bookings] == [("centralized", 2)]  # 1.5 slots, rounded up


# ---- in files and records


def document(**changes: Any) -> dict[str, Any]:
    job = {
        "name": "a", "tenant": "u", "arrival": 0, "epochs": 1, "chunks": 4, "minibatches": 2,
        "minibatch_seconds": 60, "gradient_mb": 10, "worker_mbps": 100, "worker_demand": {"gpu": 1}, "ps_demand": [],
        "value": {"kind": "linear", "slope": -1, "base": 50},
    }  # fmt: skip
    return {
        "format": "scenario/1", "slot_seconds": 3600, "slots": 20,
        "servers": [{"name": "s", "capacity": {"gpu": 4}}],
        "tenants": [{"name": "u", "quota": {"gpu": 4}}], "jobs": [job | changes], "policy": {"name": "fifo"},
    }  # fmt: skip


def test_an_empty_list_of_parameter_servers_says_so_in_a_file() -> None:
    scenario = read(document())
    assert scenario.jobs[0].all_reduce
    again = json.loads(to_json(write(scenario)))
    assert again["jobs"][0]["ps_demand"] == []
    assert not {"update_seconds", "ps_mbps", "max_ps"} & set(again["jobs"][0])
    assert write(read(again)) == write(scenario)


@pytest.mark.parametrize("name", ["update_seconds", "ps_mbps", "max_ps", "ps_ratio"])
def test_numbers_of_parameter_servers_are_refused_where_there_are_none(name: str) -> None:
    with pytest.raises(BadScenario, match=rf"jobs\[0\].{name}: must be left out"):
        read(document(**{name: 1}))


@pytest.mark.parametrize("demand", [None, {}, [{}]])
def test_nothing_else_says_that_there_are_none(demand: Any) -> None:
    with pytest.raises(BadScenario, match="ps_demand"):
        read(document(ps_demand=demand))


def test_what_an_interval_stores_of_a_job_reads_back_as_the_same() -> None:
    job = all_reduce(make_job(worker_types=[make_unit_type()]))
    stored = records.view_bytes(make_view(waiting=(job,)))
    assert json.loads(stored)["jobs"][0]["ps_types"] == []
    again = records.view_from(stored)
    assert again.waiting[0].all_reduce
    assert records.view_bytes(again) == stored


# ---- with every policy


@each_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_keeps_what_every_policy_promises(name: str, settings: dict[str, Any], seed: int) -> None:
    """Some jobs with and some without; nobody is held to or pays for what it has not, and nobody is slower than booked
    for."""
    scenario = market(seed, name, settings, every=1 + seed % 3)
    outcome, _ = examined(scenario)
    assert (occupied(scenario, outcome) <= scenario.cluster.capacity[:, None, :] + 1e-9).all(), "more than there is"
    for track in outcome.tracks:
        assert sum(booking.work for booking in track.bookings) <= track.job.work * (1 + 1e-9)
        for booking in track.bookings if track.job.all_reduce else ():
            assert booking.ps == 0
            assert all(row.workers > 0 and row.ps == 0 for row in booking.allocation), "a row that holds nothing"
            assert trained(track.job, booking) >= booking.work * (1 - 1e-9), "more work than its speed does"


@each_policy
def test_books_jobs_in_these_markets(name: str, settings: dict[str, Any]) -> None:
    plans = 0
    for seed in SEEDS[:12]:
        scenario = market(seed, name, settings)
        policy = Counted(build(scenario.policy, scenario.cluster, scenario.jobs))
        simulate(scenario, {"batch": policy})
        plans += policy.plans
    assert plans >= 12


@each_policy
def test_runs_on_servers_that_host_no_parameter_servers(name: str, settings: dict[str, Any]) -> None:
    """No machine for parameter servers is missed, where there is none in the whole cluster."""
    job = all_reduce(make_job(chunks=2, minibatches=2))
    cells = np.array([[[2.0]], [[0.0]]])
    cluster = make_cluster([[2], [0]], cells=cells, quota=cells.sum(axis=2), hosts_ps=[False])
    scenario = Scenario(cluster, (job,), 40, {"name": name} | settings)
    (track,) = run(scenario)
    assert track.bookings
    assert sum(booking.work for booking in track.bookings) == pytest.approx(job.work)


def twins(seed: int, name: str, settings: dict[str, Any]) -> Iterator[tuple[Scenario, Scenario]]:
    """A market without gradients in which no job has parameter servers; and the same one in which each has a parameter
    server that takes nothing, needs no time, and may stand anywhere. For some policies every job has a market alone."""
    scenario = market(seed, name, settings)
    everywhere = np.ones(len(scenario.cluster.servers), dtype=bool)
    least = {"min_workers": 1} if name == "rrh" else {}
    jobs = tuple(replace(job, gradient_mb=0.0, **least) for job in scenario.jobs)
    cluster = replace(scenario.cluster, hosts_workers=everywhere, hosts_ps=everywhere)
    nothing = UnitType(np.zeros(len(cluster.resources)), 0.0, WIDE)
    for some in [(job,) for job in jobs] if name in PLACES_OF_ITS_OWN else [jobs]:
        without = replace(scenario, cluster=cluster, jobs=some)
        yield without, replace(without, jobs=tuple(replace(job, ps_types=(nothing,), max_ps=1) for job in some))


def schedule(track: Track, *, where: bool) -> Any:
    """When, for how much and, if asked, where; without the parameter servers."""
    runs = [
        (
            *(booking.start, booking.end, booking.workers, booking.worker_type, booking.phase),
            *(round(amount, 9) for amount in (booking.work, booking.paid, booking.cost, booking.value, booking.floor)),
            sorted(
                (row.server, row.start, row.end, row.workers) for row in booking.allocation if row.workers and where
            ),
        )
        for booking in track.bookings
    ]
    return track.state, track.reason and track.reason.code, runs


# A learned policy was trained on jobs with parameter servers, and sees how many a job has: with and without are two
# states, and it has no reason to treat them alike.
ALIKE = [(name, settings) for name, settings in EXAMINED if name not in ("dl2", "offline_rl")]
# PD-ORS prefers servers, among equally dear ones, that hold the parameter server already, and Dorm's integer program is
# solved to a gap in which several answers lie: the places are others, and then what later jobs find. So each job has a
# market of its own, in which times, numbers and prices are the same.
PLACES_OF_ITS_OWN = ("dorm", "pdors")
# Risk-reward divides what a job earns by its number of units, and counts those that take nothing too: all have one
# worker here, so that it divides all by the same.
EVEN = {"rrh": {"workers": 1}}


@pytest.mark.parametrize(("name", "settings"), ALIKE, ids=["-".join([n, *map(str, s.values())]) for n, s in ALIKE])
def test_is_decided_like_a_job_whose_parameter_server_is_free_and_takes_nothing(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What takes nothing has no price, so these two refuse it from the start; here they shall go on.
    monkeypatch.setattr(oasis_policy, "unservable", lambda job, cluster: None)
    monkeypatch.setattr(pdors_policy, "unservable", lambda job: None)
    booked, where = 0, name not in PLACES_OF_ITS_OWN
    for seed in SEEDS:
        for without, beside in twins(seed, name, settings | EVEN.get(name, {})):
            one, other = ([schedule(track, where=where) for track in run(each)] for each in (without, beside))
            assert one == other, seed
            booked += sum(bool(runs) for _, _, runs in one)
    assert booked >= len(SEEDS)


def test_the_quick_answer_about_one_job_more_is_that_of_the_whole_decision() -> None:
    """What quotes and estimates of the batch lane ask."""
    quick = 0
    for seed in range(8):
        scenario = market(seed, "astraea", {"mode": "guarantee"}, every=1 + seed % 2)
        asking = Asking(build(scenario.policy, scenario.cluster, scenario.jobs))
        simulate(scenario, {"batch": asking})
        quick += asking.quick
    assert quick > 2


@pytest.mark.parametrize(("offline", "world"), [(offline_oasis, oasis), (offline_pdors, pdors)], ids=["oasis", "pdors"])
def test_never_beats_the_offline_optimum(offline: Any, world: Any) -> None:
    reached = 0.0
    for number in range(3):
        small, jobs = offline.small_sequence(number, jobs=4)
        jobs = [all_reduce(job) for job in jobs]
        gained = offline.online(small, jobs)
        assert gained <= world.optimum(small.cluster, jobs, small.slots, gap=1e-4) + 1e-6
        reached += gained
    assert reached > 0


@pytest.mark.wide
def test_never_beats_the_bound_of_whole_runs() -> None:
    reached = 0.0
    for number in range(6):
        scenario = market(number, "astraea", {"mode": "guarantee"})
        bookings = [booking for track in run(scenario) for booking in track.bookings]
        slots = max([scenario.slots, *(booking.end for booking in bookings)])
        gained = sum(booking.value for booking in bookings)
        assert gained <= upper_bound(scenario.cluster, scenario.jobs, slots) + 1e-6
        reached += gained
    assert reached > 0
