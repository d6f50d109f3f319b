"""Run a scenario in one loop for every policy: have it decide at each slot boundary, check its plan, and apply it.

One loop is enough because `remaining` counts work not yet *booked*. A booking for a job's whole life makes it
zero and the job no longer waits; a booking for one slot leaves it waiting for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from scheduling.core.calendar import Shared, Single
from scheduling.core.collector import collector_resting
from scheduling.core.parts import parts_of
from scheduling.core.scenario import Scenario
from scheduling.core.speed import TOLERANCE
from scheduling.core.types import (
    AWARDED,
    INSTANT,
    SHARED,
    WAITING,
    Booking,
    Floor,
    Job,
    Plan,
    Policy,
    Reason,
    Refusal,
    Settlement,
    SettlesAtTheEnd,
    View,
    Window,
)


class PlanRejected(ValueError):
    """A policy's plan contains something that no plan may contain."""


@dataclass
class Track:
    """The history of one job so far."""

    job: Job
    state: str = WAITING
    reason: Reason | None = None
    bookings: list[Booking] = field(default_factory=list)
    floor: Floor | None = None
    settlement: Settlement | None = None  # of its rent, if that was open
    worth: float = 0.0  # credits that the done part is worth to its owner, as long as the job is not finished


@dataclass(frozen=True)
class Outcome:
    """A whole run: every job's track in order of submission, the published windows, the number of decisions, and the
    memory of each lane's policy at the end."""

    tracks: tuple[Track, ...]
    windows: tuple[Window, ...]
    decisions: int
    memory: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


class _Lane:
    """The jobs of one lane, those to come and those waiting, and what its policy is given again in the next view."""

    def __init__(self, name: str, policy: Policy, jobs: list[Job], scenario: Scenario) -> None:
        self.name = name
        self.policy = policy
        self.coming = sorted(jobs, key=lambda job: (job.arrival, job.number), reverse=True)
        self.waiting: dict[int, Job] = {}
        self.remaining: dict[int, float] = {}
        self.memory: Mapping[str, object] = {}
        self.active: list[Booking] = []
        self.paid: dict[int, float] = {}  # credits, by job that waits for more
        self.open_rents: dict[int, list[Booking]] = {}
        self.worths: dict[int, float] = {}  # by job that was begun and waits, if a worth is stored
        self.spent = np.zeros(len(scenario.cluster.tenants))  # for each lane, since an instant purchase is no rent

    def admit(self, slot: int) -> None:
        """Let the jobs that may run in this slot begin to wait."""
        while self.coming and self.coming[-1].first_slot <= slot:
            job = self.coming.pop()
            self.waiting[job.number] = job
            self.remaining[job.number] = float(job.work)

    def drop(self, number: int) -> None:
        """Remove a job that waits no longer."""
        del self.waiting[number], self.remaining[number]
        self.paid.pop(number, None)
        self.worths.pop(number, None)


