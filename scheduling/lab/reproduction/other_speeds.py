"""Runs at another speed than the one that all policies share (0060): which there are, and what runs at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduling.core.speed import TOLERANCE
from scheduling.core.types import Booking, Job, Plan, Policy, View
from scheduling.lab.reproduction import measured, training_modes
from scheduling.lab.reproduction.training_modes import Row

RESTART = 30.0  # seconds
LONGEST_RESTART = 0.9  # of a slot

Speed = Callable[[Job, Sequence[Row]], float]  # mini-batches a second of a gang whose units are there


@dataclass(frozen=True, eq=False)
class AtAnotherSpeed:
    """`policy` decides single slots, and jobs train at `speed`, which may look at where their units are. Who is
    resized, moved or goes on loses the time of a checkpoint, under every policy."""

    name: ClassVar[str] = "at_another_speed"
    policy: Policy
    speed: Speed

    def decide(self, view: View) -> Plan:
        """The policy's plan with the work that is really done."""
        held: Mapping[str, Any] = view.memory.get("held", {})
        asked: Mapping[str, Any] = view.memory.get("asked", {})
        plan = self.policy.decide(replace(view, memory=asked))
        known = {job.number: (job, left) for job, left in zip(view.waiting, view.remaining.tolist(), strict=True)}
        rows = {booking.job: _rows(booking) for booking in plan.bookings}
        bookings = [
            self._booking(booking, *known[booking.job], rows[booking.job], held.get(str(booking.job)), view)
            for booking in plan.bookings
        ]
        memory = {
            "asked": asked if plan.memory is None else plan.memory,
            "held": {str(number): [list(row) for row in each] for number, each in rows.items()},
        }
        return replace(plan, bookings=bookings, memory=memory)

    def _booking(
        self,
        booking: Booking,
        job: Job,
        remaining: float,
        rows: Sequence[Row],
        held: Sequence[Sequence[int]] | None,
        view: View,
    ) -> Booking:
        """The slot with the work that the gang does in it."""
        slot_seconds = view.cluster.slot_seconds
        rate = self.speed(job, rows) * slot_seconds
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
