"""The guard of the network: the reward of a slot's plan, and when the teacher decides in place of the network.

The reward of a slot is the sum over jobs of the part of their work that is trained in it. The guard compares it with
the reward of the teacher's plan for the same slot. If the network's reward is less than half of the teacher's in three
slots in a row, the teacher decides from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduling.core.types import Booking, Plan, View

POOR, PATIENCE = 0.5, 3  # a reward below this part of the teacher's is poor; how many poor slots in a row are too many


def reward(plan: Plan, view: View) -> float:
    """Return the reward of the coming slot by the plan's bookings."""
    jobs = {job.number: job for job in view.waiting}
    now = (booking for booking in plan.bookings if booking.start <= view.slot)
    return sum(booking.work / (booking.end - booking.start) / jobs[booking.job].work for booking in now)


@dataclass(frozen=True)
class Memory:
    """The memory of the policy: slots that jobs ran, the teacher's own memory, and how the network did."""

    ran: Mapping[str, int] = field(default_factory=dict)  # by job, slots in which it ran
    teacher: Mapping[str, Any] = field(default_factory=dict)
    poor: int = 0  # poor slots in a row
    guard: Mapping[str, Any] | None = None  # why the teacher decides, and since which slot
    shadow: Mapping[str, Any] | None = None  # what the network would have done in this slot
    since: int | None = None  # the first slot in which the network serves, where it replaced another one

    @classmethod
    def read(cls, memory: Mapping[str, Any]) -> Memory:
        """Read the memory from the view's."""
        return cls(**memory) if memory else cls()

    def document(self) -> dict[str, Any]:
        """Return the memory as plain JSON, for the plan."""
        document = {
            "ran": dict(self.ran),
            "teacher": dict(self.teacher),
            "poor": self.poor,
            "guard": None if self.guard is None else dict(self.guard),
            "shadow": None if self.shadow is None else dict(self.shadow),
        }
        return document if self.since is None else document | {"since": self.since}

    def under(self, since: int | None) -> Memory:
        """Return the memory for the network that serves since this slot. If it replaced another one, what is remembered
        against that one is dropped: its poor slots, the guard and the shadow."""
        return self if since == self.since else replace(self, poor=0, guard=None, shadow=None, since=since)

    def after(self, plan: Plan, view: View) -> Memory:
        """Return the memory with the slot counted for the jobs that run in it. Jobs that no longer wait are dropped."""
        running = {booking.job for booking in plan.bookings}
        ran = {
            str(job.number): count
            for job in view.waiting
            if (count := self.ran.get(str(job.number), 0) + (job.number in running))
        }
        return replace(self, ran=ran)

    def judged(self, slot: int, own: float, teachers: float) -> Memory:
        """Return the memory after a slot with reward `own` by the network's plan and `teachers` by the teacher's."""
        poor = self.poor + 1 if own < POOR * teachers else 0
        judged = replace(self, poor=poor)
        if poor < PATIENCE:
            return judged
        return judged.handed_over(slot, "reward_poor", reward=own, teacher_reward=teachers)

    def handed_over(self, slot: int, code: str, **numbers: float) -> Memory:
        """Return the memory by which the teacher decides from this slot on, for the reason `code`."""
        return replace(self, guard={"code": code, "slot": slot, **numbers})


def units(bookings: Sequence[Booking]) -> dict[str, list[int]]:
    """Return the workers and parameter servers by job, for the record of a network in shadow."""
    return {str(booking.job): [booking.workers, booking.ps] for booking in bookings}
