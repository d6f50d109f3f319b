"""Judge a policy on scenarios that it was not trained on, by mean completion times and mean rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scheduling.core.policies.dl2.files import Network
from scheduling.core.policies.dl2.policy import Dl2
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import AWARDED, Policy


@dataclass(frozen=True)
class Score:
    """The figures of one run. A job that is not done at the end counts as done then."""

    completion: float  # slots, mean over jobs
    reward: float  # mean over slots from the first arrival to the last completion


def score(scenario: Scenario, outcome: Outcome) -> Score:
    """Return the figures of one run."""
    ends, done = [], 0.0
    for track in outcome.tracks:
        awarded = track.state == AWARDED
        ends.append(max(b.end for b in track.bookings) if awarded else scenario.slots)
        done += sum(b.work for b in track.bookings) / track.job.work
    if not ends:
        return Score(0.0, 0.0)
    first = min(track.job.first_slot for track in outcome.tracks)
    times = [end - track.job.arrival for end, track in zip(ends, outcome.tracks, strict=True)]
    return Score(fmean(times), done / max(max(ends) - first, 1))


def judge(policy: Policy, scenario: Scenario) -> Score:
    """Run a policy once and return the figures of the run."""
    return score(scenario, simulate(scenario, {"batch": policy}))


def served(network: Network) -> Dl2:
    """Return the policy of a network as it would be served, but without the guard that lets a teacher take over."""
    return Dl2(network=network, guard=False)


@dataclass(frozen=True)
class Margin:
    """By which part the second figures are less than the first, over paired runs: the mean, the standard deviation, and
    the number of runs in which they are less."""

    mean: float
    spread: float
    wins: int
    runs: int


def margin(before: Sequence[float], after: Sequence[float]) -> Margin:
    """Return the margin over paired runs; run i of `after` is compared with run i of `before`."""
    parts = [1.0 - new / old if old else 0.0 for old, new in zip(before, after, strict=True)]
    return Margin(fmean(parts), stdev(parts) if len(parts) > 1 else 0.0, sum(part > 0 for part in parts), len(parts))
