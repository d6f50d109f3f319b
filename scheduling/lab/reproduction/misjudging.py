"""Policies that believe something about the jobs that is not true, while the jobs run as they really are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from scheduling.core.estimates.live import LossReports, LossTarget, Running, converged_after, informed
from scheduling.core.scenario import Scenario
from scheduling.core.speed import TOLERANCE, elastic_rate
from scheduling.core.types import CENTRALIZED, Booking, Job, Plan, Policy, View

EPOCHS_SEED, LOSSES_SEED = 14, 31
NOISE = 0.003  # standard deviation of a loss, relative
PATIENCE = 3

Beliefs = Callable[[View], View]


@dataclass(frozen=True, eq=False)
class Misjudged:
    """A policy that decides single slots by the view that `beliefs` make of the true one."""

    name: ClassVar[str] = "misjudged"
    policy: Policy
    beliefs: Beliefs

    def decide(self, view: View) -> Plan:
        """Return what the policy decides by its beliefs, with the work that is really done."""
        plan = self.policy.decide(self.beliefs(view))
        true = {job.number: (job, rest) for job, rest in zip(view.waiting, view.remaining.tolist(), strict=True)}
        return replace(plan, bookings=tuple(_true(booking, *true[booking.job], view) for booking in plan.bookings))


def _true(booking: Booking, job: Job, remaining: float, view: View) -> Booking:
    """Return the slot with the work that the job really does in it."""
    types, seconds = (booking.worker_type, booking.ps_type), view.cluster.slot_seconds
    centralized = booking.placement == CENTRALIZED
    rate = elastic_rate(job, booking.workers, booking.ps, types, seconds, centralized=centralized)
    completes = rate >= remaining - TOLERANCE * job.work
    value = float(job.value(booking.end - job.arrival)) if completes else 0.0
    ideal = float(job.value(booking.end - job.first_slot)) if completes else 0.0
    return replace(booking, work=remaining if completes else rate, value=value, ideal=ideal)


def with_epochs(view: View, epochs: Mapping[int, int]) -> View:
    """Return the view in which each job has the epochs that `epochs` names by its number. A job that has done all of
    them and continues has one more epoch to go, as far as the policy knows."""
    jobs = tuple(replace(job, epochs=epochs[job.number]) for job in view.waiting)
    remaining = [
        max(believed.work - (job.work - rest), believed.work / believed.epochs)
        for job, believed, rest in zip(view.waiting, jobs, view.remaining.tolist(), strict=True)
    ]
    by_number = {**view.jobs, **{job.number: job for job in jobs}}
    return replace(view, waiting=jobs, remaining=np.array(remaining), jobs=by_number)


def epochs_error(policy: Policy, scenario: Scenario, error: float) -> Policy:
    """Let each job really train more, or fewer, epochs by `error` than the policy believes."""
    dice = np.random.default_rng([EPOCHS_SEED, len(scenario.jobs)])
    off = [1.0 + error if dice.random() < 0.5 else 1.0 - error for _ in scenario.jobs]
    estimates = {job.number: max(1, round(job.epochs / by)) for job, by in zip(scenario.jobs, off, strict=True)}
    return Misjudged(policy, lambda view: with_epochs(view, estimates))


def overstated(policy: Policy, scenario: Scenario, times: float) -> Policy:
    """Let every job be declared to have up to `times` times its epochs, each its own number of times."""
    declared = declarations(scenario, times)
    return Misjudged(policy, lambda view: with_epochs(view, declared))


def reported(policy: Policy, scenario: Scenario, times: float) -> Policy:
    """Let the same jobs be submitted until they converge, and report the loss of every epoch."""
    declared = declarations(scenario, times)
    reports = {job.number: losses_of(job) for job in scenario.jobs}

    def beliefs(view: View) -> View:
        running = {}
        for job, rest in zip(view.waiting, view.remaining.tolist(), strict=True):
            done = min(int((job.work - rest) * job.epochs / job.work + TOLERANCE), job.epochs - 1)
            losses, delta = reports[job.number]
            running[job.number] = Running(done, LossTarget(delta, declared[job.number], PATIENCE), LossReports(losses))
        return informed(with_epochs(view, declared), running)

    return Misjudged(policy, beliefs)


def truth(policy: Policy, scenario: Scenario, times: float) -> Policy:
    """Return the policy as it is, which knows the truth."""
    return policy


def declarations(scenario: Scenario, times: float) -> dict[int, int]:
    """Return by job the epochs that it was declared to have: one to `times` times its own."""
    dice = np.random.default_rng([LOSSES_SEED, len(scenario.jobs)])
    return {job.number: round(job.epochs * dice.uniform(1.0, times)) for job in scenario.jobs}


def losses_of(job: Job) -> tuple[tuple[float, ...], float]:
    """Return the losses of a job's epochs, and the delta by which they have converged in the last one and not
    before."""
    dice = np.random.default_rng([LOSSES_SEED, job.number])
    epochs, b0, b2 = np.arange(1, job.epochs + 1), dice.uniform(5.0, 20.0) / job.epochs, dice.uniform(0.05, 0.3)
    noise = NOISE * dice.standard_normal(job.epochs)
    for smaller in 0.5 ** np.arange(12):
        losses = (1.0 / (b0 * epochs + 1.0) + b2) * (1.0 + smaller * noise)
        delta = float(np.abs(np.diff(losses))[-PATIENCE:].max() / losses.max()) * (1.0 + TOLERANCE)
        if converged_after(losses.tolist(), LossTarget(delta, job.epochs, PATIENCE)) == job.epochs:
            break
    return tuple(losses.tolist()), delta


BELIEFS: Mapping[str, Callable[[Policy, Scenario, float], Policy]] = {
    "epochs_error": epochs_error,
    "overstated": overstated,
    "reported": reported,
    "known": truth,
}
