"""The policy decides exactly what the slow reference decides, on random tiny markets, ties included.

Seeds come in blocks so that test processes can share them. MARKETS sets how many markets are tried in all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduling.core.policies import build
from scheduling.core.policies.astraea.renting.offers import Renting
from scheduling.core.policies.astraea.schedules.schedule import Shortfall
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import Job
from tests.core import reference_search
from tests.core.outcomes import differences
from tests.core.random_markets import contested_market, mixed_market, random_market
from tests.core.reference_astraea import Market, ReferenceAstraea
from tests.core.reference_terms import value_densities

KINDS: dict[str, Callable[[int], Scenario]] = {
    "paper": lambda seed: random_market(seed, "paper"),
    "paper with a backlog": lambda seed: random_market(seed, "paper", backlog=True),
    "guarantee": lambda seed: random_market(seed, "guarantee"),
    "guarantee with a backlog": lambda seed: random_market(seed, "guarantee", backlog=True),
    "contested": contested_market,
    "mixed fields": mixed_market,
}
EACH = int(os.environ.get("MARKETS", "3000")) // len(KINDS)
BLOCK = 40


def decided(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)})


def expected(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": ReferenceAstraea(scenario.policy, scenario.cluster, scenario.jobs)})


@pytest.mark.parametrize("first", range(0, EACH, BLOCK))
@pytest.mark.parametrize("kind", KINDS)
def test_decides_what_the_rules_say(kind: str, first: int) -> None:
    for seed in range(first, min(first + BLOCK, EACH)):
        scenario = KINDS[kind](seed)
        wrong = differences(decided(scenario), expected(scenario))
        assert not wrong, f"seed {seed}: " + "; ".join(wrong)


@pytest.mark.parametrize("mode", ["paper", "guarantee"])
def test_finds_the_same_usual_prices_in_a_scenario(mode: str) -> None:
    """Bases and floor prices that the scenario leaves out come from its own jobs (L7)."""
    for seed in range(150):
        scenario = random_market(seed, mode)
        names = scenario.cluster.resources
        policy: Any = build(scenario.policy, scenario.cluster, scenario.jobs)
        reference = ReferenceAstraea(scenario.policy, scenario.cluster, scenario.jobs)
        assert [policy.theta[name] for name in names] == pytest.approx(reference.theta)
        assert [policy.price_floor[name] for name in names] == pytest.approx(reference.price_floor)
    assert any(value_densities(scenario.cluster, scenario.jobs, "range"))


def test_a_limit_that_ruled_nothing_out_need_not_be_lifted(monkeypatch: Any) -> None:
    """The search without a limit, which finds the reason, is left out where it could only find the same again."""
    best, answers = Renting._best, []

    def asked_again(phase: Renting, job: Job, floor: Any, has: float, most_paid: float) -> tuple[Any, bool]:
        answer, limited = best(phase, job, floor, has, most_paid)
        if isinstance(answer, Shortfall) and most_paid < np.inf:
            answers.append(limited)
            if not limited:
                assert best(phase, job, floor, has, np.inf) == (answer, False)
        return answer, limited

    monkeypatch.setattr(Renting, "_best", asked_again)
    for seed in range(60):
        decided(KINDS["guarantee with a backlog"](seed))
    assert min(answers.count(True), answers.count(False)) > 20  # both ways were taken


# -- a comparison that catches nothing would prove nothing: each rule broken once, on purpose ----------------------


def caught(kind: str) -> bool:
    """Whether the policy and the reference differ in any of a few markets."""
    return any(differences(decided(scenario), expected(scenario)) for scenario in map(KINDS[kind], range(80)))


@pytest.mark.parametrize(
    ("kind", "place", "rule", "broken"),
    [
        ("paper", reference_search.Schedule, "rank", lambda s: (-s.start, s.workers, s.placement, s.pair)),
        ("paper", reference_search.Schedule, "rank", lambda s: (s.start, -s.workers, s.placement, s.pair)),
        ("paper", Market, "own_price", lambda market, tenant: lambda r, t: 0.0),
        ("paper with a backlog", Market, "crowding", lambda market, server: -server),
        ("guarantee", Market, "too_large", lambda market, job: False),
        ("guarantee with a backlog", Market, "most_to_pay", lambda market, job: float("inf")),
        ("guarantee with a backlog", Market, "idle_units", lambda market, owner, r, t: 1.0),
        ("contested", Market, "sellers", lambda market, r, t, price: list(market.owners)),
    ],
    ids=[
        "ties by start",
        "ties by workers",
        "shadow price",
        "servers",
        "too large",
        "rent",
        "contributions",
        "reserve",
    ],
)
def test_a_broken_rule_is_caught(kind: str, place: Any, rule: str, broken: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(place, rule, broken)
    assert caught(kind)


def test_a_changed_question_is_caught() -> None:
    """The same comparison, the policy asked about another theta than the reference."""
    for scenario in map(contested_market, range(80)):
        theta = dict.fromkeys(scenario.cluster.resources, 2.5)
        policy = build({**scenario.policy, "theta": theta}, scenario.cluster, scenario.jobs)
        if differences(simulate(scenario, {"batch": policy}), expected(scenario)):
            return
    pytest.fail("another theta went unnoticed")
