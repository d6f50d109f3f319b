"""Cut a pool's past decisions into windows of slots: each becomes a scenario that can be played again to its end.

A window's jobs are those that waited in it, each from the first slot in which it did and with the work that was left
then, but with no more than its most workers do in `LONGEST` slots. So every window ends within reasonable time, and
two networks are compared by all of its jobs. A window's number determines its purpose, so that the same slots always
serve the same one: of five in a row three are learnt from, one is used to choose a network, and one only to judge it.
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
LONGEST = 20  # the most slots that a job of a window takes with its most workers
DRAIN = 1_000  # slots after a window, in which the jobs that it left run to their end
LEARN, CHOOSE, JUDGE = "learn", "choose", "judge"
ENDS = (LEARN, LEARN, LEARN, CHOOSE, JUDGE)  # the purpose of a window, by its number modulo five


def end_of(window: int) -> str:
    """Return the purpose of a window's slots."""
    return ENDS[window % len(ENDS)]


def scenario_of(views: Sequence[View], window: int) -> Scenario | None:
    """Return the window as a scenario, made of its views in order, or None if no job waited in it. Its machines are
    those of its first slot."""
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
    """Return the job with the work that is left of it, as if it arrived for this slot."""
    speed = minibatches_per_slot(job, 0, 0, slot_seconds, centralized=False)
    remaining = min(remaining, LONGEST * job.max_workers * speed)
    job = replace(job, arrival=float(slot), lane=BATCH, together=None)
    if remaining >= job.work * (1.0 - TOLERANCE):
        return job
    return replace(job, epochs=1, minibatches=max(1, math.ceil(remaining / job.chunks)))


@dataclass(frozen=True)
class ScenarioTrial:
    """The figures of a network on one scenario: mean completion in slots, mean reward of a slot, and how many of the
    jobs ended."""

    completion: float
    reward: float
    ended: int
    jobs: int


def trial(network: Network, scenario: Scenario) -> ScenarioTrial:
    """Run a scenario to its end under a network, as it would be served."""
    outcome = simulate(scenario, {BATCH: served(network)})
    figures = score(scenario, outcome)
    ended = sum(track.state == AWARDED for track in outcome.tracks)
    return ScenarioTrial(figures.completion, figures.reward, ended, len(outcome.tracks))
