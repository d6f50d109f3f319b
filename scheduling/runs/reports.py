"""Take in reports of running programs as they arrive: keep them, estimate from them what a policy may believe, and end
jobs whose loss has stopped falling. The decision of a slot reads what is kept here, and fits no curves itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from scheduling.core.estimates import live
from scheduling.core.scenario import BadScenario
from scheduling.core.types import Job
from scheduling.engines.launcher.files import GangRecords
from scheduling.engines.programs import PROGRAMS
from scheduling.market.elastic import target_of
from scheduling.market.view import SpecReader
from scheduling.models import JobReport, JobState, Run
from scheduling.runs.early_ends import job_end_early
from scheduling.runs.heard import During, Epoch, epochs_of_ours, epochs_of_own, losses_after, speeds_of

ENDS_ITSELF = frozenset(PROGRAMS)  # these end by themselves after their most epochs; those of the catalogue may run on
COLUMNS = tuple(field.name for field in JobReport._meta.concrete_fields if field.name not in ("job", "tenant"))


@dataclass(frozen=True)
class RunReport:
    """A run with new reports, the values that the core makes of them, and the row to be written about its job."""

    run: Run
    job: Job
    running: live.Running
    row: JobReport


def reports_hear(runs: Sequence[Run], *, at: datetime) -> list[Run]:
    """Take in what these runs of elastic pools have reported. Return the runs whose jobs ended by that; their gangs
    have to be stopped.

    Needs the scope of all tenants. A report may be read twice without harm, and a job ends once.
    """
    # 1. Gather what their programs wrote, and what is known of their jobs.
    if not runs:
        return []
    rows = JobReport.objects.in_bulk([run.job_id for run in runs])
    readers = {run.award.pool_id: SpecReader(run.award.pool) for run in runs}
    reports = (_report(run, readers[run.award.pool_id], rows.get(run.job_id), at) for run in runs)
    news = [each for each in reports if each is not None]

    # 2. Decide what follows: one fit for all.
    outlooks = live.outlooks([each.running for each in news])
    for each, outlook in zip(news, outlooks, strict=True):
        _write(each, outlook)

    # 3. Apply: write the rows, and end the jobs that are over, each in the transaction that keeps why.
    over = [each for each in news if _is_over(each)]
    _save([each for each in news if each not in over])
    return [each.run for each in over if _end(each, at)]


def _report(run: Run, reader: SpecReader, row: JobReport | None, at: datetime) -> RunReport | None:
    """Return a run's new reports; None if nothing is new, or the job cannot be read any more."""
    try:
        job = reader.read(run.award.job)
        target = target_of(run.award.job.spec, job.epochs)
    except BadScenario:
        return None
    row = row or JobReport(job_id=run.job_id, tenant_id=run.tenant_id, heard_at=at)
    epochs = _epochs(run)
    losses = losses_after(row.losses, epochs, job.epochs) if target else []
    speeds = speeds_of(epochs, job.work / job.epochs)
    if row.ended_after is not None or (losses == row.losses and [list(each) for each in speeds] == row.speeds):
        return None
    row.heard_at, row.losses, row.speeds = at, losses, [list(each) for each in speeds]
    known_losses = tuple(math.nan if loss is None else loss for loss in losses)
    return RunReport(run, job, live.Running(len(losses), target, live.LossReports(known_losses, tuple(speeds))), row)


def _epochs(run: Run) -> list[Epoch]:
    rows = GangRecords(settings.RUNS_DIR).progress(f"job-{run.job_id}", run.key)
    if run.program in PROGRAMS:
        return epochs_of_ours(rows)
    award, pool = run.award, run.award.pool
    span = pool.slot_start(award.start).timestamp(), pool.slot_start(award.end).timestamp()
    return epochs_of_own(rows, During(*span, award.workers, award.ps))


def _write(each: RunReport, outlook: live.EpochOutlook | None) -> None:
    """Write an outlook into the row, without saving it. The first estimate stays as it was, to be compared with what
    came of it."""
    row = each.row
    row.speed = list(live.belief_of(each.job, each.running, outlook).speed)
    if outlook is None:
        return
    row.source = outlook.source
    row.epochs_left, row.epochs_low, row.epochs_high = outlook.epochs, outlook.low, outlook.high
    row.curve = [*outlook.curve, outlook.scale] if outlook.curve else row.curve
    done = each.running.done
    if outlook.source == live.FITTED and row.first_after is None:
        row.first_after, row.first_low, row.first_high = done, done + outlook.low, done + outlook.high
    if outlook.source == live.CONVERGED and each.running.target is not None:
        row.ended_after = live.converged_after(each.running.losses, each.running.target)
    if outlook.source == live.EXHAUSTED:
        row.ended_after = done


def _is_over(each: RunReport) -> bool:
    """Return whether the job is over: its loss has converged, or a program of the catalogue has done its most epochs.
    A built-in program ends then by itself, and reports it."""
    return each.row.source == live.CONVERGED or (
        each.row.source == live.EXHAUSTED and each.run.program not in ENDS_ITSELF
    )


def _save(reports: Sequence[RunReport]) -> None:
    if reports:
        rows = [each.row for each in reports]
        JobReport.objects.bulk_create(rows, update_conflicts=True, unique_fields=["job"], update_fields=COLUMNS)


@transaction.atomic
def _end(each: RunReport, at: datetime) -> bool:
    """End a job and save its row. Return False if the job was in another state already."""
    most = each.job.epochs
    about: dict[str, Any] = {"award_id": each.run.award_id, "state": JobState.FINISHED, "at": at}
    if each.row.source == live.CONVERGED:
        ended = job_end_early(code="converged", numbers={"epoch": each.row.ended_after, "epochs": most}, **about)
    else:
        ended = job_end_early(code="epochs_done", numbers={"epochs": most}, **about)
    _save([each])
    return ended is not None
