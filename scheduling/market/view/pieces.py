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
from dataclasses import dataclass, replace

from django.db.models import Count, F, Q, Sum

from scheduling.core.types import SHARED, Job
from scheduling.engines.programs import PROGRAMS
from scheduling.market.elastic.read_slots import epochs_reported, share_reported
from scheduling.models import PROGRAM, Award, AwardState, RentState, Run, RunState, TrainingJob

DIVISIBLE = "divisible"  # the field of a specification by which the job rents in pieces
MOST_IN_VAIN = 5  # pieces of one job in a row without progress, though by plan they were as many epochs


@dataclass(frozen=True)
class PiecesSoFar:
    """What a job begun in pieces has had. `work` is the planned mini-batches of its awards. `paid` is the micro-credits
    for them, less what was returned. `epochs` is how many epochs (or steps) its program reports as done, and of how
    many; None where it reports none, or its report is not trusted."""

    work: int
    paid: int
    epochs: tuple[float, float] | None = None


@dataclass(frozen=True)
class PiecesInVain:
    """The last rented pieces of a job, in a row, that brought it no further. `work` is the mini-batches that they were
    planned for. `done` of `whole` epochs (or steps) is how far it came before them."""

    pieces: int
    work: int
    done: float
    whole: float

    def are_too_many(self, job: Job) -> bool:
        """Return whether the next piece would be in vain as well, as far as one can tell. An epoch may be longer than a
        piece, so pieces count only if there was time for as many epochs by plan."""
        epochs = self.work / job.work * self.whole
        return self.pieces >= MOST_IN_VAIN and epochs >= MOST_IN_VAIN


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
        report = _report(program, progress)
        if report is not None and not (program not in PROGRAMS and jobs[job_id]):
            done, whole = report
            reports[job_id] = (whole if state == RunState.FINISHED else done, whole)
    return reports


def _report(program: str, progress: object) -> tuple[float, float] | None:
    return epochs_reported(progress) if program in PROGRAMS else share_reported(progress)


def pieces_in_vain(job_ids: Iterable[int]) -> dict[int, PiecesInVain]:
    """Return by job the pieces in vain, of those jobs that have some.

    These are rented pieces that were delivered, and after which the program of the job reports no more than before, or
    nothing, though it reported something earlier. Runs of what the platform lost say nothing; nor does the last run of
    a piece that was paused after it had come further. A run whose end was not heard of is not counted, as its last
    report may be on its way.
    """
    columns = ("job_id", "award_id", "state", "program", "progress", "award__state", "award__phase", "award__work")
    runs = Run.objects.filter(job__in=job_ids, award__work__isnull=False).exclude(state=RunState.LOST)
    runs = runs.exclude(award__state=AwardState.VOID).order_by("job_id", "pk")
    in_vain: dict[int, PiecesInVain] = {}
    came_further: dict[int, int] = {}  # by job, the award in which it last did
    for job_id, award_id, state, program, progress, award, phase, work in runs.values_list(*columns):
        before, report = in_vain.get(job_id), _report(program, progress)
        if report is not None and (before is None or report[0] > before.done):
            in_vain[job_id], came_further[job_id] = PiecesInVain(0, 0, *report), award_id
            continue
        was_piece = state == RunState.STOPPED and phase == SHARED and award != AwardState.ENDED
        if was_piece and before is not None and award_id != came_further[job_id]:
            in_vain[job_id] = replace(before, pieces=before.pieces + 1, work=before.work + work)
    return {job_id: each for job_id, each in in_vain.items() if each.pieces}


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
