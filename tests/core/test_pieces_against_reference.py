"""Long jobs in pieces: the policy decides what the slow reference decides (rules D, on top of K and G).

PIECE_MARKETS sets how many random markets are tried in all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import Floor, Job
from tests.core import reference_pieces
from tests.core.outcomes import differences as unlike_tracks
from tests.core.piece_markets import piece_market, provisional_market
from tests.core.piece_promises import broken
from tests.core.piece_runs import differences, policy_run, state_of
from tests.core.reference_pieces import PiecesMarket, Run, done_in, market_run
from tests.core.reference_renewal import ReferenceRenewal
from tests.core.renewal_markets import renewal_market

MARKETS = int(os.environ.get("PIECE_MARKETS", "24"))
BLOCK = 12
ONCE_UNLIKE = (618, 1172)  # a dividend and a limit leave pieces as long as the same gang would need for all
REFUNDED = (7, 34)  # of the random markets, some in which a part of what was paid comes back


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_decides_what_the_rules_say(first: int) -> None:
    for seed in (*(ONCE_UNLIKE if first == 0 else ()), *range(first, min(first + BLOCK, MARKETS))):
        scenario = piece_market(seed)
        lines = differences(market_run(scenario), policy_run(scenario))
        assert not lines, f"seed {seed}: " + "; ".join(lines)


@pytest.mark.parametrize("first", range(0, MARKETS, BLOCK))
def test_where_parts_are_worth_nothing_it_decides_what_the_rules_say(first: int) -> None:
    for seed in range(first, min(first + BLOCK, MARKETS)):
        scenario = provisional_market(seed)
        lines = differences(market_run(scenario), policy_run(scenario))
        assert not lines, f"seed {seed}: " + "; ".join(lines)


def test_without_divisible_jobs_parts_that_are_worth_nothing_change_nothing() -> None:
    for seed in range(8):
        scenario = renewal_market(seed)
        runs = [policy_tracks(each) for each in (scenario, replace(scenario, policy=nothing(scenario)))]
        assert not unlike_tracks(*runs), f"seed {seed}"


def nothing(scenario: Scenario) -> dict[str, Any]:
    return {**scenario.policy, "parts": "nothing"}


def test_without_divisible_jobs_the_reference_is_that_of_section_10() -> None:
    for seed in range(16):
        scenario = renewal_market(seed)
        policy = ReferenceRenewal(scenario.policy, scenario.cluster, scenario.jobs)
        before = simulate(scenario, {"batch": policy})
        run = market_run(scenario)
        states = [state_of(track) for track in before.tracks]
        lines = differences(run, Run(states, run.worths, list(before.windows), run.boundaries))
        assert not lines, f"seed {seed}: " + "; ".join(lines)


def test_paper_mode_does_not_know_of_pieces() -> None:
    for seed in range(6):
        scenario = piece_market(seed)
        scenario = replace(scenario, policy={"name": "astraea", "mode": "paper"}, preload=())
        whole = replace(scenario, jobs=tuple(replace(job, divisible=False) for job in scenario.jobs))
        runs = [policy_tracks(each) for each in (scenario, whole)]
        assert not unlike_tracks(*runs), f"seed {seed}"


def policy_tracks(scenario: Scenario) -> Outcome:
    return simulate(scenario, {"batch": build(scenario.policy, scenario.cluster, scenario.jobs)})


# -- a comparison and promises that catch nothing would prove nothing: each rule broken once, on purpose ---------------

HOME_BOOKING = PiecesMarket.home_booking
CLOSE = reference_pieces.close


def never_closed(state: reference_pieces.State, alone: float, value: float) -> None:
    state.open = False


def dearer(market: PiecesMarket, value: float, paid: float, standing: float) -> bool:
    return value - paid / 1.3 > max(0.0, standing + 1e-9 * max(1.0, standing))


def nothing_lost(job: Job, slots: int, gang: Any, cluster: Any) -> int:
    return done_in(job, slots, gang, cluster)


def a_slot_later(market: PiecesMarket, job: Job, home: Floor, rest: int) -> Any:
    booking = HOME_BOOKING(market, job, home, rest)
    rows = tuple(replace(row, start=row.start + 1, end=row.end + 1) for row in booking.allocation)
    return replace(booking, start=booking.start + 1, end=booking.end + 1, allocation=rows)


def done_or_not(market: PiecesMarket, state: reference_pieces.State) -> bool:
    return True


def kept_by_who_expires(state: reference_pieces.State, alone: float, value: float) -> None:
    CLOSE(state, alone, value if state.rest == 0 else max(value, state.paid + alone))


@pytest.mark.parametrize(
    ("place", "rule", "mutation"),
    [
        (PiecesMarket, "will_be_done", done_or_not),
        (reference_pieces, "close", kept_by_who_expires),
    ],
    ids=["settled before the end", "nothing back to who is not done"],
)
def test_a_broken_rule_of_parts_that_are_worth_nothing_is_caught(
    place: Any, rule: str, mutation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, rule, mutation)
    unlike, untrue = 0, 0
    for seed in range(30):
        scenario = provisional_market(seed)
        run = market_run(scenario)
        unlike += bool(differences(run, policy_run(scenario)))
        untrue += bool(broken(scenario, run))
        if unlike and untrue:
            return
    raise AssertionError(f"caught {unlike} times by the comparison, {untrue} times by the promises")


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("place", "rule", "mutation"),
    [
        (reference_pieces, "close", never_closed),
        (PiecesMarket, "pays", dearer),
        (reference_pieces, "saved_in", nothing_lost),
        (PiecesMarket, "home_booking", a_slot_later),
    ],
    ids=["no settlement", "a limit of 1.3 times", "a save forgotten", "a home start moved"],
)
def test_a_broken_rule_is_caught_by_the_comparison_and_by_the_promises(
    place: Any, rule: str, mutation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, rule, mutation)
    unlike, untrue = 0, 0
    for seed in (*REFUNDED, *range(10)):
        scenario = piece_market(seed)
        try:
            run = market_run(scenario)
        except AssertionError:  # it has noticed itself that a server would hold more than it has
            unlike, untrue = unlike + 1, untrue + 1
            continue
        unlike += bool(differences(run, policy_run(scenario)))
        untrue += bool(broken(scenario, run))
        if unlike and untrue:
            return
    raise AssertionError(f"caught {unlike} times by the comparison, {untrue} times by the promises")
