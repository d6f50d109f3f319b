"""First come, first served, with backfill: what most clusters do before there is a market.

Jobs start in order of arrival. The first that does not fit gets a promise: the slot in which enough units will be free.
Jobs behind it may start earlier if they end by then, or leave it the units that it needs. As in Slurm, only a limited
number of those behind are considered. Run times are known exactly here; clusters know only what users ask for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Cursors, Vacancies
from scheduling.core.speed import ceiling
from scheduling.core.types import REJECTED, WAITING, Booking, Job, Plan, Reason, Refusal, View

DEPTH = 500  # jobs behind the first that waits, considered in a slot


@dataclass(frozen=True)
class Backfill:
    """A policy for jobs of a fixed number of workers that each take one unit of the only resource, without parameter
    servers."""

    name: ClassVar[str] = "backfill"

    def decide(self, view: View) -> Plan:
        """Return who starts now. `spare` counts the units that may be taken beyond the promised slot."""
        vacancies, cursors = Vacancies(view.cluster, view.occupied), Cursors.read(view.memory)
        total = int(view.cluster.total[0])
        free = total - sum(booking.workers for booking in view.active)
        bookings: list[Booking] = []
        refusals: list[Refusal] = []
        promised = spare = looked = 0
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            if looked > DEPTH or (looked and free == 0):
                break
            units = job.max_workers
            if units > total:
                refusals.append(Refusal(job.number, Reason("no_room", {"asked": units}), REJECTED))
                continue
            looked += bool(looked)
            if units > free:
                if not looked:
                    looked = 1
                    promised, spare = _promise(job, free, [*view.active, *bookings])
                    refusals.append(Refusal(job.number, Reason("no_room", {"asked": units}), WAITING))
                continue
            gang = GangUnits(units, 0)
            end = view.slot + max(1, ceiling(remaining / gang.rate(job, view.cluster.slot_seconds, servers=1)))
            if looked and end > promised and units > spare:
                continue
            placement = vacancies.place(job, gang, cursors)
            if placement is None:
                raise AssertionError("as many units are free as the gang has")
            cursors = placement.cursors
            free -= units
            spare -= units if looked and end > promised else 0
            value = float(job.value(end - job.arrival))
            ideal = float(job.value(end - view.slot))
            bookings.append(
                Booking(
                    job=job.number,
                    start=view.slot,
                    end=end,
                    allocation=placement.allocation(view.slot, end),
                    work=remaining,
                    workers=units,
                    ps=0,
                    placement=placement.kind,
                    value=value,
                    ideal=ideal,
                )
            )
        return Plan(bookings, refusals, memory=cursors.memory())


def _promise(job: Job, free: int, running: list[Booking]) -> tuple[int, int]:
    """Return the slot in which the job will fit, and how many units will be left beside it then."""
    ending: Counter[int] = Counter()
    for booking in running:
        ending[booking.end] += booking.workers
    for end in sorted(ending):
        free += ending[end]
        if free >= job.max_workers:
            return end, free - job.max_workers
    raise AssertionError("a job that fits the empty cluster fits it once all have ended")
