"""Compute what one interval would have given if one job had reported something else about itself.

Values are frozen: whatever the job reported instead, a run has its real value, which is that of the real job. A run
that is too short for the real work, or too small for the real demand, is worth nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.metrics.certificates import realised
from scheduling.core.speed import across_seconds, ceiling, exchange_seconds, slowed_exchange
from scheduling.core.types import AWARDED, CENTRALIZED, WAITING, Booking, FloatArray, Job, Plan, UnitType, View

ABSENT = "absent"  # the job had not arrived yet


@dataclass(frozen=True)
class JobOutcome:
    """What the interval gave to a job. `value` and `floor` are frozen; the floor is that of a job that continues to
    wait."""

    state: str
    reason: str = ""
    phase: str = ""
    start: int | None = None
    end: int | None = None
    workers: int = 0
    ps: int = 0
    paid: float = 0.0
    value: float = 0.0
    floor: float = 0.0


@dataclass(frozen=True, eq=False)
class PlanOutcome:
    """The outcome of a whole plan: an outcome for each job that waited, and credits (owners,).

    `gains` are those of R23 in this interval: values less payments plus all that is received. `promised` are the floors
    of jobs that continue to wait, which a later interval owes.
    """

    outcomes: Mapping[int, JobOutcome]
    gains: FloatArray
    promised: FloatArray
    prices: FloatArray  # (resources,) the highest posted price in the windows


def supposed(view: View, statement: Job) -> View:
    """Return the view as it would be if the waiting job with the statement's number had reported the statement."""
    others = [(job, float(rest)) for job, rest in zip(view.waiting, view.remaining, strict=True)]
    rows = [(job, rest) for job, rest in others if job.number != statement.number]
    if statement.first_slot <= view.slot:
        rows = sorted([*rows, (statement, float(statement.work))], key=lambda row: (row[0].arrival, row[0].number))
    return replace(
        view,
        waiting=tuple(job for job, _ in rows),
        remaining=np.array([rest for _, rest in rows]),
        jobs={**view.jobs, statement.number: statement},
    )


def plan_outcome(view: View, plan: Plan, statement: Job | None = None) -> PlanOutcome:
    """Return what `plan` gives to the jobs of `view`, which are the real ones. `statement` is what one of them reported
    instead when the plan was made."""
    owners, seconds = len(view.cluster.owners), view.cluster.slot_seconds
    outcomes = {job.number: JobOutcome(ABSENT) for job in view.waiting}
    gains, promised = np.zeros(owners), np.zeros(owners)
    for booking in plan.bookings:
        job = view.jobs[booking.job]
        claim = statement if statement is not None and statement.number == job.number else job
        value = worth(job, claim, booking, seconds)
        outcomes[job.number] = _awarded(booking, value)
        gains[job.tenant] += value - booking.paid
        gains += 0.0 if booking.payouts is None else booking.payouts
    floors = {**view.floors, **{floor.job: floor for floor in plan.floors}}
    for refusal in plan.refusals:
        job, floor = view.jobs[refusal.job], floors.get(refusal.job)
        waits = refusal.state == WAITING and floor is not None and floor.value > 0
        own = float(job.value(floor.end - job.arrival)) if waits and floor is not None else 0.0
        outcomes[job.number] = JobOutcome(refusal.state, refusal.reason.code, floor=own)
        promised[job.tenant] += own
    tops = [window.prices.max(axis=1) for window in plan.windows if window.prices.size]
    prices = np.max(tops, axis=0) if tops else np.zeros(len(view.cluster.resources))
    return PlanOutcome(outcomes, gains, promised, prices)


def _awarded(booking: Booking, value: float) -> JobOutcome:
    return JobOutcome(
        AWARDED,
        "",
        booking.phase or "",
        booking.start,
        booking.end,
        booking.workers,
        booking.ps,
        booking.paid,
        value,
    )


def worth(real: Job, job: Job, booking: Booking, slot_seconds: float) -> float:
    """Return f(end - arrival) of the real job, run as it was booked for the reported `job`; 0 if that booking does not
    complete it."""
    if job is real:
        return realised(real, booking)
    worker = _real_type(real.worker_types, job.worker_types, booking.worker_type)
    ps = _real_type(real.ps_types, job.ps_types, booking.ps_type)
    workers = min(booking.workers, real.max_workers)
    if worker is None or ps is None or workers < real.min_workers:
        return 0.0
    seconds = worker.seconds + ps.seconds
    if booking.placement != CENTRALIZED and ps.absent:
        seconds += across_seconds(real, worker, len({row.server for row in booking.allocation}))
    elif booking.placement != CENTRALIZED:
        seconds += exchange_seconds(real.gradient_mb, worker.mbps) * _slowed(booking, worker, ps)
    slots = max(1, ceiling(real.work * seconds / (slot_seconds * workers)))
    if slots > booking.end - booking.start:
        return 0.0
    return float(real.value(booking.start + slots - real.arrival))


def _real_type(real: tuple[UnitType, ...], statement: tuple[UnitType, ...], booked: int) -> UnitType | None:
    """Return the real type that runs on the booked units: the one with the booked number if it fits into them, or else
    the quickest one that fits; None if none fits."""
    fitting = [unit for unit in real if np.all(unit.demand <= statement[booked].demand + 1e-9)]
    if booked < len(real) and real[booked] in fitting:
        return real[booked]
    return min(fitting, key=lambda unit: unit.seconds, default=None)


def _slowed(booking: Booking, worker: UnitType, ps: UnitType) -> float:
    """Return how many times longer the exchange takes. Workers on the same server as parameter servers need none of
    their bandwidth (R9)."""
    beside = sum(row.workers for row in booking.allocation if row.ps)
    return slowed_exchange(booking.workers - beside, booking.ps, worker.mbps, ps.mbps)
