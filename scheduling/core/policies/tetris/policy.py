"""Tetris: the tasks that fit the servers best are placed first, with a head start for jobs that end soon.

How well a worker with its parameter server fits a server is the dot product of what they take and what is free there,
both as parts of the whole cluster. The inverse of the job's remaining time is added. Each of the two is divided by its
mean over all pairs or jobs of the slot, so that neither drowns the other.

The best pair of job and server gets a task there, then the job gets more of them, server after server, up to its cap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduling.core.empty import EmptyCluster
from scheduling.core.estimates.remaining import check_speeds
from scheduling.core.gangs import GangUnits, even_gangs
from scheduling.core.placement import Placement
from scheduling.core.policies.tetris.packing import Option, Packing
from scheduling.core.scenario.fields import Section
from scheduling.core.slot_bookings import slot_booking
from scheduling.core.types import REJECTED, Cluster, Job, Plan, Reason, Refusal, View


@dataclass(frozen=True)
class Tetris:
    """The policy. `weight` is that of the remaining time against the fit, and `max_workers` limits every job. Each
    worker has a parameter server, as far as the job allows so many. Every slot is filled anew; moving costs nothing."""

    name: ClassVar[str] = "tetris"
    weight: float = 1.0
    max_workers: int = 16

    def decide(self, view: View) -> Plan:
        """Book one slot for every job that gets its least gang."""
        empty = EmptyCluster(view.cluster)
        options: list[Option] = []
        refusals: list[Refusal] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            ways = [
                Option(job, remaining, gang, max(job.min_workers, min(job.max_workers, self.max_workers)))
                for gang in even_gangs(job, job.min_workers)
                if gang.workers == job.min_workers and empty.holds(job, gang)
            ]
            options += ways
            if not ways:
                refusals.append(Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), REJECTED))
        placed = Packing(view, options, self.weight).run() if options else {}
        bookings = []
        for number, (job, remaining) in {way.job.number: (way.job, way.remaining) for way in options}.items():
            if number in placed:
                bookings.append(slot_booking(job, remaining, placed[number], view))
            else:
                refusals.append(Refusal(number, Reason("no_room", {"asked": job.min_workers})))
        return Plan(bookings, refusals)

    def place(self, view: View, gangs: Mapping[int, GangUnits]) -> Mapping[int, Placement]:
        """Return where the gang of each job is placed, packed like the tasks of Tetris' own jobs."""
        pairs = zip(view.waiting, view.remaining.tolist(), strict=True)
        wanted = ((job, remaining, gangs[job.number]) for job, remaining in pairs)
        options = [Option(job, remaining, gang, gang.workers, gang.ps) for job, remaining, gang in wanted]
        return Packing(view, options, self.weight).run() if options else {}


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Tetris:
    """Build Tetris with the settings of a scenario."""
    section = Section(fields, "policy", ("weight", "max_workers"))
    check_speeds(jobs)
    return Tetris(
        weight=section.number("weight", Tetris.weight, least=0.0),
        max_workers=section.whole("max_workers", Tetris.max_workers, most=1024),
    )
