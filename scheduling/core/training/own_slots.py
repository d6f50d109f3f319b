"""What a pool decided, cut into windows of slots: each becomes a scenario that can be played again and run to its end.

A window's jobs are those that waited in it, each from the first slot in which it did and with the work that was left
then, but no more than its most workers do in so many slots: every window so comes to an end that can be awaited, and
two networks are compared about all of its jobs. Windows are set apart by their number, so that the same slots always
serve the same end: of five in a row three are learnt from, one is to choose by, and one judges and does nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduling.core.policies.dl2.files import Network
from scheduling.core.policies.dl2.policy import TEACHER
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.speed import TOLERANCE, minibatches_per_slot
from scheduling.core.training.judging import score, served
from scheduling.core.types import AWARDED, BATCH, Job, View

WINDOW = 10  # slots
LONGEST = 20  # slots that a job of a window takes at its most workers, at most
DRAIN = 1_000  # slots after a window, in which what it left goes on to its end
LEARN, CHOOSE, JUDGE = "learn", "choose", "judge"
ENDS = (LEARN, LEARN, LEARN, CHOOSE, JUDGE)  # of windows, by their number


def end_of(window: int) -> str:
    """What the slots of a window are for."""
    return ENDS[window % len(ENDS)]


def scenario_of(views: Sequence[View], window: int) -> Scenario | None:
    """The window as a scenario, from its views in order; None where nobody waited in it. Machines are those of its
    first slot."""
    jobs: dict[int, Job] = {}
    for view in views:
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            if job.number not in jobs:
                jobs[job.number] = _rest(job, remaining, view.slot - window * WINDOW, view.cluster.slot_seconds)
    if not jobs:
        return None
    numbered = tuple(replace(job, number=number) for number, job in enumerate(jobs.values()))
    return Scenario(views[0].cluster, numbered, WINDOW + DRAIN, {"name": TEACHER})


def _rest(job: Job, remaining: float, slot: int, slot_seconds: float) -> Job:
    """The job with what is left of it, as if it arrived for this slot."""
    speed = minibatches_per_slot(job, 0, 0, slot_seconds, centralized=False)
    remaining = min(remaining, LONGEST * job.max_workers * speed)
    job = replace(job, arrival=float(slot), lane=BATCH, together=None)
    if remaining >= job.work * (1.0 - TOLERANCE):
        return job
    return replace(job, epochs=1, minibatches=max(1, math.ceil(remaining / job.chunks)))


@dataclass(frozen=True)
class ScenarioTrial:
    """A network on one scenario: mean completion in slots, mean reward of a slot, and how many of the jobs ended."""

    completion: float
    reward: float
    ended: int
    jobs: int


def trial(network: Network, scenario: Scenario) -> ScenarioTrial:
    """Run it to the end, as it would be served."""
    outcome = simulate(scenario, {BATCH: served(network)})
    figures = score(scenario, outcome)
    ended = sum(track.state == AWARDED for track in outcome.tracks)
    return ScenarioTrial(figures.completion, figures.reward, ended, len(outcome.tracks))
