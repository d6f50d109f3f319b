"""Dorm: whenever a job comes or goes, the whole cluster is dealt out anew by one integer program.

It uses as much of the cluster as it can, keeps every job near its dominant-resource-fair share, and changes only few
of the running jobs. Between two events every job keeps what it has. Changes are free of charge unless `restart` is set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduling.core.empty import fits_empty
from scheduling.core.gangs import GangUnits, gangs
from scheduling.core.placement import Cursors, Placement
from scheduling.core.policies.dorm.answer import allocation
from scheduling.core.policies.dorm.problem import HeldUnits, JobWish, SharingProblem
from scheduling.core.scenario import Section
from scheduling.core.speed import TOLERANCE
from scheduling.core.types import REJECTED, WAITING, Booking, Cluster, Job, Plan, Reason, Refusal, View

SHORT = "short_room"  # in the memory: the room at the last event, where some was missing and jobs were left out


@dataclass(frozen=True)
class Dorm:
    """The policy. `fairness` bounds the sum of distances from the fair shares, as a part of twice the number of
    resources. `adjustment` is the part of the running jobs that one event may change, rounded up. `restart` is the part
    of a slot that a changed job loses."""

    name: ClassVar[str] = "dorm"
    fairness: float = 0.1
    adjustment: float = 0.1
    restart: float = 0.0

    def decide(self, view: View) -> Plan:
        """Book one slot for every job that holds workers in it."""
        wishes = _wishes(view)
        numbers = list(wishes)
        before = _held(view.memory, numbers)
        allowed = {number: held for number, held in before.items() if wishes[number].allows(held)}
        free = view.cluster.capacity - view.occupied[:, :1].sum(axis=1)
        problem = SharingProblem(view.cluster, free, tuple(wishes.values()), allowed, self.fairness, self.adjustment)
        # Where nothing is held, no job will complete and have the cluster dealt out anew. A job that may no longer have
        # all that it holds, as it cannot pay for it, is an event, too.
        same = bool(before) and view.memory.get("jobs") == numbers and problem.room_for_held()
        same = same and len(allowed) == len(before) and not problem.has_more_than(view.memory.get(SHORT))
        held = before if same else allocation(problem)
        bookings: list[Booking] = []
        refusals: list[Refusal] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            if job.number in held:
                changed = job.number in before and before[job.number] != held[job.number]
                wish, lost = wishes[job.number], self.restart if changed else 0.0
                bookings.append(_booking(job, wish, held[job.number], remaining, lost, view))
            else:
                state = WAITING if job.number in wishes else REJECTED
                refusals.append(Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), state))
        rows = {str(number): [list(row) for row in has.rows] for number, has in held.items()}
        memory: dict[str, Any] = {"jobs": numbers, "held": rows}
        # Servers that come back are an event, too, where jobs were left out as these were missing.
        short = view.memory.get(SHORT) if same else problem.room() if problem.is_short else None
        if short is not None and len(held) < len(wishes):
            memory[SHORT] = short
        return Plan(bookings, refusals, memory=memory)


def _wishes(view: View) -> dict[int, JobWish]:
    """Return the jobs whose least gang an empty cluster holds, each on the first pair of types with which it does."""
    least_gangs: dict[tuple[object, ...], GangUnits | None] = {}
    wishes: dict[int, JobWish] = {}
    for job in view.waiting:
        key = (job.min_workers, job.max_ps, *map(id, job.worker_types), *map(id, job.ps_types))
        if key not in least_gangs:
            least = gangs(job, job.min_workers)
            least_gangs[key] = next((gang for gang in least if fits_empty(job, gang, view.cluster)), None)
        if (gang := least_gangs[key]) is not None:
            wishes[job.number] = JobWish(job, gang.worker_type, gang.ps_type)
    return wishes


def _held(memory: Mapping[str, Any], numbers: Sequence[int]) -> dict[int, HeldUnits]:
    """Return what the jobs that still wait or run held in the last slot."""
    remembered = memory.get("held", {})
    return {
        number: HeldUnits(tuple((row[0], row[1], row[2]) for row in remembered[str(number)]))
        for number in numbers
        if str(number) in remembered
    }


def _booking(job: Job, wish: JobWish, held: HeldUnits, remaining: float, lost: float, view: View) -> Booking:
    """Book the coming slot. Only the booking that completes the job carries the value of the run."""
    gang = GangUnits(held.workers, held.ps, wish.worker_type, wish.ps_type)
    placement = Placement(gang, *held.places(), Cursors())
    rate = placement.rate(job, view.cluster.slot_seconds) * (1.0 - lost)
    end = view.slot + 1
    completes = rate >= remaining - TOLERANCE * job.work
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placement.allocation(view.slot, end),
        work=remaining if completes else rate,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        placement=placement.kind,
        value=float(job.value(end - job.arrival)) if completes else 0.0,
        ideal=float(job.value(end - job.first_slot)) if completes else 0.0,
    )


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Dorm:
    """Build Dorm with the settings of a scenario."""
    section = Section(fields, "policy", ("fairness", "adjustment", "restart"))
    return Dorm(
        fairness=section.number("fairness", Dorm.fairness, least=0.0, most=1.0),
        adjustment=section.number("adjustment", Dorm.adjustment, least=0.0, most=1.0),
        restart=section.number("restart", Dorm.restart, least=0.0, most=0.99),
    )
