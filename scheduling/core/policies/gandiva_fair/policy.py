"""Gandiva_fair: tenants share the workers of the whole cluster by tickets, slot by slot, in whole gangs.

A tenant's tickets are the part that it owns of the resources that workers take. In every slot the active tenants are
entitled to their weighted max-min share of the workers: what one does not ask for goes to the others, free. A tenant's
pass is the workers that it received, less those that it was entitled to, by ticket. The tenant with the smallest pass
is next with one of its jobs. A job gets its whole gang or nothing, so passes drift apart within a slot and come
together over many slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduling.core.empty import EmptyCluster
from scheduling.core.gangs import workers_asked
from scheduling.core.policies.gandiva_fair.placing import FirstFit
from scheduling.core.policies.gandiva_fair.turns import (
    JobTurn,
    Past,
    TenantQueue,
    entitle,
    level_passes,
    places_of,
    single_gangs,
    tickets_of,
    turns_of,
)
from scheduling.core.scenario.fields import Section, whole_or_range
from scheduling.core.slot_bookings import slot_booking
from scheduling.core.speed import TOLERANCE
from scheduling.core.types import REJECTED, Booking, Cluster, Job, Plan, Reason, Refusal, View

MOST_LOST = 0.9  # the most of a slot that a move can cost, however long it takes


@dataclass(frozen=True)
class GandivaFair:
    """The policy. `workers` as in FIFO: a number, or the range from which each job draws its own with the seed.
    `within` decides which of a tenant's jobs is first. A job that resumes or moves loses `restart` seconds of the
    slot."""

    name: ClassVar[str] = "gandiva_fair"
    workers: int | tuple[int, int] = (1, 30)
    within: str = "stride"  # the job with the fewest worker-slots so far is first; or "fifo"
    restart: float = 0.0
    seed: int = 1

    def decide(self, view: View) -> Plan:
        """Book one slot for every gang that finds room in its turn."""
        empty = EmptyCluster(view.cluster)
        queues: dict[int, TenantQueue] = {}
        refusals: list[Refusal] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            gangs_wanted = single_gangs(job, workers_asked(job, self.workers, self.seed))
            gang = next((gang for gang in gangs_wanted if empty.holds(job, gang)), None)
            if gang is None:
                refusals.append(Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), REJECTED))
                continue
            name = view.cluster.tenants[job.tenant].name
            queue = queues.setdefault(job.tenant, TenantQueue(job.tenant, name))
            queue.turns.append(JobTurn(job, remaining, gang, Past.of(job, view.memory)))
        tickets = tickets_of(view.cluster, [turn.job for queue in queues.values() for turn in queue.turns])
        entitle(list(queues.values()), tickets, view)
        room = FirstFit(view)
        bookings: list[Booking] = []
        for turn in turns_of(list(queues.values()), self.within):
            turn.placement = room.place(turn, stay=self.restart > 0)
            if turn.placement is None:
                refusals.append(Refusal(turn.job.number, Reason("no_room", {"asked": turn.gang.workers})))
            else:
                bookings.append(self._booking(turn, view))
        level_passes(list(queues.values()))
        memory = {
            "debts": {queue.name: queue.owed for queue in queues.values()},
            "jobs": {str(turn.job.number): turn.memory(view.slot) for queue in queues.values() for turn in queue.turns},
        }
        return Plan(bookings, refusals, memory=memory)

    def _booking(self, turn: JobTurn, view: View) -> Booking:
        """Book the coming slot, less the part of it that a move takes."""
        assert turn.placement is not None  # noqa: S101 - only placed turns are booked
        booking = slot_booking(turn.job, turn.remaining, turn.placement, view)
        past, lost = turn.past, min(MOST_LOST, self.restart / view.cluster.slot_seconds)
        if lost == 0.0 or not past.served:
            return booking
        if past.slot == view.slot - 1 and past.places == places_of(turn.placement):
            return booking
        whole = slot_booking(turn.job, float("inf"), turn.placement, view).work * (1.0 - lost)
        if whole >= turn.remaining - TOLERANCE * turn.job.work:
            return booking
        return replace(booking, work=whole, value=0.0, ideal=0.0)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> GandivaFair:
    """Build Gandiva_fair with the settings of a scenario."""
    section = Section(fields, "policy", ("workers", "within", "restart", "seed"))
    return GandivaFair(
        workers=whole_or_range(section.raw("workers", GandivaFair.workers), "policy.workers"),
        within=section.choice("within", ("stride", "fifo"), GandivaFair.within),
        restart=section.number("restart", GandivaFair.restart, least=0.0),
        seed=section.whole("seed", GandivaFair.seed, least=0),
    )
