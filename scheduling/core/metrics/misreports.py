"""Compute what one interval would have given if one job had reported something else about itself.

Values are frozen: whatever the job reported instead, a run has its real value, which is that of the real job. A run
that is too short for the real work, or too small for the real demand, is worth nothing.

A job that rents in pieces keeps what is done of it, whatever it reports. What an interval gives to it is worth as much
as what is then done of it is worth more than before (D5); where its rest has a place at home, that place is promised,
like the one of any job that waits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scheduling.core.metrics.certificates import realised
from scheduling.core.speed import (
    TOLERANCE,
    across_seconds,
    ceiling,
    exchange_seconds,
    most_servers,
    slowed_exchange,
)
from scheduling.core.types import (
    AWARDED,
    CENTRALIZED,
    DISTRIBUTED,
    SHARED,
    WAITING,
    Booking,
    Cluster,
    FloatArray,
    Floor,
    Job,
    Plan,
    UnitType,
    View,
)

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

    `gains` are those of R23 in this interval: values less payments plus all that is received. Of a job that was begun
    in pieces, only what this interval adds to the worth of what is done is a gain. `promised` are the floors of jobs
    that continue to wait, which a later interval owes.
    """

    outcomes: Mapping[int, JobOutcome]
    gains: FloatArray
    promised: FloatArray
    prices: FloatArray  # (resources,) the highest posted price in the windows


def supposed(view: View, statement: Job) -> View:
    """Return the view as it would be if the waiting job with the statement's number had reported the statement. What is
    done of it is done, whatever it reports."""
    others = [(job, float(rest)) for job, rest in zip(view.waiting, view.remaining, strict=True)]
    rows = [(job, rest) for job, rest in others if job.number != statement.number]
    if statement.first_slot <= view.slot:
        done = sum(job.work - rest for job, rest in others if job.number == statement.number)
        rest_of_it = max(float(statement.work) - done, 1.0)
        rows = sorted([*rows, (statement, rest_of_it)], key=lambda row: (row[0].arrival, row[0].number))
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
    floors = {**view.floors, **{floor.job: floor for floor in plan.floors}}
    rests = dict(zip(outcomes, view.remaining.tolist(), strict=True))
    booked: defaultdict[int, list[Booking]] = defaultdict(list)
    for booking in plan.bookings:
        booked[booking.job].append(booking)
    for number, bookings in booked.items():
        job, before = view.jobs[number], 0.0
        claim = statement if statement is not None and statement.number == number else job
        if claim.divisible:
            in_pieces = _InPieces(job, claim, rests[number], _planned(floors.get(number)), view.cluster)
            value = in_pieces.worth(bookings)
            before = 0.0 if in_pieces.home else view.worths.get(number, 0.0)
        else:
            value = worth(job, claim, bookings[-1], seconds)
        outcomes[number] = _awarded(bookings, value)
        gains[job.tenant] += value - before - outcomes[number].paid
        for booking in bookings:
            gains += 0.0 if booking.payouts is None else booking.payouts
    for refusal in plan.refusals:
        if refusal.job in booked:  # of a job that bought a piece, it says why it got no more
            continue
        job, floor = view.jobs[refusal.job], floors.get(refusal.job)
        own = 0.0
        if refusal.state == WAITING and floor is not None and floor.value > 0:
            rest, end = rests[job.number], None
            if rest < job.work:  # what is left of it at home is done sooner (D3)
                end = _InPieces(job, job, rest, _planned(floor), view.cluster).end_at_home(rest)
            own = float(job.value((end or floor.end) - job.arrival))
        outcomes[job.number] = JobOutcome(refusal.state, refusal.reason.code, floor=own)
        promised[job.tenant] += own
    tops = [window.prices.max(axis=1) for window in plan.windows if window.prices.size]
    prices = np.max(tops, axis=0) if tops else np.zeros(len(view.cluster.resources))
    return PlanOutcome(outcomes, gains, promised, prices)


def _planned(floor: Floor | None) -> Floor | None:
    return floor if floor is not None and floor.allocation else None


def _awarded(bookings: Sequence[Booking], value: float) -> JobOutcome:
    """Return the outcome of a job that got these bookings: several where it runs in pieces."""
    first = min(bookings, key=lambda booking: booking.start)
    return JobOutcome(
        AWARDED,
        "",
        SHARED if any(booking.phase == SHARED for booking in bookings) else first.phase or "",
        first.start,
        max(booking.end for booking in bookings),
        max(booking.workers for booking in bookings),
        max(booking.ps for booking in bookings),
        sum(booking.paid for booking in bookings),
        value,
    )


