"""First in, first out: jobs start in order of arrival with a fixed number of workers, and no job overtakes another.

Each job asks for a whole gang, placed round robin. The head of the queue starts in the first slot in which its
gang fits, and keeps it until it is done. While the head does not fit, all jobs behind it wait too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduling.core.empty import fits_empty
from scheduling.core.gangs import GangUnits, gangs, workers_asked
from scheduling.core.placement import Cursors, Placement, Vacancies
from scheduling.core.scenario.fields import Section, whole_or_range
from scheduling.core.speed import ceiling
from scheduling.core.types import (
    REJECTED,
    WAITING,
    Booking,
    Cluster,
    Job,
    Plan,
    Reason,
    Refusal,
    UnitType,
    View,
)


@dataclass(frozen=True)
class Fifo:
    """The policy. `workers` is what a job asks for: a number, or the range from which each draws its own with the seed.

    No job asks for more than it can use. A gang that the empty cluster could not hold is halved until it fits; a
    job whose least gang does not fit is refused for good.
    """

    name: ClassVar[str] = "fifo"
    workers: int | tuple[int, int] = (1, 30)
    seed: int = 1

    def decide(self, view: View) -> Plan:
        """Start the jobs at the head of the queue, up to the first that must wait for room."""
        room = _Room(view)
        bookings: list[Booking] = []
        refusals: list[Refusal] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            answer = self._start(job, remaining, view, room)
            if isinstance(answer, Booking):
                bookings.append(answer)
                continue
            refusals.append(answer)
            if answer.state == WAITING:
                break
        return Plan(bookings, refusals, memory=room.cursors.memory())

    def _start(self, job: Job, remaining: float, view: View, room: _Room) -> Booking | Refusal:
        """Book the job's gang from now on, or return why not: it waits if an empty cluster could hold the gang."""
        for gang in gangs(job, workers_asked(job, self.workers, self.seed)):
            slots = _slots(remaining, gang.rate(job, view.cluster.slot_seconds))
            placement = room.place(job, gang, slots)
            if placement is not None:
                return _booking(job, remaining, placement, view)
            if fits_empty(job, gang, view.cluster):
                return _refusal(job, gang.workers, WAITING)
        return _refusal(job, job.min_workers, REJECTED)


class _Room:
    """The room that is left while a plan is made, and the cursors of the round robin. Every gang starts now."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.cursors = Cursors.read(view.memory)
        self.now = Vacancies(view.cluster, view.occupied)
        # Where no booking begins later, as when no other lane books ahead, units that are free now stay free.
        self.stays_free = bool((view.occupied[:, 1:] <= view.occupied[:, :-1]).all())
        self.dealt: list[tuple[UnitType, Sequence[int]]] = []

    def place(self, job: Job, gang: GangUnits, slots: int) -> Placement | None:
        """Place a gang on units that are free for the next `slots` slots. Return None if there are too few."""
        placement = self._free_for(slots).place(job, gang, self.cursors)
        if placement is not None:
            self.cursors = placement.cursors
            self.dealt.append((job.worker_types[gang.worker_type], placement.workers))
            self.dealt.append((job.ps_types[gang.ps_type], placement.ps))
        return placement

    def _free_for(self, slots: int) -> Vacancies:
        if self.stays_free:
            return self.now
        free = Vacancies(self.view.cluster, self.view.occupied, slots)
        for unit, servers in self.dealt:
            free.take(unit, servers)
        return free


def _slots(work: float, rate: float) -> int:
    """Return in how many slots a gang that trains `rate` mini-batches a slot does the work."""
    return max(1, ceiling(work / rate))


def _refusal(job: Job, workers: int, state: str) -> Refusal:
    return Refusal(job.number, Reason("no_room", {"asked": workers}), state)


def _booking(job: Job, remaining: float, placement: Placement, view: View) -> Booking:
    """Book the gang from now until the work is done, at the speed that its placement allows."""
    gang, kind = placement.gang, placement.kind
    rate = placement.rate(job, view.cluster.slot_seconds)
    end = view.slot + _slots(remaining, rate)
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placement.allocation(view.slot, end),
        work=remaining,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        placement=kind,
        value=float(job.value(end - job.arrival)),
        ideal=float(job.value(end - view.slot)),
    )


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Fifo:
    """Build FIFO with the settings of a scenario."""
    section = Section(fields, "policy", ("workers", "seed"))
    return Fifo(
        workers=whole_or_range(section.raw("workers", Fifo.workers), "policy.workers"),
        seed=section.whole("seed", Fifo.seed, least=0),
    )
