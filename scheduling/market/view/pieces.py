"""What jobs that can be saved and continued have done so far, and what is left of them (D1).

Such a job has an award for each of its pieces, and one at home for the rest. The work of an award is planned in whole
mini-batches. A program may do less than that; then the rest follows from its last save. Awards that the platform cut
short count for nothing: the job repeats their work.

Reports of our own trainer are trusted. A program that people bring might report less than it did so that its job looks
worth less. So its report counts only where no refund depends on it (D12), which means for jobs without open rents.
There a smaller share only makes the job buy more at the posted price, which gains it nothing.
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

DIVISIBLE = "divisible"  # the field of a specification by which the job rents in pieces


@dataclass(frozen=True)
class PiecesSoFar:
    """What a job begun in pieces has had. `work` is the planned mini-batches of its awards. `paid` is the micro-credits
    for them, less what was returned. `epochs` is how many epochs (or steps) its program reports as done, and of how
    many; None where it reports none, or its report is not trusted."""

    work: int
    paid: int
    epochs: tuple[float, float] | None = None


def is_divisible(job: TrainingJob) -> bool:
    return bool(job.spec.get(DIVISIBLE))


def pieces_so_far(jobs: Iterable[TrainingJob]) -> dict[int, PiecesSoFar]:
    """Return by job what those of these jobs had that were begun in pieces. Takes two queries if any of them is
    divisible."""
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
    """Map each job to (epochs or steps done, of how many), by the newest report of its program. `jobs` says of each job
    whether any of its rents is open."""
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
    """Return the mini-batches that are left: as planned, or by the program's last save where that is more.

    A report counts whole epochs, so one more epoch may be almost done. A program that is behind its plan gets credit
    for that epoch. A program whose plan is over gets credit only for what it reports.
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
