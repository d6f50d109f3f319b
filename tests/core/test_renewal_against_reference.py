"""Renewed plans, the searched price and the dividend: the policy decides what the slow reference decides (rules K).

RENEWAL_MARKETS sets how many random markets are tried in all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from tests.core import reference_renewal
from tests.core.outcomes import close, differences
from tests.core.random_markets import random_market
from tests.core.reference_astraea import ReferenceAstraea
from tests.core.reference_renewal import AloneWorld, ReferenceRenewal, RenewalMarket
from tests.core.renewal_markets import FAMILIES, renewal_market

MARKETS = int(os.environ.get("RENEWAL_MARKETS", "120"))
BLOCK = 20


def decided(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)})


def expected(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": ReferenceRenewal(scenario.policy, scenario.cluster, scenario.jobs)})


def wrong(scenario: Scenario) -> list[str]:
    """Where the two differ: in jobs, or in what they say about the search for a price."""
    left, right = decided(scenario), expected(scenario)
    flaws = differences(left, right)
    if len(left.windows) != len(right.windows):
        flaws.append(f"{len(left.windows)} windows and {len(right.windows)}")
    for one, other in zip(left.windows, right.windows, strict=False):
        same = one.kappa == other.kappa and len(one.scores) == len(other.scores)
        if not same or not all(map(close, one.scores, other.scores)):
            flaws.append(f"window {one.start}: {one.kappa} of {one.scores} and {other.kappa} of {other.scores}")
    return flaws


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_decides_what_the_rules_say(first: int) -> None:
    for seed in range(first, min(first + BLOCK, MARKETS)):
        assert not (lines := wrong(renewal_market(seed))), f"seed {seed}: " + "; ".join(lines)


def test_without_the_settings_the_reference_is_that_of_section_9() -> None:
    for seed in range(24):
        scenario = random_market(seed, "guarantee", backlog=seed % 2 == 1)
        before = simulate(scenario, {"batch": ReferenceAstraea(scenario.policy, scenario.cluster, scenario.jobs)})
        assert not differences(expected(scenario), before), f"seed {seed}"


# -- a comparison that catches nothing would prove nothing: each rule broken once, on purpose --------------------------


def family(name: str, count: int) -> list[Scenario]:
    return [renewal_market(seed) for seed in range(FAMILIES.index(name), 4 * count, 4)]


def only_old(world: AloneWorld) -> dict[int, Any]:
    return world.with_old_drafts() or {}


def first_come(world: AloneWorld) -> dict[int, Any]:
    drafts: dict[int, Any] = {}
    for job in sorted(world.waiting.values(), key=lambda job: (-job.priority, job.arrival, job.number)):
        world.add(job, drafts)
    return drafts


def no_gain(market: RenewalMarket, job: Any, best: Any, sellers: Any) -> list[float]:
    return [0.0 for _ in market.owners]


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("kind", "place", "rule", "broken"),
    [
        ("crowded", AloneWorld, "from_nothing", only_old),
        ("crowded", AloneWorld, "from_nothing", first_come),
        ("crowded", AloneWorld, "with_old_drafts", lambda world: None),
        ("crowded", RenewalMarket, "gain_parts", no_gain),
        ("backlog", RenewalMarket, "sold_to", lambda market, job, booking, need: None),
        ("crowded", reference_renewal, "KAPPAS", (0, 0.03, 0.06, 0.1, 0.15, 0.22, 0.33, 0.5, 0.75, 1.1, 1.6, 2.5)),
    ],
    ids=["never anew", "order of density", "always anew", "dividend", "scores", "multiples"],
)
def test_a_broken_rule_is_caught(
    kind: str, place: Any, rule: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, rule, broken)
    assert any(wrong(scenario) for scenario in family(kind, 16))
