"""A job whose program ended before its award did: its state at once, its cells back on sale, its payment to the end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.models import Award, JobState, Lane, TrainingJob
from scheduling.services.cancellation import while_running
from scheduling.services.feed import event, events_append, job_subject
from scheduling.services.lanes import lane_lock
from scheduling.services.run_states import RESERVATION_ENDED
from scheduling.services.settlement import ALIVE

TOLD = {JobState.FINISHED: "job_finished", JobState.FAILED: "job_failed", JobState.STOPPED: "job_stopped"}


@transaction.atomic
def job_end_early(
    *, award_id: int, state: JobState, code: str, numbers: Mapping[str, Any], at: datetime
) -> TrainingJob | None:
    """What it reserved is paid to its end, or over-reporting would be free. None: the job was somewhere else already.

    The slot that is running is the last that its units are kept for; what the instant lane sells of the rest is for
    its tenant's account.
    """
    award = Award.objects.select_related("job", "pool").get(pk=award_id)
    batch = lane_lock(pool_id=award.pool_id, lane=Lane.BATCH)
    lane_lock(pool_id=award.pool_id, lane=Lane.INSTANT)
    job = TrainingJob.objects.select_for_update(of=("self",)).select_related("pool").get(pk=award.job_id)
    award = Award.objects.select_for_update(of=("self",)).select_related("pool").get(pk=award_id)
    if job.attempt != award.attempt or not _may_end(job, award, state):
        return None
    job.state, job.ended_at, job.reason_code, job.reason_numbers = state, at, code, dict(numbers)
    job.save(update_fields=["state", "ended_at", "reason_code", "reason_numbers"])
    if award.state in ALIVE:
        while_running(award, job, batch, at)
    about = {"slot": job.pool.slot_at(at)} | ({"reason": code, "numbers": dict(numbers)} if code else {})
    told = event(
        TOLD[state], pool_id=job.pool_id, tenant_id=job.tenant_id, subject=job_subject(job.pk), at=at, data=about
    )
    events_append([told])
    return job


def _may_end(job: TrainingJob, award: Award, state: JobState) -> bool:
    """A program that finished at the very end may be told of after the clock has passed it: then its job was stopped,
    or in an elastic pool paused."""
    if award.work_left is not None and (job.state, state) == (JobState.QUEUED, JobState.FINISHED):
        return True
    late = job.state == JobState.STOPPED and job.reason_code == RESERVATION_ENDED and state == JobState.FINISHED
    return late or job.state in (JobState.AWARDED, JobState.RUNNING)
