"""What jobs that may be saved and go on have had so far, and what is left of them (D1).

Such a job has an award for each of its pieces, and one at home for the rest. What an award does is planned in whole
mini-batches; a program may come less far than that, and then the rest is what its last save says. What the platform
cut short counts for nothing: the job does it again.

What our own trainer reports is ours. What a program of people's own writes is a stranger's, who may say that nothing
is done so that its job looks worth less: so it counts only where no refund depends on it (D12), which is of jobs
without open rents. There a smaller share makes the job buy more, at the posted price, and brings it nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Count, F, Q, Sum

from scheduling.core.types import Job
from scheduling.engines.programs import PROGRAMS
from scheduling.market.elastic.read_slots import epochs_reported, share_reported
from scheduling.models import PROGRAM, Award, AwardState, RentState, Run, RunState, TrainingJob

DIVISIBLE = "divisible"  # of a specification: the job rents in pieces


@dataclass(frozen=True)
class PiecesSoFar:
    """`work`: mini-batches of its awards, as planned. `paid`: micro-credits for them, less what came back.
    `epochs`: how many its program reports to have done, and of how many, or how many steps; None where it reports none,
    or where that is not believed."""

    work: int
    paid: int
    epochs: tuple[float, float] | None = None


def is_divisible(job: TrainingJob) -> bool:
    return bool(job.spec.get(DIVISIBLE))


def pieces_so_far(jobs: Iterable[TrainingJob]) -> dict[int, PiecesSoFar]:
    """By job, for those of these jobs that were begun in pieces. Two queries, where any may have been."""
    rows = {job.pk: job for job in jobs if is_divisible(job)}
    if not rows:
        return {}
    awards = Award.objects.filter(job__in=rows, work__isnull=False).order_by()
    done = Sum("work", filter=~Q(state=AwardState.VOID), default=0)
    rents = Count("pk", filter=Q(rent=RentState.OPEN))
    sums = awards.values("job").annotate(done=done, cost=Sum(F("paid") - F("returned")), rents=rents)
    begun = {row["job"]: bool(row["rents"]) for row in sums if PROGRAM in rows[row["job"]].spec}
    reports = _reports(begun)
    return {row["job"]: PiecesSoFar(row["done"], row["cost"], reports.get(row["job"])) for row in sums}


def _reports(jobs: Mapping[int, bool]) -> Mapping[int, tuple[float, float]]:
    """Job -> (epochs or steps done, of how many), by the newest report of its program. `jobs`: with whether any of
    their rents is open."""
    if not jobs:
        return {}
    with_epochs = Q(progress__has_key="epochs") | Q(progress__numbers__has_key="of")
    runs = Run.objects.filter(with_epochs, job__in=jobs).order_by("job_id", "-pk").distinct("job_id")
    reports = {}
    for job_id, state, program, progress in runs.values_list("job_id", "state", "program", "progress"):
        own = program not in PROGRAMS
        report = share_reported(progress) if own else epochs_reported(progress)
        if report is not None and not (own and jobs[job_id]):
            done, whole = report
            reports[job_id] = (whole if state == RunState.FINISHED else done, whole)
    return reports


def left_of(job: Job, so_far: PiecesSoFar | None) -> int:
    """Mini-batches that are left: as planned, or by the program's last save where that is more.

    A report counts whole epochs, and one more may be all but done: so much is believed of a program that is behind its
    plan. Of one whose plan is over nothing is believed but what it says.
    """
    if so_far is None:
        return job.work
    planned = max(job.work - so_far.work, 0)
    if so_far.epochs is None:
        return planned
    done, epochs = so_far.epochs
    if planned == 0:
        return math.ceil(job.work * (1.0 - done / epochs))
    return min(max(planned, math.ceil(job.work * (1.0 - min(done + 1.0, epochs) / epochs))), job.work)
