"""Plans at home of a whole queue are those that are made one by one: jobs are passed over only where no search would
find them a schedule."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduling.core.policies import build
from scheduling.core.policies.astraea.home import floors as queues
from scheduling.core.policies.astraea.home.calendar import HomeCalendar
from scheduling.core.policies.astraea.home.floor_search import FloorSearch
from scheduling.core.policies.astraea.home.floors import HomeQueue
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.policies.astraea.ways.candidates import candidates
from scheduling.core.scenario import Scenario
from scheduling.core.types import Floor, Job
from tests.core.random_markets import PLAIN, TYPES, VECTOR, random_job, random_market

JOBS = 60


def crowded(seed: int) -> tuple[Scenario, Settings, list[Job]]:
    """A market of a seed, and far more jobs of its first tenant than its cells have room for while they are worth
    anything."""
    chance = random.Random(seed)
    scenario = random_market(seed, "guarantee", backlog=True)
    kit = next(kit for kit in (PLAIN, TYPES, VECTOR) if len(kit.resources) == len(scenario.cluster.capacity))
    jobs = [random_job(chance, kit, scenario.cluster, number, 3) for number in range(JOBS)]
    policy = build(scenario.policy, scenario.cluster, scenario.jobs)
    assert isinstance(policy, Settings)
    return scenario, policy, [replace(job, tenant=0) for job in jobs]


def one_by_one(settings: Settings, scenario: Scenario, jobs: Sequence[Job]) -> list[Floor]:
    calendar, floors = HomeCalendar(scenario.cluster, 0, 3), []
    for job in jobs:
        ways = candidates(job, scenario.cluster, exact=settings.workers == "exact")
        used = calendar.used(8) if settings.server_choice == "least_used" else None
        floors.append(FloorSearch(calendar, job, ways, used).floor())
        calendar.reserve(floors[-1], job)
    return floors


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_a_queue_has_the_plans_that_are_made_one_by_one(
    monkeypatch: pytest.MonkeyPatch, seed: int, at_once: int
) -> None:
    monkeypatch.setattr(queues, "AT_ONCE", at_once)
    scenario, settings, jobs = crowded(seed)
    chance = random.Random(seed + 1)
    some = chance.sample(jobs, chance.randint(1, JOBS))
    ways = [(job, candidates(job, scenario.cluster, exact=settings.workers == "exact")) for job in jobs]
    queue = HomeQueue(HomeCalendar(scenario.cluster, 0, 3), ways)
    for order in (jobs, some):
        floors = queue.floors(settings, HomeCalendar(scenario.cluster, 0, 3), 8, [job.number for job in order])
        assert list(floors) == one_by_one(settings, scenario, order)


def test_most_jobs_of_a_crowd_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or there would be nothing to compare."""
    searches: list[int] = []

    class Counted(FloorSearch):
        def floor(self) -> Floor:
            searches.append(self.job.number)
            return super().floor()

    monkeypatch.setattr(queues, "FloorSearch", Counted)
    monkeypatch.setattr(queues, "AT_ONCE", 1)
    plans = 0
    for seed in range(40):
        scenario, settings, jobs = crowded(seed)
        ways = [(job, candidates(job, scenario.cluster, exact=settings.workers == "exact")) for job in jobs]
        calendar = HomeCalendar(scenario.cluster, 0, 3)
        plans += sum(floor.value > 0 for floor in HomeQueue(calendar, ways).floors(settings, calendar, 8))
    assert plans <= len(searches) < 40 * JOBS / 2
