"""What a job that rents in pieces would have got had it said something else: what is done of it stays done, and a part
of it is worth a part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache

import pytest

from scheduling.core.metrics.books import gathered
from scheduling.core.metrics.misreports import plan_outcome, supposed
from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import AWARDED, Plan, Policy, View
from tests.core.piece_markets import piece_market
from tests.core.test_floor_promise import Recorded

MARKETS = 24


@cache
def run(seed: int) -> tuple[Scenario, Recorded, Outcome]:
    scenario = piece_market(seed)
    policy = Recorded(build(scenario.policy, scenario.cluster, scenario.jobs))
    return scenario, policy, simulate(scenario, {"batch": policy})


def intervals(seed: int) -> Iterator[tuple[Policy, View, Plan]]:
    """Every decision of a market that deals out a window."""
    _, policy, _ = run(seed)
    for slot, view in policy.views.items():
        if policy.plans[slot].windows:
            yield policy.policy, view, policy.plans[slot]


@pytest.mark.wide
def test_saying_the_truth_changes_nothing() -> None:
    begun = parts = 0
    for seed in range(MARKETS):
        for policy, view, plan in intervals(seed):
            before = plan_outcome(view, plan)
            rests = dict(zip((job.number for job in view.waiting), view.remaining.tolist(), strict=True))
            divisible = [job for job in view.waiting if job.divisible and job.first_slot <= view.slot]
            for job in sorted(divisible, key=lambda job: rests[job.number] - job.work)[:2]:  # those begun come first
                same = replace(job)
                again = plan_outcome(view, policy.decide(supposed(view, same)), same)
                for number, outcome in before.outcomes.items():
                    assert asdict(again.outcomes[number]) == pytest.approx(asdict(outcome)), (seed, view.slot, number)
                assert again.gains == pytest.approx(before.gains)
                assert again.promised == pytest.approx(before.promised)
                begun += rests[job.number] < job.work
                parts += sum(b.work for b in plan.bookings if b.job == job.number) not in (0, rests[job.number])
    print(f"{begun} jobs were begun, {parts} bought a part")
    assert begun > 20
    assert parts > 20


def test_what_guests_gain_in_all_intervals_is_what_their_jobs_are_worth_less_what_they_paid() -> None:
    """A part is worth a part when it is bought, and the rest of the job the rest."""
    guests = 0
    for seed in range(0, MARKETS, 3):
        scenario, _, outcome = run(seed)
        guest = next((i for i, tenant in enumerate(scenario.cluster.tenants) if tenant.name == "guest"), None)
        if guest is None:
            continue
        gains = sum(plan_outcome(view, plan).gains[guest] for _, view, plan in intervals(seed))
        books = gathered(scenario, outcome)
        worth = books.value[books.tenant == guest].sum() + books.begun[guest]
        assert gains == pytest.approx(worth - books.paid[guest]), seed
        guests += any(track.bookings and track.job.tenant == guest for track in outcome.tracks)
    assert guests > 2


def test_a_job_that_bought_a_piece_is_not_said_to_wait() -> None:
    bought = 0
    for seed in range(MARKETS):
        for _, view, plan in intervals(seed):
            outcomes = plan_outcome(view, plan).outcomes
            for booking in plan.bookings:
                assert outcomes[booking.job].state == AWARDED
                assert outcomes[booking.job].paid >= booking.paid - 1e-12
                bought += any(refusal.job == booking.job for refusal in plan.refusals)
    assert bought > 10
