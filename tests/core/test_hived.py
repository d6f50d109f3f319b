"""HiveD: guaranteed jobs in their owner's cells, opportunistic ones wherever something is idle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from scheduling.core.policies import build
from scheduling.core.policies.hived.cells import cell
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import AWARDED, OWN, REJECTED, SHARED, WAITING
from tests.core.builders import make_cluster, make_job, make_ps, make_scenario, make_unit_type
from tests.core.random_markets import random_market
from tests.core.reference_hived import run as reference

AS_MANY_AS_ALLOWED = 1000
WIDE = (make_ps(mbps=1000),)


def run(scenario: Scenario, **settings: Any) -> tuple[Track, ...]:
    settings = {"name": "hived", "workers": AS_MANY_AS_ALLOWED} | settings
    return simulate(scenario, {"batch": build(settings, scenario.cluster, scenario.jobs)}).tracks


def owned(*homes: int, of: int = 0) -> Any:
    """A server for each tenant, all its own, with as many parameter servers as workers; `of` more is nobody's."""
    units = [float(home) for home in homes] + ([float(of)] if of else [])
    cells = np.zeros((2, len(homes), len(units)))
    for tenant, home in enumerate(homes):
        cells[:, tenant, tenant] = home
    return make_cluster((units, units), cells=cells)


def ran(track: Track) -> list[tuple[int, int, str | None]]:
    return [(booking.start, booking.end, booking.phase) for booking in track.bookings]