class Simulation:
    """A run in progress. `policies` maps a lane to its policy; a single policy takes the jobs of every lane."""

    def __init__(self, scenario: Scenario, policies: Mapping[str, Policy]) -> None:
        self.scenario = scenario
        self.jobs = {job.number: job for job in scenario.jobs}
        self.tracks = {job.number: Track(job) for job in scenario.jobs}
        self.lanes = [
            _Lane(lane, policy, [job for job in scenario.jobs if len(policies) == 1 or job.lane == lane], scenario)
            for lane, policy in sorted(policies.items())  # the batch lane decides first
        ]
        self.calendar = Single(scenario.cluster) if len(policies) == 1 else Shared(parts_of(scenario.cluster))
        for part in scenario.preload:
            self.calendar.take(part.resource, part.slot, part.server, part.amount)
        self.windows: list[Window] = []
        self.floors: dict[int, Floor] = {}
        self.floors_kept = 64
        self.decisions = 0

    def run(self, on_slot: Callable[[int, int], None] | None = None) -> Outcome:
        """Decide at every slot that matters. `on_slot(jobs settled, jobs)` is called after each, to report progress."""
        slot = 0
        while slot < self.scenario.slots and (next_slot := self._next_slot(slot)) is not None:
            slot = next_slot
            if slot >= self.scenario.slots:
                break
            self._forget_before(slot)
            for lane in self.lanes:
                lane.admit(slot)
                for waiting in self._questions(lane):
                    self._apply(lane, slot, lane.policy.decide(self._view(lane, slot, waiting)))
            if on_slot is not None:
                open_jobs = sum(len(lane.waiting) + len(lane.coming) for lane in self.lanes)
                on_slot(len(self.tracks) - open_jobs, len(self.tracks))
            slot += 1
        self._cut()
        memory = {lane.name: lane.memory for lane in self.lanes}
        return Outcome(tuple(self.tracks.values()), tuple(self.windows), self.decisions, memory)

    def _next_slot(self, slot: int) -> int | None:
        """Return the slot itself while a job waits or a rent is open (K5), else that of the next arrival; None when
        there is nothing left to do."""
        if any(lane.waiting or lane.open_rents for lane in self.lanes):
            return slot
        coming = [lane.coming[-1].first_slot for lane in self.lanes if lane.coming]
        if not coming:
            return None
        return max(slot, min(coming)) if len(self.lanes) == 1 else slot

    def _questions(self, lane: _Lane) -> list[tuple[Job, ...]]:
        """Return the waiting jobs of each decision of a lane in a slot. With a single lane there is at most one. With
        two lanes the batch lane decides in every slot, and the instant lane decides one job after the other, each in
        the market that the one before has left."""
        waiting = tuple(lane.waiting.values())
        if len(self.lanes) > 1:
            return [(job,) for job in waiting] if lane.name == INSTANT else [waiting]
        return [waiting] if waiting or lane.open_rents else []

    def _forget_before(self, slot: int) -> None:
        self.calendar.forget_before(slot)
        for lane in self.lanes:
            lane.active = [booking for booking in lane.active if booking.end > slot]
        if len(self.floors) > self.floors_kept:  # searched only once they have doubled, which is cheap in long runs
            self.floors = {
                number: floor
                for number, floor in self.floors.items()
                if floor.end > slot or floor.draft or self.tracks[number].state == WAITING
            }
            self.floors_kept = 2 * len(self.floors) + 64

    def _view(self, lane: _Lane, slot: int, waiting: tuple[Job, ...]) -> View:
        self.decisions += 1
        stage = self.calendar.stage(lane.name, slot)
        own_idle = None
        if isinstance(self.calendar, Shared) and lane.name == INSTANT:
            own_idle = self.calendar.own_idle(waiting[0].tenant, slot)
        return View(
            slot=slot,
            horizon=self.scenario.slots,
            cluster=stage.cluster,
            waiting=waiting,
            remaining=np.fromiter((lane.remaining[job.number] for job in waiting), np.float64, len(waiting)),
            occupied=stage.occupied,
            active=tuple(lane.active),
            jobs=self.jobs,
            floors=self.floors,
            windows=stage.windows,
            tail=stage.tail,
            spent=lane.spent,
            paid=lane.paid,
            memory=lane.memory,
            open_rents=tuple(rent for rents in lane.open_rents.values() for rent in rents),
            worths=lane.worths,
            own_idle=own_idle,
        )

    def _apply(self, lane: _Lane, slot: int, plan: Plan) -> None:
        for floor in plan.floors:
            self.floors[floor.job] = self.tracks[floor.job].floor = floor
        jobs = [_bookable_job(lane, slot, booking) for booking in plan.bookings]
        for job, placed in zip(jobs, self.calendar.place_all(lane.name, jobs, plan.bookings), strict=True):
            self._book(lane, slot, job, placed)
        for refusal in plan.refusals:
            self._refuse(lane, refusal)
        for settlement in plan.settlements:
            self._settle(lane, settlement)
        for number, worth in plan.worths.items():
            self._store(lane, number, worth)
        self.calendar.publish(lane.name, slot, plan)
        self.windows.extend(plan.windows)
        if plan.memory is not None:
            lane.memory = plan.memory

    def _book(self, lane: _Lane, slot: int, job: Job, booking: Booking) -> None:
        if job.number not in lane.waiting:
            raise PlanRejected(f"slot {slot}: job {job.number} is done with an earlier booking of the plan")
        lane.active.append(booking)
        lane.spent[job.tenant] += booking.paid
        if booking.paid:
            lane.paid[job.number] = lane.paid.get(job.number, 0.0) + booking.paid
        track = self.tracks[job.number]
        track.bookings.append(_totals(booking))
        drafted = booking.phase == SHARED and track.floor is not None and track.floor.draft
        if drafted or booking.provisional:
            lane.open_rents.setdefault(job.number, []).append(track.bookings[-1])
        lane.remaining[job.number] -= booking.work
        if lane.remaining[job.number] <= TOLERANCE * job.work:
            track.state, track.reason = AWARDED, None
            lane.drop(job.number)

    def _settle(self, lane: _Lane, settlement: Settlement) -> None:
        """End an open rent; the job's owner may spend again what it gets back (K4)."""
        rents = lane.open_rents.pop(settlement.job, None)
        if rents is None or not 0 <= settlement.refund <= sum(rent.paid for rent in rents) * (1 + TOLERANCE):
            raise PlanRejected(f"job {settlement.job} has no open rent of {settlement.refund:g} credits or more")
        track = self.tracks[settlement.job]
        track.settlement = settlement
        lane.spent[track.job.tenant] -= settlement.refund
        if settlement.job in lane.paid:
            lane.paid[settlement.job] -= settlement.refund

    def _store(self, lane: _Lane, number: int, worth: float | None) -> None:
        """Store what the done part of a job that was begun is worth to its owner from now on, in credits; None removes
        a stored worth, for then the job's plan determines it."""
        self.tracks[number].worth = worth or 0.0
        if worth is None or number not in lane.waiting:
            lane.worths.pop(number, None)
        else:
            lane.worths[number] = worth

    def _cut(self) -> None:
        """Apply what the policies settle when the run has ended."""
        slot = self.scenario.slots
        for lane in self.lanes:
            waiting = tuple(lane.waiting.values())
            if isinstance(lane.policy, SettlesAtTheEnd) and (lane.open_rents or any(job.divisible for job in waiting)):
                self.calendar.forget_before(slot)
                plan = lane.policy.at_the_end(self._view(lane, slot, waiting))
                self._apply(lane, slot, plan)

    def _refuse(self, lane: _Lane, refusal: Refusal) -> None:
        if refusal.job not in lane.waiting:
            raise PlanRejected(f"job {refusal.job} is refused but does not wait")
        track = self.tracks[refusal.job]
        track.state, track.reason = refusal.state, refusal.reason
        if refusal.state != WAITING:
            lane.drop(refusal.job)


def _bookable_job(lane: _Lane, slot: int, booking: Booking) -> Job:
    """Return the job that is booked; raise `PlanRejected` if no policy may book it in this way."""
    job = lane.waiting.get(booking.job)
    if job is None or booking.start < slot:
        raise PlanRejected(f"slot {slot}: job {booking.job} does not wait, or would start in the past")
    start, end = booking.start, booking.end
    for row in booking.allocation:
        if not start <= row.start < row.end <= end:
            raise PlanRejected(f"slot {slot}: job {booking.job} is given units outside its booking")
    return job


def _totals(booking: Booking) -> Booking:
    """Return the booking without its payouts by slot, which would fill the memory in a long run."""
    return booking if booking.slot_payouts is None else replace(booking, slot_payouts=None, split=None)


def simulate(
    scenario: Scenario, policies: Mapping[str, Policy], on_slot: Callable[[int, int], None] | None = None
) -> Outcome:
    """Run a scenario to its end under one policy, or one for each lane."""
    with collector_resting():  # each job's track, booking and rows all stay in memory to the end
        return Simulation(scenario, policies).run(on_slot)
