"""Let a job that the instant lane refused wait for the next interval instead, when its tenant says so."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduling.feed import EventKind, events_append, job_event
from scheduling.jobs.fitting import never_fits
from scheduling.jobs.intake import Intake, over_budget, pool_closed
from scheduling.jobs.read_rows import UNKNOWN_JOB
from scheduling.market.calendar import closes, lane_lock
from scheduling.market.view import arrival_of
from scheduling.models import JobState, Lane, TrainingJob
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED


@transaction.atomic
def job_queue(*, job_id: int, by: Access, at: datetime) -> TrainingJob | Refused:
    """Put the job into the batch lane as of now: there it arrives at this moment, not when it was first refused."""
    if by.tenant is None or not by.allows(Permission.JOBS_SUBMIT):
        return NOT_ALLOWED
    with scope(by.tenant):
        job = TrainingJob.objects.select_related("pool").filter(pk=job_id).first()
        if job is None:
            return UNKNOWN_JOB
        # We lock the batch lane first: a decision that is being made does not know of the job, and must end before.
        lane_lock(pool_id=job.pool_id, lane=Lane.BATCH)
        job.refresh_from_db(from_queryset=TrainingJob.objects.select_for_update(of=("self",)))
        if job.lane == Lane.BATCH and job.state == JobState.QUEUED:
            return job
        if job.lane != Lane.INSTANT or job.state != JobState.REJECTED:
            return Refused("not_refused", "Only a job that the instant lane refused can wait for an interval.")
        intake = Intake(job.pool, by.tenant, job.submitted_by, at)
        if refusal := pool_closed(intake, Lane.BATCH) or over_budget(intake, job.spec):
            return refusal
        job.arrival = arrival_of(job.pool, at)
        return never_fits(job, frontier=intake.rows.frontier) or _queue(job, at, intake.rows.frontier)


def _queue(job: TrainingJob, at: datetime, frontier: int) -> TrainingJob:
    refused = {"reason": job.reason_code, "numbers": job.reason_numbers}  # so that both answers stay known
    job.lane, job.state, job.ended_at = Lane.BATCH, JobState.QUEUED, None
    closing = closes(job.pool, at, frontier)
    job.reason_code, job.reason_numbers = "waiting_for_interval", {**closing, "instant": refused["reason"]}
    job.save(update_fields=["lane", "state", "ended_at", "arrival", "reason_code", "reason_numbers"])
    data = {"job": job.pk, "lane": Lane.BATCH.value, "instant": refused}
    events_append([job_event(EventKind.JOB_QUEUED, job, at=at, data=data)])
    return job
