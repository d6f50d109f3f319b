"""BatchSche: batches of each tenant's jobs on its own machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.metrics import alone_scenario
from scheduling.core.policies import build
from scheduling.core.policies.batchsche import BatchSche
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import Outcome, Track, simulate
from scheduling.core.types import AWARDED, OWN, REJECTED, WAITING
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_unit_type
from tests.core.outcomes import unlike
from tests.core.random_markets import random_market
from tests.core.reference_astraea import ReferenceAstraea

SIXTEEN = {"worker": 16.0, "ps": 16.0}


def run(scenario: Scenario, **settings: object) -> Outcome:
    policy = build({"name": "batchsche"} | settings, scenario.cluster, scenario.jobs)
    return simulate(scenario, {"batch": policy})


def alone(scenario: Scenario, tenant: int, **settings: object) -> tuple[list[int], Outcome]:
    """The servers of a tenant, and what the slow batch auction does where nobody else is: its own shares, no rent."""
    home = alone_scenario(scenario, tenant)
    servers = [scenario.cluster.servers.index(name) for name in home.cluster.servers]
    home = replace(home, cluster=replace(home.cluster, cells=None), policy={})
    paper = {"name": "astraea", "mode": "paper"} | settings
    return servers, simulate(home, {"batch": ReferenceAstraea(paper, home.cluster, home.jobs)})


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("seed", range(30))
def test_deals_out_a_home_as_the_slow_batch_auction_does_where_a_tenant_is_alone(seed, rounds):
    random_scenario = random_market(seed, "guarantee", backlog=seed % 2 == 1)
    scenario = replace(random_scenario, policy={}, preload=(), slots=20)
    theta = {name: 2.0 + 3.0 * index for index, name in enumerate(scenario.cluster.resources)}
    tracks = {track.job.number: track for track in run(scenario, theta=theta, rounds=rounds).tracks}
    for tenant in range(len(scenario.cluster.tenants)):
        servers, expected = alone(scenario, tenant, theta=theta, rounds=rounds)
        for other in expected.tracks:
            mine = tracks[other.job.number]
            assert (mine.state == AWARDED) == (other.state == AWARDED)
            if mine.state == AWARDED:
                assert unlike(mine, _moved(other, servers)) is None


def _moved(track: Track, servers: list[int]) -> Track:
    """The track with its servers numbered as in the whole cluster."""
    bookings = [
        replace(booking, allocation=tuple(replace(row, server=servers[row.server]) for row in booking.allocation))
        for booking in track.bookings
    ]
    return replace(track, bookings=bookings)


def worked() -> Scenario:
    """Two tenants with a machine each: four workers and two parameter servers, and two workers and one."""
    cells = (((4, 0), (0, 2)), ((2, 0), (0, 1)))
    cluster = make_cluster(((4, 2), (2, 1)), cells=cells)
    value = Linear(-2.0, 100.0)
    jobs = [
        make_job(0, tenant=0, arrival=1, chunks=2, epochs=2, value=value),
        make_job(1, tenant=0, arrival=1, chunks=2, epochs=4, value=value),
        make_job(2, tenant=1, arrival=1, chunks=2, epochs=4, value=value),
        make_job(3, tenant=1, arrival=5, chunks=2, epochs=2, value=value),
    ]
    return make_scenario(jobs, cluster=cluster, slots=20)


def test_the_batches_of_two_tenants_by_hand():
    """Batch 1 at 2 decides the slots 2 and 3, batch 2 at 4 those from 4 to 7, batch 3 at 8 those from 8 to 15.

    At 2 the job of two slots gets all that the window has: worth 100 - 2 * 2 = 96. The others need four slots. At 4
    job 1 runs at once on two workers (value 92, free), and so does job 2 at its own owner's. Job 3 came at 5 and runs
    from 8. No owner's load raises the other's price.
    """
    tracks = run(worked(), theta=SIXTEEN).tracks
    runs = [(track.bookings[0].start, track.bookings[0].end, track.bookings[0].workers) for track in tracks]
    assert runs == [(2, 4, 2), (4, 8, 2), (4, 8, 2), (8, 10, 2)]
    assert [track.bookings[0].value for track in tracks] == [96, 92, 92, 96]
    assert all(track.bookings[0].phase == OWN and track.bookings[0].paid == 0 for track in tracks)
    assert [track.bookings[0].allocation[0].server for track in tracks] == [0, 0, 1, 1]


def test_a_price_counts_in_the_choice_and_is_not_paid():
    """By hand: the first takes 2 of 4 workers and 1 of 2 parameter servers in both slots of the window [2, 4); a unit
    then costs 16 ** 0.5 - 1 = 3 a slot. A worker and a parameter server for one slot cost the second 6."""
    jobs = [
        make_job(0, arrival=0, chunks=2, epochs=2, value=Linear(-2.0, 100.0)),
        make_job(1, arrival=0, chunks=1, epochs=1, value=Linear(-3.0, 100.0)),
    ]
    tracks = run(make_scenario(jobs, slots=9), theta=SIXTEEN).tracks
    assert [(track.bookings[0].start, track.bookings[0].end) for track in tracks] == [(2, 4), (2, 3)]
    assert [track.bookings[0].shadow_cost for track in tracks] == pytest.approx([0.0, 6.0])


def test_a_job_that_is_worth_less_than_its_price_waits():
    jobs = [
        make_job(0, arrival=0, chunks=2, epochs=2, value=Linear(-2.0, 100.0)),
        make_job(1, arrival=0, chunks=1, epochs=1, value=Linear(0.0, 5.0)),
    ]
    tracks = run(make_scenario(jobs, slots=9), theta=SIXTEEN).tracks
    assert tracks[1].bookings[0].start == 4  # in the next batch, when nothing is taken
    [first, second] = run(make_scenario(jobs, slots=3), theta=SIXTEEN).tracks
    assert first.state == AWARDED
    assert (second.reason.code, second.reason.numbers) == ("outbid", {"price": pytest.approx(6.0), "value": 5.0})


def test_nobody_uses_what_others_leave_idle():
    cells = (((4, 0), (0, 0)), ((2, 0), (0, 0)))
    cluster = make_cluster(((4, 4), (2, 2)), cells=cells)
    tracks = run(make_scenario([make_job(0, tenant=1), make_job(1, tenant=0)], cluster=cluster), theta=SIXTEEN).tracks
    assert (tracks[0].state, tracks[0].reason.code) == (REJECTED, "no_room")
    assert tracks[1].state == AWARDED


def test_quotas_that_are_mere_counts_are_dealt_to_servers():
    cluster = make_cluster(((2, 2), (1, 1)), quota=((2, 2), (1, 1)))
    jobs = [make_job(k, tenant=k, chunks=2, ps_types=[make_ps(mbps=9)]) for k in (0, 1)]
    tracks = run(make_scenario(jobs, cluster=cluster), theta=SIXTEEN).tracks
    assert [track.bookings[0].allocation[0].server for track in tracks] == [0, 1]


def test_says_why_a_job_gets_nothing():
    unit = make_unit_type((1, 1))
    jobs = [
        make_job(0, epochs=3),
        make_job(1, value=Linear(0.0, -5.0)),
        make_job(2, worker_types=[unit], ps_types=[unit]),
        make_job(3, chunks=9, min_workers=9),
        make_job(4, arrival=2.5),
    ]
    tracks = run(make_scenario(jobs, slots=4), theta=SIXTEEN).tracks
    codes = [(track.state, track.reason.code) for track in tracks]
    assert codes == [
        (WAITING, "larger_than_window"),
        (WAITING, "not_worth_it"),
        (REJECTED, "shared_resource"),
        (REJECTED, "no_room"),
        (WAITING, "waiting_for_interval"),
    ]


def test_bases_that_are_not_given_follow_from_the_jobs_like_those_of_the_batch_auction():
    for seed in range(40):
        scenario = random_market(seed, "paper")
        policy = build({"name": "batchsche"}, scenario.cluster, scenario.jobs)
        reference = ReferenceAstraea({"mode": "paper"}, scenario.cluster, scenario.jobs)
        assert isinstance(policy, BatchSche)
        assert [policy.theta[name] for name in scenario.cluster.resources] == pytest.approx(reference.theta)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"theta": {"worker": 1}}, "policy.theta.worker: must be"),
        ({"theta": {"gpu": 4}}, "policy.theta.gpu: unknown resource"),
        ({"rounds": 0}, "policy.rounds: must be a positive integer"),
        ({"lambda": 2}, "policy.lambda: unknown"),
    ],
)
def test_refuses_settings_nobody_can_use(fields, message):
    scenario = make_scenario()
    with pytest.raises(BadScenario, match=message):
        build({"name": "batchsche"} | fields, scenario.cluster, scenario.jobs)
