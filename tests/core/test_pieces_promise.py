"""What the rules of pieces (D) promise, on random markets: nobody is below alone, and what `piece_promises` lists.

PIECE_PROMISES sets how many markets are tried; PIECE_PROMISES_OF which implementation is put to the test.
"""

from __future__ import annotations

import os
from functools import lru_cache

import pytest

from scheduling.core.scenario import Scenario
from scheduling.core.types import AWARDED, EXPIRED, OWN, SHARED, WAITING
from tests.core.piece_markets import piece_market, provisional_market
from tests.core.piece_promises import broken
from tests.core.piece_runs import RUNS
from tests.core.reference_pieces import Run

MARKETS = int(os.environ.get("PIECE_PROMISES", "40"))
RUN = RUNS[os.environ.get("PIECE_PROMISES_OF", "policy")]
BLOCK = 20
OTHER_TYPES = 7217  # a job with a part done waits at the end for a plan with other types than its first ones
RING_AT_HOME = 6568  # a gang without parameter servers on own cells that do not begin with the first server


@lru_cache(maxsize=40)
def outcome(seed: int) -> tuple[Scenario, Run]:
    scenario = piece_market(seed)
    return scenario, RUN(scenario)


@lru_cache(maxsize=40)
def provisional(seed: int) -> tuple[Scenario, Run]:
    scenario = provisional_market(seed)
    return scenario, RUN(scenario)


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_every_promise_is_kept(first: int) -> None:
    for seed in (*((OTHER_TYPES, RING_AT_HOME) if first == 0 else ()), *range(first, min(first + BLOCK, MARKETS))):
        lines = broken(*outcome(seed))
        assert not lines, f"seed {seed}: " + "; ".join(lines)


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_every_promise_is_kept_where_parts_are_worth_nothing(first: int) -> None:
    for seed in range(first, min(first + BLOCK, MARKETS)):
        lines = broken(*provisional(seed))
        assert not lines, f"seed {seed}: " + "; ".join(lines)


def test_parts_that_are_worth_nothing_are_put_to_the_test() -> None:
    """Guests are done and pay, or expire or wait with a part done and have all of it back; owners are settled, too."""
    counts = dict.fromkeys(("done", "expired", "waiting", "of owners", "dropped alone"), 0)
    for seed in range(40):
        scenario, run = provisional(seed)
        cells = scenario.cluster.cells
        assert cells is not None
        for state in run.states:
            cost, guest = sum(booking.paid for booking in state.bookings), not cells[:, state.job.tenant].any()
            if not state.job.divisible or cost == 0 or state.alone is None:
                continue
            counts["of owners"] += not guest
            counts["dropped alone"] += not guest and state.alone == 0
            counts["done"] += guest and state.state == AWARDED
            counts["expired"] += state.state == EXPIRED
            counts["waiting"] += state.state == WAITING
    assert min(counts.values()) >= 2, counts


def test_the_markets_put_the_promises_to_the_test() -> None:
    """Parts are bought by owners and by guests, three and more of one job; runs at home are shortened; some jobs expire
    with a part done, some are left waiting with one; some have a part of their payment back."""
    counts = dict.fromkeys(("parts", "of guests", "three and more", "shortened", "expired", "waiting", "settled"), 0)
    for seed in range(40):
        scenario, run = outcome(seed)
        cells = scenario.cluster.cells
        assert cells is not None
        for state in run.states:
            rented = [booking for booking in state.bookings if booking.phase == SHARED]
            unfinished = [booking for booking in rented if booking.work < state.job.work]
            counts["parts"] += len(unfinished)
            counts["of guests"] += len(unfinished) if not cells[:, state.job.tenant].any() else 0
            counts["three and more"] += len(rented) >= 3
            counts["shortened"] += bool(rented) and any(booking.phase == OWN for booking in state.bookings)
            counts["expired"] += bool(rented) and state.state == EXPIRED
            counts["waiting"] += bool(rented) and state.state == WAITING
            counts["settled"] += state.alone is not None
    assert min(counts.values()) >= 2, counts
    assert min(counts["parts"], counts["of guests"], counts["settled"]) >= 10, counts
