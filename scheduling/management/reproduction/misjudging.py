"""Policies that are told something wrong about the jobs, while the jobs run as they really are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from scheduling.core.scenario import Scenario
from scheduling.core.speed import TOLERANCE, elastic_rate
from scheduling.core.types import CENTRALIZED, Booking, Job, Plan, Policy, View

EPOCHS_SEED = 14


@dataclass(frozen=True, eq=False)
class Misjudged:
    """`policy` believes that each job has as many epochs as `estimates` says, by its number. A job that has done all of
    those and goes on has one more epoch to go, as far as the policy knows. It decides single slots."""

    name: ClassVar[str] = "misjudged"
    policy: Policy
    estimates: Mapping[int, int]

    def decide(self, view: View) -> Plan:
        """What the policy makes of what it believes, with the work that is really done."""
        believed = tuple(replace(job, epochs=self.estimates[job.number]) for job in view.waiting)
        pairs = list(zip(view.waiting, believed, view.remaining.tolist(), strict=True))
        remaining = np.array([_believed(job, other, left) for job, other, left in pairs])
        known = {**view.jobs, **{job.number: job for job in believed}}
        plan = self.policy.decide(replace(view, waiting=believed, remaining=remaining, jobs=known))
        true = {job.number: (job, left) for job, _, left in pairs}
        return replace(plan, bookings=tuple(_true(booking, *true[booking.job], view) for booking in plan.bookings))


def _believed(job: Job, believed: Job, remaining: float) -> float:
    """Mini-batches that seem to be left."""
    return max(believed.work - (job.work - remaining), believed.work / believed.epochs)


def _true(booking: Booking, job: Job, remaining: float, view: View) -> Booking:
    """The slot with the work that the job really does in it."""
    types, seconds = (booking.worker_type, booking.ps_type), view.cluster.slot_seconds
    centralized = booking.placement == CENTRALIZED
    rate = elastic_rate(job, booking.workers, booking.ps, types, seconds, centralized=centralized)
    completes = rate >= remaining - TOLERANCE * job.work
    value = float(job.value(booking.end - job.arrival)) if completes else 0.0
    ideal = float(job.value(booking.end - job.first_slot)) if completes else 0.0
    return replace(booking, work=remaining if completes else rate, value=value, ideal=ideal)


def epochs_error(policy: Policy, scenario: Scenario, error: float) -> Policy:
    """Each job really trains so much more, or less, epochs than the policy is told."""
    dice = np.random.default_rng([EPOCHS_SEED, len(scenario.jobs)])
    off = [1.0 + error if dice.random() < 0.5 else 1.0 - error for _ in scenario.jobs]
    return Misjudged(
        policy, {job.number: max(1, round(job.epochs / by)) for job, by in zip(scenario.jobs, off, strict=True)}
    )


BELIEFS: Mapping[str, Callable[[Policy, Scenario, float], Policy]] = {"epochs_error": epochs_error}
