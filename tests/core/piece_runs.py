"""Both ways to run a scenario with pieces, told alike: by the slow reference and by the policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduling.core.metrics.books import realised
from scheduling.core.policies import build
from scheduling.core.policies.astraea import Astraea
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Track, simulate
from scheduling.core.types import Booking, Plan, View
from tests.core.outcomes import close, schedule
from tests.core.reference_pieces import Run, State, market_run, work_of


class Recorded:
    """Passes every question on, and remembers the boundaries."""

    name = "recorded"

    def __init__(self, policy: Astraea) -> None:
        self.policy = policy
        self.boundaries: list[tuple[int, list[tuple[int, int]]]] = []

    def decide(self, view: View) -> Plan:
        plan = self.policy.decide(view)
        if plan.windows:
            self.boundaries.append((view.slot, [(window.start, window.end) for window in plan.windows]))
        return plan

    def at_the_end(self, view: View) -> Plan:
        return self.policy.at_the_end(view)


def policy_run(scenario: Scenario) -> Run:
    policy = Recorded(build(scenario.policy, scenario.cluster, scenario.jobs))
    outcome = simulate(scenario, {"batch": policy})
    states = [state_of(track) for track in outcome.tracks]
    return Run(states, [realised(track) for track in outcome.tracks], list(outcome.windows), policy.boundaries)


def state_of(track: Track) -> State:
    """What a track says, in the words of the reference."""
    bookings = sorted(track.bookings, key=lambda booking: booking.start)
    done = sum(booking.work for booking in bookings)
    assert done == int(done), track
    state = State(track.job, work_of(track.job) - int(done), bookings=bookings, floor=track.floor, state=track.state)
    if track.reason is not None:
        state.code = track.reason.code
    state.paid = sum(booking.paid for booking in bookings)
    if any(booking.payouts is not None for booking in bookings):
        state.payouts = sum(b.payouts for b in bookings if b.payouts is not None).tolist()
    if track.settlement is not None:
        state.alone, state.refund = track.settlement.alone, track.settlement.refund
        state.reversal = track.settlement.reversal.tolist()
        state.paid -= state.refund
    return state


RUNS: dict[str, Callable[[Scenario], Run]] = {"reference": market_run, "policy": policy_run}

AMOUNTS = ("value", "ideal", "floor", "cost", "paid", "dividend")


def differences(mine: Run, theirs: Run) -> list[str]:
    """One line for each job that did not fare alike, and for each window of another price."""
    lines = []
    for one, other, worth, their_worth in zip(mine.states, theirs.states, mine.worths, theirs.worths, strict=True):
        if line := unlike(one, other):
            lines.append(f"{one.job.name}: {line}")
        elif not close(worth, their_worth):
            lines.append(f"{one.job.name}: worth {worth} and {their_worth}")
    if len(mine.windows) != len(theirs.windows):
        lines.append(f"{len(mine.windows)} windows and {len(theirs.windows)}")
    for left, right in zip(mine.windows, theirs.windows, strict=False):
        same = left.kappa == right.kappa and len(left.scores) == len(right.scores)
        if not same or not all(map(close, left.scores, right.scores)) or not np.allclose(left.prices, right.prices):
            lines.append(f"window {left.start}: {left.kappa} of {left.scores}, {right.kappa} of {right.scores}")
    return lines


def unlike(one: State, other: State) -> str | None:
    if one.state != other.state:
        return f"{one.state} ({one.code}) and {other.state} ({other.code})"
    if one.state in ("rejected", "expired") and one.code != other.code:
        return f"{one.code} and {other.code}"
    for name in ("value", "start", "end", "draft"):
        if not close(getattr(one.floor, name, -1.0), getattr(other.floor, name, -1.0)):
            return f"floor {one.floor} and {other.floor}"
    if len(one.bookings) != len(other.bookings):
        return f"{len(one.bookings)} bookings and {len(other.bookings)}"
    for left, right in zip(sorted(one.bookings, key=start), sorted(other.bookings, key=start), strict=True):
        if schedule(left) != schedule(right):
            return f"{schedule(left)} and {schedule(right)}"
        for name in AMOUNTS:
            if not close(getattr(left, name), getattr(right, name)):
                return f"{name} {getattr(left, name)} and {getattr(right, name)} of {schedule(left)}"
    for name in ("paid", "refund"):
        if not close(getattr(one, name), getattr(other, name)):
            return f"{name} {getattr(one, name)} and {getattr(other, name)}"
    for name in ("payouts", "reversal"):
        left_parts, right_parts = getattr(one, name), getattr(other, name)
        if not all(map(close, left_parts or [0.0] * len(right_parts), right_parts or [0.0] * len(left_parts))):
            return f"{name} {left_parts} and {right_parts}"
    if one.refund > 0 and not close(one.alone or 0.0, other.alone or 0.0):
        return f"alone {one.alone} and {other.alone}"
    return None


def start(booking: Booking) -> int:
    return booking.start
