"""First in, first out: jobs start in order of arrival with a fixed number of workers, and nobody overtakes.

Each job asks for a whole gang, placed round robin. The head of the queue starts in the first slot in which its
gang fits and keeps it until it is done. While the head does not fit, everybody behind it waits too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scheduling.core.occupancy import room
from scheduling.core.placement import Cursors, Gang, Placement, gangs, place
from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.fields import Section, whole
from scheduling.core.speed import ceiling
from scheduling.core.types import REJECTED, Booking, Cluster, FloatArray, Job, Plan, Reason, Refusal, View


@dataclass(frozen=True)
class Fifo:
    """`workers` is what a job asks for: a number, or the range from which each job draws its own with the seed.

    No job asks for more than it can use. A gang that the empty cluster could not hold is halved until it fits; a
    job whose least gang does not fit is refused for good.
    """

    name: ClassVar[str] = "fifo"
    workers: int | tuple[int, int] = (1, 30)
    seed: int = 1

    def decide(self, view: View) -> Plan:
        """Start the jobs at the head of the queue, up to the first that must wait for room."""
        cursors = Cursors.read(view.memory)
        taken = np.zeros_like(view.cluster.capacity)  # by this plan: it all begins now
        bookings: list[Booking] = []
        refusals: list[Refusal] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            answer = self._start(job, remaining, view, taken, cursors)
            if isinstance(answer, Placement):
                taken[:, answer.servers] += answer.demand(job)
                cursors = answer.cursors
                bookings.append(_booking(job, remaining, answer, view))
                continue
            refusals.append(answer)
            if answer.state != REJECTED:
                break
        return Plan(bookings, refusals, memory=cursors.memory())

    def _start(
        self, job: Job, remaining: float, view: View, taken: FloatArray, cursors: Cursors
    ) -> Placement | Refusal:
        """Where the job's gang goes now; or that it waits, because only the empty cluster could hold it."""
        cluster = view.cluster
        for gang in gangs(job, self._asked(job)):
            free = _free(view, _slots(gang.rate(job, cluster.slot_seconds), remaining)) - taken
            if (placed := place(job, gang, cluster, free, cursors)) is not None:
                return placed
            if place(job, gang, cluster, cluster.capacity, cursors) is not None:
                return Refusal(job.number, _no_room(job, gang, free))
        return Refusal(job.number, _no_room(job, Gang(job.min_workers, 1), cluster.capacity), REJECTED)

    def _asked(self, job: Job) -> int:
        """The workers a job asks for. A draw depends on the seed and the job alone, not on when it is made."""
        if isinstance(self.workers, int):
            asked = self.workers
        else:
            least, most = self.workers
            asked = int(np.random.default_rng((self.seed, job.number)).integers(least, most + 1))
        return max(job.min_workers, min(asked, job.max_workers))


def _free(view: View, slots: int) -> FloatArray:
    """(resources, servers) amounts that are free in every one of the next `slots` slots."""
    free: FloatArray = view.cluster.capacity - view.occupied[:, :slots].max(axis=1, initial=0.0)
    return free


def _slots(rate: float, work: float) -> int:
    """Slots in which a gang that trains `rate` mini-batches a slot does the work."""
    return max(1, ceiling(work / rate))


def _no_room(job: Job, gang: Gang, free: FloatArray) -> Reason:
    workers = room(free, job.worker_types[gang.worker_type].demand).sum()
    return Reason("no_room", {"asked": gang.workers, "free": int(workers)})


def _booking(job: Job, remaining: float, placed: Placement, view: View) -> Booking:
    """The gang from now until the work is done."""
    gang = placed.gang
    end = view.slot + _slots(placed.rate(job, view.cluster.slot_seconds), remaining)
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placed.allocation(view.slot, end),
        work=remaining,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        placement=placed.kind,
        value=float(job.value(end - job.arrival)),
        ideal=float(job.value(end - view.slot)),
    )


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Fifo:
    """FIFO with the settings of a scenario."""
    section = Section(fields, "policy", ("workers", "seed"))
    return Fifo(
        workers=_workers(section.raw("workers", Fifo.workers)),
        seed=section.whole("seed", Fifo.seed, least=0),
    )


def _workers(value: object) -> int | tuple[int, int]:
    """A positive number, or a range [least, most] of them."""
    if not isinstance(value, list | tuple):
        return whole(value, "policy.workers")
    if len(value) != 2:
        raise BadScenario("policy.workers", "must be a number, or a range of two")
    least, most = (whole(end, f"policy.workers[{k}]") for k, end in enumerate(value))
    if least > most:
        raise BadScenario("policy.workers", f"must be a range from low to high, not [{least}, {most}]")
    return least, most
