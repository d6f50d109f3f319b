"""Gandiva_fair: shares by tickets, whole gangs, debts that are paid back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from scheduling.core.policies import build
from scheduling.core.policies.gandiva_fair.turns import max_min
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import AWARDED, CENTRALIZED, DISTRIBUTED, REJECTED, WAITING, Cluster
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_unit_type, make_view
from tests.core.random_markets import random_market
from tests.core.reference_gandiva import run as reference

AS_MANY_AS_ALLOWED = 1000


def run(scenario: Scenario, **settings: Any) -> tuple[Track, ...]:
    settings = {"name": "gandiva_fair", "workers": AS_MANY_AS_ALLOWED} | settings
    return simulate(scenario, {"batch": build(settings, scenario.cluster, scenario.jobs)}).tracks


def slots(track: Track) -> list[int]:
    return [booking.start for booking in track.bookings]


def shared(workers: int, *owned: int, servers: int = 1) -> Any:
    """Servers with so many workers in all, and as many parameter servers; tenants own so many of each."""
    each = [workers // servers] * servers
    return make_cluster((each, each), quota=(owned, owned))


@pytest.mark.parametrize("within", ["stride", "fifo"])
@pytest.mark.parametrize("seed", range(40))
def test_decides_like_plain_loops_over_the_rules(seed, within):
    scenario = replace(random_market(seed, "paper", backlog=seed % 2 == 1), policy={})
    expected = reference(scenario, 3, within)
    for track in run(scenario, workers=3, within=within):
        assert [(b.start, b.workers, [row.server for row in b.allocation]) for b in track.bookings] == expected[
            track.job.number
        ]


def test_two_tenants_take_turns_by_their_tickets_by_hand():
    """Three workers, gangs of three, tickets 2 : 1. Entitled to 2 and 1 a slot, passes -1 and -1: the first tenant runs
    (equal passes go by number). It has received 3 of 2, passes 0.5 and -1; in the next slot it stands at -0.5 and the
    second at -2, which runs. Then -1.5 and 0: the first runs, and again the pattern of three slots."""
    jobs = [make_job(k, tenant=k, chunks=3, epochs=6) for k in (0, 1)]
    tracks = run(make_scenario(jobs, cluster=shared(3, 2, 1), slots=9))
    assert [slots(track) for track in tracks] == [[0, 2, 3, 5, 6, 8], [1, 4, 7]]


def test_a_gang_that_an_empty_cluster_holds_does_not_wait_for_ever():
    """Three processors on each of two servers, of which only the first hosts parameter servers. First fit puts three of
    four workers there; dealt round, they leave room for the parameter server."""
    cluster = make_cluster([[3, 3], [9, 9]], resources=("cpu", "memory_gb"), hosts_ps=[True, False])
    job = make_job(chunks=4, min_workers=4, worker_types=[make_unit_type((1, 0))], ps_types=[make_unit_type((1, 0))])
    [track] = run(make_scenario([job], cluster=cluster))
    assert [(row.server, row.workers, row.ps) for row in track.bookings[0].allocation] == [(0, 2, 1), (1, 2, 0)]


def test_what_one_tenant_does_not_ask_for_is_the_others_free():
    """The first asks for 1 of 4 workers, the second for all that is left. Later both ask for everything, and neither
    has anything to pay back."""
    jobs = [
        make_job(0, tenant=0, epochs=4),
        *(make_job(1 + k, tenant=1, epochs=4) for k in range(3)),
        *(make_job(4 + k, tenant=0, arrival=4, epochs=2) for k in range(4)),
        *(make_job(8 + k, tenant=1, arrival=4, epochs=2) for k in range(4)),
    ]
    tracks = run(make_scenario(jobs, cluster=shared(4, 2, 2), slots=8), within="fifo")
    assert [slots(track) for track in tracks[:4]] == [[0, 1, 2, 3]] * 4
    received = [sum(len(slots(track)) for track in tracks[begin : begin + 4]) for begin in (4, 8)]
    assert received == [8, 8]


def test_a_large_gang_is_not_starved_by_small_ones():
    jobs = [make_job(0, tenant=0, chunks=4, epochs=5), *(make_job(1 + k, tenant=1, epochs=20) for k in range(4))]
    tracks = run(make_scenario(jobs, cluster=shared(4, 2, 2), slots=10))
    assert slots(tracks[0]) == [0, 2, 4, 6, 8]  # half of the slots for half of the tickets


def test_who_becomes_active_late_begins_at_the_mean_and_owes_nothing():
    jobs = [make_job(0, tenant=0, epochs=40), make_job(1, tenant=1, arrival=10, epochs=40)]
    tracks = run(make_scenario(jobs, cluster=shared(1, 1, 0), slots=20))
    assert slots(tracks[0]) == list(range(20)), "without tickets there is only what others leave"
    tracks = run(make_scenario(jobs, cluster=make_cluster(((1,), (1,)), quota=((0.5, 0.5), (0.5, 0.5))), slots=20))
    assert len(slots(tracks[1])) == 5


def test_within_a_tenant_jobs_take_turns_or_go_by_arrival():
    jobs = [make_job(k, epochs=3) for k in (0, 1)]
    scenario = make_scenario(jobs, cluster=make_cluster(((1,), (1,))))
    assert [slots(track) for track in run(scenario)] == [[0, 2, 4], [1, 3, 5]]
    assert [slots(track) for track in run(scenario, within="fifo")] == [[0, 1, 2], [3, 4, 5]]


def test_a_gang_is_on_the_first_server_that_holds_it_and_else_spread_at_the_speed_of_the_network():
    job = make_job(chunks=4, epochs=2, gradient_mb=225, ps_types=[make_ps(mbps=9)])
    [near] = run(make_scenario([job], cluster=make_cluster(((2, 4), (1, 1)))))
    [far] = run(make_scenario([job], cluster=make_cluster(((2, 2), (1, 1)))))
    assert (near.bookings[0].placement, slots(near)) == (CENTRALIZED, [0, 1])
    assert (far.bookings[0].placement, slots(far)) == (DISTRIBUTED, [0, 1, 2, 3])
    assert near.bookings[0].allocation[0].server == 1


def test_every_job_has_one_parameter_server_and_it_counts():
    jobs = [make_job(k, chunks=2) for k in (0, 1)]
    tracks = run(make_scenario(jobs, cluster=make_cluster(((4,), (1,)))))
    assert [(track.bookings[0].ps, slots(track)) for track in tracks] == [(1, [0]), (1, [1])]


def test_a_job_that_resumes_loses_the_time_that_takes():
    jobs = [make_job(k, epochs=3) for k in (0, 1)]
    scenario = make_scenario(jobs, cluster=make_cluster(((1,), (1,))))
    tracks = run(scenario, restart=1800)
    assert [[booking.work for booking in track.bookings] for track in tracks] == [[1, 0.5, 0.5, 0.5, 0.5]] * 2
    [alone] = run(make_scenario(jobs[:1], cluster=make_cluster(((1,), (1,)))), restart=1800)
    assert slots(alone) == [0, 1, 2], "who goes on where it was loses nothing"


@given(
    some.lists(some.tuples(some.integers(0, 20), some.integers(0, 5)), min_size=1, max_size=6),
    some.integers(0, 60),
)
def test_shares_are_max_min(rows, total):
    demands, weights = np.array([r[0] for r in rows], float), np.array([r[1] for r in rows], float)
    shares = max_min(demands, weights, float(total))
    assert (shares >= 0).all()
    assert (shares <= demands + 1e-9).all()
    assert shares.sum() == pytest.approx(min(total, demands.sum()), abs=1e-6)
    levels = shares[weights > 0] / weights[weights > 0]
    wanting = (shares < demands - 1e-6)[weights > 0]
    if wanting.any():
        assert levels[wanting].min() >= levels.max() - 1e-6, "somebody who wants more has less than another"
        assert shares[weights <= 0].sum() <= 1e-6


@pytest.mark.parametrize(
    "job",
    [
        make_job(chunks=10**6, max_workers=10**6, epochs=1000),
        make_job(chunks=4, ps_types=[make_ps(mbps=1e-6)], gradient_mb=1e6),
        make_job(chunks=4, worker_types=[make_unit_type((1e-9, 0))], ps_types=[make_unit_type((0, 0))]),
        make_job(chunks=4, worker_types=[make_unit_type((0, 0))], ps_types=[make_unit_type((0, 0))]),
    ],
    ids=["giant", "no network", "hardly anything taken", "nothing taken"],
)
def test_odd_jobs_run_or_wait_and_nothing_breaks(job):
    tracks = run(make_scenario([job, make_job(1)], slots=6), workers=30)
    assert all(track.state in (AWARDED, WAITING) for track in tracks)
    assert all(np.isfinite(booking.work) and booking.work > 0 for track in tracks for booking in track.bookings)


def test_refuses_for_good_what_could_never_run():
    jobs = [make_job(0, chunks=9, min_workers=9), make_job(1)]
    [giant, dwarf] = run(make_scenario(jobs, cluster=make_cluster(((8,), (8,)))))
    assert (giant.state, giant.reason.code) == (REJECTED, "no_room")
    assert dwarf.state == AWARDED


@pytest.mark.parametrize(
    ("fields", "place"),
    [({"workers": 0}, "workers"), ({"within": "lifo"}, "within"), ({"restart": -1}, "restart"), ({"x": 1}, "x")],
)
def test_wrong_settings_are_named(fields, place):
    with pytest.raises(BadScenario) as refusal:
        build({"name": "gandiva_fair"} | fields, make_cluster(), ())
    assert refusal.value.place == f"policy.{place}"


def test_a_debt_stays_the_tenants_own_when_another_tenant_comes():
    """A tenant without units stands in a pool only while its jobs wait there, and those that are numbered after it get
    other numbers. The first of two equal tenants has just run, so the second is next, whoever came meanwhile."""
    gang, other = make_job(1, tenant=0, chunks=4, epochs=9), make_job(2, tenant=1, chunks=4, epochs=9)
    two = named(shared(4, 2, 2), "b", "c")
    policy = build({"name": "gandiva_fair", "workers": AS_MANY_AS_ALLOWED}, two, [])
    first = policy.decide(make_view([gang, other], cluster=two))
    three = named(shared(4, 0, 2, 2), "a", "b", "c")
    policy = build({"name": "gandiva_fair", "workers": AS_MANY_AS_ALLOWED}, three, [])
    came = make_job(3, tenant=0, chunks=4, epochs=9)
    waiting = [replace(gang, tenant=1), replace(other, tenant=2), came]
    then = policy.decide(make_view(waiting, slot=1, cluster=three, memory=first.memory))
    assert [booking.job for booking in first.bookings] == [1]
    assert [booking.job for booking in then.bookings] == [2]


def named(cluster: Cluster, *names: str) -> Cluster:
    tenants = zip(cluster.tenants, names, strict=True)
    return replace(cluster, tenants=tuple(replace(tenant, name=name) for tenant, name in tenants))
