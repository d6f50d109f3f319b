"""The promise of guarantee mode: every job gets at least what it would have got if its owner were alone.

Three checks on each random market, half of which are long backlogs on few cells: what a job got is worth at least
its floor; every floor is the one found in a second run of the world, on the same boundaries, without the jobs of
all others; and no tenant's phase one changes when the others' jobs are removed or altered.
FLOOR_MARKETS sets how many markets are tried.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, Track, simulate
from scheduling.core.types import AWARDED, OWN, WAITING, Booking, Floor, Job, Plan, Policy, View
from tests.core.policy_examination import snapshot
from tests.core.random_markets import random_market, random_value

MARKETS = int(os.environ.get("FLOOR_MARKETS", "480"))
BLOCK = 20
SLOTS = 48


class Recorded:
    """Passes every question on, and remembers the views at which it was asked, and what the answers were."""

    name = "recorded"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.views: dict[int, View] = {}
        self.plans: dict[int, Plan] = {}
        self.window_end = 0

    def decide(self, view: View) -> Plan:
        self.views[view.slot] = snapshot(view)
        self.plans[view.slot] = plan = self.policy.decide(view)
        self.window_end = max([self.window_end, *(window.end for window in plan.windows)])
        return plan


class OnTheSameBoundaries:
    """The policy with the clock of another run: asked only when that was, and told what that was told."""

    name = "on the same boundaries"

    def __init__(self, policy: Policy, views: Mapping[int, View]) -> None:
        self.policy, self.views = policy, views

    def decide(self, view: View) -> Plan:
        if view.slot not in self.views:
            return Plan()
        return self.policy.decide(replace(view, memory=dict(self.views[view.slot].memory)))


def market(seed: int) -> Scenario:
    return replace(random_market(seed, "guarantee", backlog=seed % 2 == 1), slots=SLOTS)


def policy_of(scenario: Scenario, **changes: Any) -> Policy:
    return build({**scenario.policy, **changes}, scenario.cluster, scenario.jobs)


def recorded_run(scenario: Scenario, **changes: Any) -> tuple[Outcome, Recorded]:
    policy = Recorded(policy_of(scenario, **changes))
    return simulate(scenario, {"batch": policy}), policy


def broken(track: Track, window_end: int) -> str | None:
    """How a job was cheated of its floor, if it was."""
    floor = track.floor or Floor(track.job.number)
    if track.state == AWARDED:
        [booking] = track.bookings
        if booking.value - booking.paid < floor.value - 1e-9 * max(1.0, floor.value):
            return f"{track.job.name} got {booking.value} for {booking.paid}, below its floor {floor.value}"
        if booking.phase == OWN and (booking.start, booking.end, booking.allocation) != (
            floor.start,
            floor.end,
            floor.allocation,
        ):
            return f"{track.job.name} runs at home, but not as planned"
    elif floor.value > 0 and (track.state != WAITING or floor.start < window_end):
        return f"{track.job.name} is {track.state} although its floor {floor} was due"
    return None


def alone(scenario: Scenario, tenant: int, run: Recorded) -> dict[int, Floor]:
    """The floors in the world where only one tenant ever submits, on the boundaries of the recorded run."""
    jobs = tuple(job for job in scenario.jobs if job.tenant == tenant)
    outcome = simulate(replace(scenario, jobs=jobs), {"batch": OnTheSameBoundaries(run.policy, run.views)})
    return floors(outcome, tenant)


def floors(outcome: Outcome, tenant: int) -> dict[int, Floor]:
    return {t.job.number: t.floor for t in outcome.tracks if t.job.tenant == tenant and t.floor is not None}


def altered(chance: random.Random, job: Job) -> Job:
    """The same job with another report."""
    chunks = chance.randint(1, 5)
    return replace(
        job,
        epochs=chance.randint(1, 5),
        chunks=chunks,
        min_workers=1,
        max_workers=chunks,
        value=random_value(chance),
        priority=chance.randint(-2, 2),
    )


def others_changed(view: View, tenant: int, chance: random.Random | None) -> View:
    """The view with the other tenants' waiting jobs altered, or removed where there is no chance."""
    reports = [job if job.tenant == tenant else chance and altered(chance, job) for job in view.waiting]
    waiting = tuple(job for job in reports if job is not None)
    active = {booking.job for booking in view.active}
    changed = {job.number: job for job in waiting if job.number not in active}
    floors = {
        number: floor
        for number, floor in view.floors.items()
        if view.jobs[number].tenant == tenant or number not in changed or chance is None
    }
    return replace(
        view,
        waiting=waiting,
        remaining=[float(job.work) for job in waiting],
        jobs={**view.jobs, **changed},
        floors=floors,
    )


def phase_one(plan: Plan, view: View, tenant: int) -> tuple[list[Floor], list[Booking]]:
    """What a tenant's jobs get before anything is sold: floors newly given and home awards."""
    own_floors = [floor for floor in plan.floors if view.jobs[floor.job].tenant == tenant]
    homes = [(b.job, b.start, b.end, b.allocation) for b in plan.bookings if b.phase == OWN]
    return sorted(own_floors, key=lambda floor: floor.job), sorted(
        row for row in homes if view.jobs[row[0]].tenant == tenant
    )


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_every_job_gets_at_least_its_floor_and_the_floor_is_that_of_being_alone(first: int) -> None:
    for seed in range(first, min(first + BLOCK, MARKETS)):
        scenario = market(seed)
        outcome, run = recorded_run(scenario)
        assert not [line for track in outcome.tracks if (line := broken(track, run.window_end))], f"seed {seed}"
        for tenant in range(len(scenario.cluster.tenants)):
            assert alone(scenario, tenant, run) == floors(outcome, tenant), f"seed {seed}, tenant {tenant}"


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_phase_one_of_a_tenant_does_not_depend_on_others(first: int) -> None:
    """Without upgrades, so that every home award can be seen in the plan."""
    for seed in range(first, min(first + BLOCK, MARKETS)):
        scenario = market(seed)
        _, run = recorded_run(scenario, upgrade=False)
        for slot, view in run.views.items():
            for tenant in {job.tenant for job in view.waiting}:
                expected = phase_one(run.plans[slot], view, tenant)
                for chance in (None, random.Random(seed)):
                    changed = others_changed(view, tenant, chance)
                    plan = run.policy.decide(changed)
                    assert phase_one(plan, changed, tenant) == expected, f"seed {seed}, slot {slot}"


def test_the_markets_put_the_promise_to_the_test() -> None:
    """Jobs rent above their floors, are upgraded, run at home across boundaries and wait behind long backlogs."""
    counts = {"rented above a floor": 0, "upgraded": 0, "ran across a boundary": 0, "waited for its floor": 0}
    for seed in range(120):
        outcome, _ = recorded_run(market(seed))
        ends = sorted({window.end for window in outcome.windows})
        for track in outcome.tracks:
            for booking in track.bookings:
                rented = booking.phase != OWN and booking.floor > 0
                counts["rented above a floor"] += rented
                counts["upgraded"] += rented and track.floor is not None and booking.start <= track.floor.start
                counts["ran across a boundary"] += any(booking.start < end < booking.end for end in ends)
            if track.floor is not None and track.floor.value > 0:
                counts["waited for its floor"] += sum(track.job.arrival < end <= track.floor.start for end in ends) > 2
    assert min(counts.values()) >= 5, counts
