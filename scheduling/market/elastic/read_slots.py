"""Read what jobs of an elastic pool have had so far. Each slot has an award of its own, and the newest one has the
sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduling.core.types import Job
from scheduling.models import PROGRAM, Award, AwardState, Run, RunState, TrainingJob


@dataclass(frozen=True)
class SlotsSoFar:
    """What a job has had so far. `work_left` is mini-batches, as planned. `epochs_left` is the part of all epochs that
    its program still has to do, by its own report; None for a job without a program. `paid` is micro-credits for all
    slots. The other fields are about the last slot; `price` is what it cost, in micro-credits."""

    work_left: float
    epochs_left: float | None
    paid: int
    end: int
    workers: int
    ps: int
    price: int


def slots_so_far(jobs: Iterable[TrainingJob]) -> dict[int, SlotsSoFar]:
    """Return by job what these jobs have had so far, for those that have run. Takes two queries."""
    rows = {job.pk: job for job in jobs}
    newest = Award.objects.filter(job__in=rows).exclude(state=AwardState.VOID).order_by("job_id", "-attempt", "-start")
    latest = newest.distinct("job_id").only(
        "job", "work_left", "paid", "returned", "paid_before", "end", "workers", "ps"
    )
    awards = {award.job_id: award for award in latest}
    reports = _reports([number for number in awards if PROGRAM in rows[number].spec])
    return {
        number: SlotsSoFar(
            work_left=award.work_left or 0.0,
            epochs_left=reports.get(number, 1.0) if PROGRAM in rows[number].spec else None,
            paid=award.paid_before + award.paid - award.returned,
            end=award.end,
            workers=award.workers,
            ps=award.ps,
            price=award.paid,
        )
        for number, award in awards.items()
    }


def gangs_going_on(slot: int, jobs: Iterable[Job], before: Mapping[int, SlotsSoFar]) -> dict[int, int]:
    """Map each unbroken job that ran in the slot before this one, in the order of these jobs, to the micro-credits of
    that slot: its gang stays where it is if it can pay as much again."""
    ran = {number for number, so_far in before.items() if so_far.end == slot}
    return {job.number: before[job.number].price for job in jobs if job.unbroken and job.number in ran}


def _reports(numbers: list[int]) -> Mapping[int, float]:
    """Map each job to the part of its epochs that is left by its newest report. Jobs without a report are left out."""
    if not numbers:
        return {}
    runs = Run.objects.filter(job__in=numbers, progress__has_key="epochs").order_by("job_id", "-pk").distinct("job_id")
    rests = {}
    for job_id, state, progress in runs.values_list("job_id", "state", "progress"):
        done, epochs = epochs_reported(progress) or (0.0, 1.0)
        rests[job_id] = 0.0 if state == RunState.FINISHED else 1.0 - done / epochs
    return rests


def epochs_reported(progress: object) -> tuple[float, float] | None:
    """Return (epochs done, of how many) if a report has both, else None. Anything else in it is ignored: the report may
    come from a program of unknown people, and must not harm the other jobs that are decided about with it."""
    if not isinstance(progress, Mapping):
        return None
    done, epochs = _number(progress.get("epoch", 0)), _number(progress.get("epochs"))
    return None if epochs <= 0 else (min(max(done, 0.0), epochs), epochs)


def share_reported(progress: object) -> tuple[float, float] | None:
    """Return (steps or epochs done, of how many) if the report of a program that people brought has both, else None. If
    it has steps and epochs, it is unknown which of them `of` is about, so the larger number counts."""
    numbers = progress.get("numbers") if isinstance(progress, Mapping) else None
    if not isinstance(numbers, Mapping) or not ("step" in numbers or "epoch" in numbers):
        return None
    done, whole = max(_number(numbers.get("step", 0)), _number(numbers.get("epoch", 0))), _number(numbers.get("of"))
    return None if whole <= 0 else (min(max(done, 0.0), whole), whole)


def _number(value: object) -> float:
    """Return the value as a float, or 0 if it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        return float(value) if math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def remaining(job: Job, before: SlotsSoFar | None) -> float:
    """Return the mini-batches that a job has left. For a job with a program its own report counts; as long as it has
    not finished, at least one epoch is left."""
    if before is None:
        return float(job.work)
    if before.epochs_left is None:
        return before.work_left
    return job.work * max(before.epochs_left, 1.0 / job.epochs)
