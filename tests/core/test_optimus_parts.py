"""Optimus with the allocation, or the placement, of another policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core.gangs import GangUnits
from scheduling.core.policies import build
from scheduling.core.policies.dominant_resource_fairness import DominantResourceFairness
from scheduling.core.policies.optimus.parts import Placer
from scheduling.core.policies.tetris import Tetris
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, Plan, Policy, View
from tests.core.builders import make_cluster, make_job, make_scenario, make_unit_type, make_view

OTHERS = ("dominant_resource_fairness", "tetris")
ONE = make_unit_type((1,))


def make(number: int = 0, **fields: Any) -> Any:
    return make_job(number, **{"chunks": 6, "epochs": 3, "worker_types": [ONE], "ps_types": [ONE], **fields})


def market(capacity: Any, jobs: Any, **hosts: Any) -> Scenario:
    return make_scenario(jobs, cluster=make_cluster(capacity, resources=["r0"], **hosts))


def policy(scenario: Scenario, **settings: Any) -> Policy:
    return build({"name": "optimus", "restart": 0, "young": 1} | settings, scenario.cluster, scenario.jobs)


def first_view(scenario: Scenario) -> View:
    return make_view(scenario.jobs, cluster=scenario.cluster)


def numbers(plan: Plan) -> dict[int, tuple[int, int]]:
    return {booking.job: (booking.ps, booking.workers) for booking in plan.bookings}


def places(plan: Plan) -> dict[int, list[tuple[int, int, int]]]:
    rows = {booking.job: booking.allocation for booking in plan.bookings}
    return {job: sorted((row.server, row.workers, row.ps) for row in each) for job, each in rows.items()}


@pytest.mark.parametrize("name", OTHERS)
def test_with_anothers_allocation_jobs_get_its_numbers_on_the_fewest_servers(name: str) -> None:
    jobs = [make(0, epochs=1), make(1, epochs=9), make(2, epochs=30)]
    scenario = market(((8, 8, 8),), jobs)
    other = build({"name": name}, scenario.cluster, scenario.jobs)
    view = first_view(scenario)
    mixed = policy(scenario, allocation=name, scatter=True).decide(view)
    assert numbers(mixed) == numbers(other.decide(view))
    assert numbers(mixed) != numbers(policy(scenario, scatter=True).decide(view))
    assert len(places(mixed)[0]) <= len(places(other.decide(view))[0])


@pytest.mark.parametrize("name", OTHERS)
def test_with_anothers_placement_jobs_keep_their_numbers_and_change_their_servers(name: str) -> None:
    scenario = market(((5, 5, 5, 5),), [make(0, epochs=1), make(1, epochs=9), make(2, epochs=9)])
    view = first_view(scenario)
    own, mixed = (policy(scenario, scatter=True, placement=part).decide(view) for part in ("optimus", name))
    assert numbers(mixed) == numbers(own)
    assert places(mixed) != places(own)


def placed(placer: Placer, capacity: Any, *gangs: GangUnits, **hosts: Any) -> dict[int, list[tuple[int, int, int]]]:
    scenario = market(capacity, [make(number) for number in range(len(gangs))], **hosts)
    placements = placer.place(first_view(scenario), dict(enumerate(gangs)))
    rows = {job: placement.allocation(0, 1) for job, placement in placements.items()}
    return {job: [(row.server, row.workers, row.ps) for row in each] for job, each in rows.items()}


def test_fairness_spreads_units_round_the_servers() -> None:
    """The publication's example: four workers and two parameter servers on three servers of three."""
    assert placed(DominantResourceFairness(), ((3, 3, 3),), GangUnits(4, 2)) == {0: [(0, 2, 1), (1, 1, 1), (2, 1, 0)]}


def test_tetris_fills_one_server_before_the_next() -> None:
    assert placed(Tetris(), ((6, 6, 6),), GangUnits(4, 2)) == {0: [(0, 4, 2)]}
    assert placed(Tetris(), ((3, 3, 3),), GangUnits(4, 2)) == {0: [(0, 1, 1), (1, 2, 1), (2, 1, 0)]}


@pytest.mark.parametrize("placer", [DominantResourceFairness(), Tetris()])
def test_a_gang_may_have_more_parameter_servers_than_workers_and_is_placed_whole_or_not_at_all(placer: Placer) -> None:
    rows = placed(placer, ((2, 2, 2),), GangUnits(1, 4), GangUnits(1, 1))
    assert sum(row[1] for row in rows[0]) == 1
    assert sum(row[2] for row in rows[0]) == 4
    assert placed(placer, ((2, 2),), GangUnits(1, 4), GangUnits(2, 2)).keys() == {1}


def test_a_gang_that_lacks_only_parameter_servers_keeps_no_other_from_being_tried() -> None:
    scenario = market(((2, 2, 2),), [make(0, epochs=1), make(1, epochs=30)])
    gangs = {0: GangUnits(2, 5), 1: GangUnits(3, 3)}
    assert Tetris().place(first_view(scenario), gangs).keys() == {1}


@pytest.mark.parametrize("name", OTHERS)
def test_another_places_gangs_where_something_is_left(name: str) -> None:
    scenario = market(((4, 4),), [make(chunks=3)])
    occupied = np.array([[[4.0, 0.0]]])
    mixed = policy(scenario, placement=name).decide(replace(first_view(scenario), occupied=occupied))
    assert places(mixed) == {0: [(1, 3, 1)]}


@pytest.mark.parametrize("name", OTHERS)
def test_under_anothers_placement_too_a_job_whose_numbers_stay_keeps_its_servers(name: str) -> None:
    jobs = [make(number, chunks=3, epochs=6, arrival=number) for number in range(3)]
    scenario = market(((4, 4, 4),), jobs)
    tracks = simulate(scenario, {"batch": policy(scenario, placement=name)}).tracks
    for track in tracks:
        places_by_size = {
            (b.workers, b.ps): {tuple((r.server, r.workers) for r in b.allocation)} for b in track.bookings
        }
        assert all(len(rows) == 1 for rows in places_by_size.values())


@pytest.mark.parametrize("seed", range(6))
def test_any_two_parts_together_end_all_jobs_within_what_there_is(seed: int) -> None:
    """The simulation refuses a plan that takes more than a server has."""
    dice = np.random.default_rng(seed)
    jobs = [make(n, chunks=int(dice.integers(1, 6)), epochs=int(dice.integers(1, 6)), arrival=n / 2) for n in range(6)]
    hosts = {"hosts_ps": [True, True, False]} if seed % 2 else {}
    scenario = replace(market((dice.integers(2, 7, 3).tolist(),), jobs, **hosts), slots=60)
    for allocation in ("optimus", *OTHERS):
        for placement in ("optimus", *OTHERS):
            mixed = policy(scenario, allocation=allocation, placement=placement)
            assert all(track.state == AWARDED for track in simulate(scenario, {"batch": mixed}).tracks)


@pytest.mark.parametrize("named", ["allocation", "placement"])
def test_a_part_of_nobody_is_named(named: str) -> None:
    with pytest.raises(BadScenario) as refused:
        policy(market(((3,),), [make()]), **{named: "fifo"})
    assert refused.value.place == f"policy.{named}"
