"""The policy decides exactly what the slow reference decides, on random tiny markets, ties included.

Seeds come in blocks so that test processes can share them. MARKETS sets how many markets of each kind are tried.
"""

from __future__ import annotations

import os

import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from tests.core.outcomes import differences
from tests.core.random_markets import random_market
from tests.core.reference_astraea import ReferenceAstraea

MARKETS = int(os.environ.get("MARKETS", "1200"))
BLOCK = 50


def decided(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)})


def expected(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": ReferenceAstraea(scenario.policy, scenario.cluster, scenario.jobs)})


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
@pytest.mark.parametrize("mode", ["paper", "guarantee"])
@pytest.mark.parametrize("backlog", [False, True], ids=["mixed", "backlog"])
def test_decides_what_the_rules_say(mode: str, backlog: bool, first: int) -> None:
    for seed in range(first, min(first + BLOCK, MARKETS)):
        scenario = random_market(seed, mode, backlog=backlog)
        wrong = differences(decided(scenario), expected(scenario))
        assert not wrong, f"seed {seed}: " + "; ".join(wrong)