@pytest.mark.parametrize("opportunistic", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_decides_like_plain_loops_over_the_rules(seed, opportunistic):
    scenario = replace(random_market(seed, "guarantee", backlog=seed % 2 == 1), policy={}, preload=())
    expected = reference(scenario, 4, opportunistic=opportunistic)
    for track in run(scenario, workers=4, opportunistic=opportunistic):
        rows = [
            (b.start, b.end, b.phase, sorted((row.server, row.workers, row.ps) for row in b.allocation))
            for b in track.bookings
        ]
        assert rows == expected[track.job.number]


def test_an_owner_comes_first_and_the_guest_goes_on_later_by_hand():
    """The second tenant's job has 4 slots of work for 2 workers and a home of none that holds it: it begins on the
    first's idle server. At 1 the owner's job of 2 slots comes and gets its cells; the guest waits and has the slots 3,
    4 and 5. Nothing it did is lost."""
    jobs = [
        make_job(0, tenant=0, arrival=1, chunks=2, epochs=4, ps_types=WIDE),
        make_job(1, tenant=1, arrival=0, chunks=2, epochs=8, ps_types=WIDE, min_workers=2),
    ]
    jobs = [replace(job, epochs=job.epochs // 2) for job in jobs]
    owner, guest = run(make_scenario(jobs, cluster=owned(2, 1)))
    assert ran(owner) == [(1, 3, OWN)]
    assert [(start, phase) for start, _, phase in ran(guest)] == [(0, SHARED), (3, SHARED), (4, SHARED), (5, SHARED)]
    assert sum(booking.work for booking in guest.bookings) == guest.job.work


def test_without_opportunistic_jobs_idle_cells_stay_idle():
    jobs = [make_job(0, tenant=1, epochs=2), make_job(1, tenant=1, epochs=2)]
    [first, second] = run(make_scenario(jobs, cluster=owned(4, 1)), opportunistic=False)
    assert (ran(first), ran(second)) == ([(0, 2, OWN)], [(2, 4, OWN)])
    [first, second] = run(make_scenario(jobs, cluster=owned(4, 1)))
    assert ran(second) == [(0, 1, SHARED), (1, 2, SHARED)]


def test_guaranteed_jobs_of_a_tenant_go_first_in_first_out():
    """The second does not fit beside the first, and the third, which would, does not pass it."""
    jobs = [make_job(k, chunks=chunks, epochs=2, ps_types=WIDE) for k, chunks in enumerate((2, 4, 1))]
    tracks = run(make_scenario(jobs, cluster=owned(4)), opportunistic=False)
    assert [ran(track)[0][:2] for track in tracks] == [(0, 2), (2, 4), (4, 6)]


def test_a_gang_of_three_holds_a_cell_of_four():
    """Of eight workers cells of 4, 2 and 2 are held, and nothing is left for the last worker, not even as a guest."""
    jobs = [make_job(k, chunks=chunks, epochs=3, ps_types=WIDE) for k, chunks in enumerate((3, 2, 2, 1))]
    tracks = run(make_scenario(jobs, cluster=owned(8)))
    assert [ran(track)[0][:2] for track in tracks] == [(0, 3), (0, 3), (0, 3), (3, 6)]


def test_a_gang_goes_where_the_smallest_cell_is_and_a_larger_one_on_several_servers():
    cells = np.array([[[2.0, 8.0, 8.0]], [[2.0, 8.0, 8.0]]])
    cluster = make_cluster(((2, 8, 8), (2, 8, 8)), cells=cells)
    jobs = [make_job(0, chunks=2, ps_types=WIDE), make_job(1, chunks=12, ps_types=WIDE)]
    small, large = run(make_scenario(jobs, cluster=cluster))
    assert [(row.server, row.workers) for row in small.bookings[0].allocation] == [(0, 2)]
    assert [(row.server, row.workers) for row in large.bookings[0].allocation] == [(1, 8), (2, 4)]


def test_what_belongs_to_nobody_is_for_guests():
    [track] = run(make_scenario([make_job(0, epochs=2)], cluster=owned(0, of=2)))
    assert ran(track) == [(0, 1, SHARED), (1, 2, SHARED)]


def test_a_guest_that_resumes_loses_the_time_that_takes():
    jobs = [
        make_job(0, tenant=0, arrival=1, epochs=1),
        make_job(1, tenant=1, arrival=0, epochs=3),
    ]
    _, guest = run(make_scenario(jobs, cluster=owned(1, 0)), restart=1800)
    assert [(booking.start, booking.work) for booking in guest.bookings] == [(0, 1), (2, 0.5), (3, 1), (4, 0.5)]


@given(some.integers(1, 10**6))
def test_a_cell_is_the_smallest_power_of_two_that_holds_the_gang(workers):
    assert cell(workers) >= workers > cell(workers) // 2
    assert cell(workers).bit_count() == 1


@pytest.mark.parametrize(
    "job",
    [
        make_job(chunks=10**5, max_workers=10**5),
        make_job(chunks=4, ps_types=[make_ps(mbps=1e-6)], gradient_mb=1e6),
        make_job(chunks=4, worker_types=[make_unit_type((1e-9, 0))], ps_types=[make_unit_type((0, 0))]),
        make_job(chunks=4, worker_types=[make_unit_type((0, 0))], ps_types=[make_unit_type((0, 0))]),
    ],
    ids=["giant", "no network", "hardly anything taken", "nothing taken"],
)
def test_odd_jobs_run_or_wait_or_are_refused_and_nothing_breaks(job):
    tracks = run(make_scenario([job, make_job(1)], slots=6), workers=30)
    assert tracks[1].state in (AWARDED, WAITING)
    assert all(np.isfinite(booking.work) and booking.work > 0 for track in tracks for booking in track.bookings)


def test_refuses_for_good_what_could_never_run():
    jobs = [make_job(0, chunks=9, min_workers=9), make_job(1)]
    [giant, dwarf] = run(make_scenario(jobs, cluster=make_cluster(((8,), (8,)))))
    assert (giant.state, giant.reason.code) == (REJECTED, "no_room")
    assert dwarf.state == AWARDED


@pytest.mark.parametrize(
    ("fields", "place"),
    [({"workers": 0}, "workers"), ({"opportunistic": 1}, "opportunistic"), ({"restart": -1}, "restart")],
)
def test_wrong_settings_are_named(fields, place):
    with pytest.raises(BadScenario) as refusal:
        build({"name": "hived"} | fields, make_cluster(), ())
    assert refusal.value.place == f"policy.{place}"