def worth(real: Job, job: Job, booking: Booking, slot_seconds: float) -> float:
    """Return f(end - arrival) of the real job, run as it was booked for the reported `job`; 0 if that booking does not
    complete it."""
    if job is real:
        return realised(real, booking)
    gang = _gang(real, job, booking)
    if gang is None:
        return 0.0
    slots = gang.slots(real.work, slot_seconds)
    if slots > booking.end - booking.start:
        return 0.0
    return float(real.value(booking.start + slots - real.arrival))


class _Gang(NamedTuple):
    """The real job on the units of a booking: how many workers, and the seconds of a mini-batch on one of them."""

    workers: int
    seconds: float

    def slots(self, work: float, slot_seconds: float) -> int:
        """Return the slots that so many mini-batches take."""
        return max(1, ceiling(work * self.seconds / (slot_seconds * self.workers)))

    def work(self, slots: float, slot_seconds: float) -> int:
        """Return the whole mini-batches that are done in so many slots."""
        done = max(slots, 0.0) * slot_seconds * self.workers / self.seconds
        return math.floor(done + TOLERANCE * max(1.0, done))


def _gang(real: Job, job: Job, booking: Booking, servers: int | None = None) -> _Gang | None:
    """Return the real job on what was booked for the reported `job`, or None if it cannot run there. `servers` is the
    number of servers that hold workers, those of the booking if it is None."""
    worker = _real_type(real.worker_types, job.worker_types, booking.worker_type)
    ps = _real_type(real.ps_types, job.ps_types, booking.ps_type)
    workers = min(booking.workers, real.max_workers)
    if worker is None or ps is None or workers < real.min_workers:
        return None
    seconds = worker.seconds + ps.seconds
    if booking.placement != CENTRALIZED and ps.absent:
        seconds += across_seconds(real, worker, servers or len({row.server for row in booking.allocation}))
    elif booking.placement != CENTRALIZED:
        seconds += exchange_seconds(real.gradient_mb, worker.mbps) * _slowed(booking, worker, ps)
    return _Gang(workers, seconds)


@dataclass(frozen=True, eq=False)
class _InPieces:
    """A job that may run in pieces, at a boundary: what it really is, what it claims to be, the mini-batches that are
    really left, and its schedule at home, if there is one."""

    real: Job
    claim: Job
    rest: float
    home: Floor | None
    cluster: Cluster

    def gang_of(self, booking: Booking) -> _Gang | None:
        """Return the real job on what was booked. As it is booked, workers without parameter servers are on as many
        servers as they can be."""
        servers = min(booking.workers, most_servers(self.real, self.cluster))
        return _gang(self.real, self.claim, booking, servers)

    def worth(self, bookings: Sequence[Booking]) -> float:
        """Return what the real job is worth after these bookings: the value of its end where they complete it, else
        that of what is done of it (D5)."""
        real, seconds = self.real, self.cluster.slot_seconds
        in_order = sorted(bookings, key=lambda booking: booking.start)
        last, done = in_order[-1], math.fsum(booking.work for booking in bookings)
        if self.claim is real:  # the policy has said it
            return realised(real, last) if done > self.rest - 0.5 else last.value  # mini-batches are whole
        rest, gang = self.rest, None
        for booking in in_order:
            gang, length = self.gang_of(booking), booking.end - booking.start
            if gang is None:
                continue
            if (slots := gang.slots(rest, seconds)) <= length:
                return float(real.value(booking.start + slots - real.arrival))
            rest -= gang.work(length - real.save_slots, seconds)
        if done > self.claim.work - (real.work - self.rest) - 0.5:  # all that it asked for
            return 0.0
        if self.home is not None:
            end = self.end_at_home(rest)
            return 0.0 if end is None else float(real.value(end - real.arrival))
        if gang is None:
            return 0.0
        end = last.end + gang.slots(rest, seconds)
        return (1.0 - rest / real.work) * max(0.0, float(real.value(end - real.arrival)))

    def end_at_home(self, rest: float) -> int | None:
        """Return the slot at which so many mini-batches are done by the schedule at home; None where that is too short
        for them, or there is none."""
        if self.home is None:
            return None
        gang = self.gang_of(_at_home(self.home))
        if gang is None:
            return None
        end = self.home.start + gang.slots(rest, self.cluster.slot_seconds)
        return end if end <= self.home.end else None


def _at_home(floor: Floor) -> Booking:
    """Return the booking that a schedule at home would become."""
    return Booking(
        job=floor.job,
        start=floor.start,
        end=floor.end,
        allocation=floor.allocation,
        work=0.0,
        workers=sum(row.workers for row in floor.allocation),
        ps=sum(row.ps for row in floor.allocation),
        worker_type=floor.worker_type,
        ps_type=floor.ps_type,
        placement=CENTRALIZED if len(floor.allocation) == 1 else DISTRIBUTED,
    )


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
