"""Runs at another speed than the one that all policies share (0060): the speeds there are, and how policies run at
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduling.core.speed import TOLERANCE
from scheduling.core.types import Booking, Job, Plan, Policy, View
from scheduling.lab.reproduction import measured, training_modes
from scheduling.lab.reproduction.training_modes import Row

RESTART = 30.0  # seconds of a restart
LONGEST_RESTART = 0.9  # part of a slot

Speed = Callable[[Job, Sequence[Row]], float]  # mini-batches a second of a gang with units in these rows
Held = Mapping[str, Sequence[Sequence[int]]]  # job -> its rows (server, workers, ps)


@dataclass(frozen=True, eq=False)
class AtAnotherSpeed:
    """A policy that decides single slots, while jobs train at `speed`, which may depend on where their units are. A job
    that is resized, moved or resumed loses the time of a checkpoint, under every policy."""

    name: ClassVar[str] = "at_another_speed"
    policy: Policy
    speed: Speed

    def decide(self, view: View) -> Plan:
        """Return the policy's plan with the work that is really done."""
        held: Held = view.memory.get("held", {})
        speeds: Mapping[str, Any] = view.memory.get("asked", {})
        plan = self.policy.decide(replace(view, memory=speeds))
        real, held = at_speed(plan, view, held, self.speed)
        return replace(real, memory={"asked": speeds if plan.memory is None else plan.memory, "held": held})


class OfOneRound:
    """The same for a policy that learns from what is really done: this object keeps what was held in the last slot."""

    def __init__(self, speed: Speed) -> None:
        self.speed = speed
        self.held: Held = {}

    def corrected(self, plan: Plan, view: View) -> Plan:
        real, self.held = at_speed(plan, view, self.held, self.speed)
        return real


def at_speed(plan: Plan, view: View, held: Held, speed: Speed) -> tuple[Plan, Held]:
    """Return the plan with the work that its gangs do in the slot, and what they hold. `held` is what was held in the
    slot before."""
    jobs = {job.number: (job, rest) for job, rest in zip(view.waiting, view.remaining.tolist(), strict=True)}
    rows = {booking.job: _rows(booking) for booking in plan.bookings}
    bookings = [
        _booking(booking, *jobs[booking.job], rows[booking.job], held.get(str(booking.job)), view, speed)
        for booking in plan.bookings
    ]
    now = {str(number): [list(row) for row in each] for number, each in rows.items()}
    return replace(plan, bookings=bookings), now


def _booking(
    booking: Booking,
    job: Job,
    remaining: float,
    rows: Sequence[Row],
    held: Sequence[Sequence[int]] | None,
    view: View,
    speed: Speed,
) -> Booking:
    slot_seconds = view.cluster.slot_seconds
    rate = speed(job, rows) * slot_seconds
    stays = held is not None and [tuple(row) for row in held] == list(rows)
    if remaining < job.work and not stays:
        rate *= 1.0 - min(RESTART / slot_seconds, LONGEST_RESTART)
    completes = rate >= remaining - TOLERANCE * job.work
    value = float(job.value(booking.end - job.arrival)) if completes else 0.0
    ideal = float(job.value(booking.end - job.first_slot)) if completes else 0.0
    return replace(booking, work=remaining if completes else rate, value=value, ideal=ideal)


def _rows(booking: Booking) -> list[Row]:
    return sorted((row.server, row.workers, row.ps) for row in booking.allocation)


SPEEDS: Mapping[str, Speed] = {
    "mode": training_modes.minibatches_per_second,
    "measured": measured.minibatches_per_second,
    "measured by place": measured.by_place,
}
