"""The quick answer about one job more is the answer of the whole decision, on random markets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from scheduling.core import records
from scheduling.core.policies import build
from scheduling.core.policies.astraea import OpenDecision
from scheduling.core.policies.astraea.what_if import about
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import WAITING, Job, Plan, View
from tests.core.random_markets import contested_market, mixed_market, random_market

KINDS = {
    "guarantee": lambda seed: random_market(seed, "guarantee"),
    "guarantee with a backlog": lambda seed: random_market(seed, "guarantee", backlog=True),
    "contested": contested_market,
    "mixed fields": mixed_market,
}
MARKETS = 8


@dataclass
class Examined:
    """Decides as the policy does, and asks about its last waiting job by the way, in several forms."""

    policy: Any
    name: str = "examined"
    quick: int = 0
    followed: int = 0
    expected: dict[int, View] = field(default_factory=dict)  # slot -> the view foreseen for it

    def decide(self, view: View) -> Plan:
        plan: Plan = self.policy.decide(view)
        foreseen = self.expected.pop(view.slot, None)
        if foreseen is not None and [job.number for job in foreseen.waiting] == [job.number for job in view.waiting]:
            self.followed += 1
            assert schedules(self.policy.decide(foreseen)) == schedules(plan)
        if view.waiting:
            self._ask(view)
        return plan

    def _ask(self, view: View) -> None:
        job, decision = view.waiting[-1], OpenDecision(self.policy, view)
        if job.number in view.floors:
            return  # it has waited before: not a job that comes last
        self.quick += decision.quick
        for other in forms(job):
            waiting = (*view.waiting[:-1], other)
            whole = self.policy.decide(replace(view, waiting=waiting, jobs={**view.jobs, other.number: other}))
            assert records.plan_bytes(decision.plan_for(other)) == records.plan_bytes(about(other, whole))
        answer = decision.plan_for(job)
        following = decision.following(job, answer.floors)
        if (
            following is not None
            and not answer.bookings
            and all(refusal.state == WAITING for refusal in answer.refusals)
        ):
            self.expected[following.slot] = following
            again = OpenDecision(self.policy, following).plan_for(job)
            whole = about(job, self.policy.decide(following))
            assert records.plan_bytes(again) == records.plan_bytes(whole)


def schedules(plan: Plan) -> list[tuple[Any, ...]]:
    """Sums of amounts come in another order where a view is foreseen, so the last digits of a price are left out."""
    return [(b.job, b.start, b.end, b.allocation, round(b.paid, 6)) for b in plan.bookings]


def forms(job: Job) -> list[Job]:
    fewer = max(job.max_workers // 2, job.min_workers)
    return [job, replace(job, max_workers=fewer), replace(job, max_price=1.0), replace(job, priority=job.priority + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_quick_answer_is_that_of_the_whole_decision(kind: str) -> None:
    quick = followed = 0
    for seed in range(MARKETS):
        scenario: Scenario = KINDS[kind](seed)
        examined = Examined(build(scenario.policy, scenario.cluster, scenario.jobs))
        simulate(scenario, {"batch": examined})
        quick, followed = quick + examined.quick, followed + examined.followed
    assert quick > 2  # or nothing was tried
    if kind == "guarantee with a backlog":
        assert followed > 0
