"""What a slot is worth by its plan, and when a network is no longer trusted with it.

The reward of a slot is the sum over jobs of the part of their work that is trained in it. The guard compares it with
what the teacher would have had in the same place; a network that falls behind by half three times in a row has lost
its post, and the teacher decides from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduling.core.types import Booking, Plan, View

POOR, PATIENCE = 0.5, 3  # of the teacher's reward; slots in a row


def reward(plan: Plan, view: View) -> float:
    """The coming slot's part of all the plan books."""
    jobs = {job.number: job for job in view.waiting}
    now = (booking for booking in plan.bookings if booking.start <= view.slot)
    return sum(booking.work / (booking.end - booking.start) / jobs[booking.job].work for booking in now)


@dataclass(frozen=True)
class Memory:
    """What the policy's last plan remembers: slots that jobs ran, the teacher's own memory, and how the network did."""

    ran: Mapping[str, int] = field(default_factory=dict)
    teacher: Mapping[str, Any] = field(default_factory=dict)
    poor: int = 0  # slots in a row
    guard: Mapping[str, Any] | None = None  # why the teacher decides, and since which slot
    shadow: Mapping[str, Any] | None = None  # what the network would have done in this slot
    since: int | None = None  # from which slot on the network serves, where it took another one's place

    @classmethod
    def read(cls, memory: Mapping[str, Any]) -> Memory:
        """From the view."""
        return cls(**memory) if memory else cls()

    def document(self) -> dict[str, Any]:
        """For the plan."""
        document = {
            "ran": dict(self.ran),
            "teacher": dict(self.teacher),
            "poor": self.poor,
            "guard": None if self.guard is None else dict(self.guard),
            "shadow": None if self.shadow is None else dict(self.shadow),
        }
        return document if self.since is None else document | {"since": self.since}

    def under(self, since: int | None) -> Memory:
        """As a network remembers that serves since this slot: what was held against the one before it is forgotten."""
        return self if since == self.since else replace(self, poor=0, guard=None, shadow=None, since=since)

    def after(self, plan: Plan, view: View) -> Memory:
        """With the slot counted for those that run in it; who waits no more is forgotten."""
        running = {booking.job for booking in plan.bookings}
        ran = {
            str(job.number): count
            for job in view.waiting
            if (count := self.ran.get(str(job.number), 0) + (job.number in running))
        }
        return replace(self, ran=ran)

    def judged(self, slot: int, own: float, teachers: float) -> Memory:
        """After a slot that is worth `own` by the network's plan and `teachers` by the teacher's."""
        poor = self.poor + 1 if own < POOR * teachers else 0
        judged = replace(self, poor=poor)
        if poor < PATIENCE:
            return judged
        return judged.handed_over(slot, "reward_poor", reward=own, teacher_reward=teachers)

    def handed_over(self, slot: int, code: str, **numbers: float) -> Memory:
        """The teacher decides from this slot on."""
        return replace(self, guard={"code": code, "slot": slot, **numbers})


def units(bookings: Sequence[Booking]) -> dict[str, list[int]]:
    """Workers and parameter servers by job, for the record of a shadow."""
    return {str(booking.job): [booking.workers, booking.ps] for booking in bookings}
