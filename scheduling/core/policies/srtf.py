"""Shortest remaining time first: in every slot the jobs that would end soonest run, each with what it asks for.

Remaining time counts at the numbers that a job asks for, with one parameter server for each worker; times that differ
by less than a part in 10^9 are equal, and then the earlier arrival goes first. Jobs pause and
move free of charge. Where a job does not fit, the longer jobs behind it are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduling.core.empty import EmptyCluster
from scheduling.core.estimates.remaining import check_speeds, seconds_left
from scheduling.core.gangs import GangUnits, even_gangs, workers_asked
from scheduling.core.placement import Cursors, Vacancies
from scheduling.core.scenario.fields import Section, whole_or_range
from scheduling.core.slot_bookings import slot_booking
from scheduling.core.types import REJECTED, WAITING, Booking, Cluster, Job, Plan, Reason, Refusal, View


@dataclass(frozen=True)
class Srtf:
    """The policy. `workers` as in FIFO: a number, or the range from which each job draws its own with the seed.

    A gang that the empty cluster could not hold is halved until it fits; a job whose least gang does not fit is
    refused for good. Every slot is filled anew, from the first server on.
    """

    name: ClassVar[str] = "srtf"
    workers: int | tuple[int, int] = (1, 30)
    seed: int = 1

    def decide(self, view: View) -> Plan:
        """Book one slot for every job that finds room in its turn."""
        empty = EmptyCluster(view.cluster)
        queue: list[tuple[float, float, int, Job, float, GangUnits]] = []
        refusals: list[Refusal] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            gangs_wanted = even_gangs(job, workers_asked(job, self.workers, self.seed))
            gang = next((gang for gang in gangs_wanted if empty.holds(job, gang)), None)
            if gang is None:
                refusals.append(_refusal(job, job.min_workers, REJECTED))
                continue
            seconds = seconds_left(job, remaining, gang.workers, gang.ps, (gang.worker_type, gang.ps_type))
            queue.append((float(f"{seconds:.9g}"), job.arrival, job.number, job, remaining, gang))
        bookings: list[Booking] = []
        vacancies, cursors = Vacancies(view.cluster, view.occupied), Cursors()
        for _, _, _, job, remaining, gang in sorted(queue, key=lambda row: row[:3]):
            placement = vacancies.place(job, gang, cursors)
            if placement is None:
                refusals.append(_refusal(job, gang.workers, WAITING))
            else:
                cursors = placement.cursors
                bookings.append(slot_booking(job, remaining, placement, view))
        return Plan(bookings, refusals)


def _refusal(job: Job, workers: int, state: str) -> Refusal:
    return Refusal(job.number, Reason("no_room", {"asked": workers}), state)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Srtf:
    """Build shortest remaining time first with the settings of a scenario."""
    section = Section(fields, "policy", ("workers", "seed"))
    check_speeds(jobs)
    return Srtf(
        workers=whole_or_range(section.raw("workers", Srtf.workers), "policy.workers"),
        seed=section.whole("seed", Srtf.seed, least=0),
    )
