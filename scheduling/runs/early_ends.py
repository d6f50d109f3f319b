"""End a job whose program ended before its award: change its state at once, put its units back on sale, and let it pay
to the award's end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.feed import EventKind, events_append, job_event
from scheduling.jobs import award_give_up, given_up_event, while_running
from scheduling.market.calendar import lane_lock
from scheduling.market.settle import RESERVATION_ENDED, HoldMissing
from scheduling.models import ALIVE, Award, JobState, Lane, TrainingJob
from tenants.ledger.postings import InsufficientFunds, Posting
from tenants.ledger.services import post_many

_KINDS = {
    JobState.FINISHED: EventKind.JOB_FINISHED,
    JobState.FAILED: EventKind.JOB_FAILED,
    JobState.STOPPED: EventKind.JOB_STOPPED,
}


@transaction.atomic
def job_end_early(
    *, award_id: int, state: JobState, code: str, numbers: Mapping[str, Any], at: datetime
) -> TrainingJob | None:
    """End a job and return it, or None if it was in another state already. What it reserved is paid to its end, since
    over-reporting would be free otherwise.

    Its units are kept for the current slot, and no longer; what the instant lane sells of the rest goes to its tenant's
    account. Further awards of a job that runs in pieces are taken back.
    """
    award = Award.objects.select_related("job", "pool").get(pk=award_id)
    batch = lane_lock(pool_id=award.pool_id, lane=Lane.BATCH)
    lane_lock(pool_id=award.pool_id, lane=Lane.INSTANT)
    job = TrainingJob.objects.select_for_update(of=("self",)).select_related("pool").get(pk=award.job_id)
    award = Award.objects.select_for_update(of=("self",)).select_related("pool").get(pk=award_id)
    if job.attempt != award.attempt or not _may_end(job, award, state):
        return None
    others = Award.objects.filter(job=job, attempt=job.attempt, state__in=ALIVE).exclude(pk=award.pk)
    further = list(others.select_for_update(of=("self",)).order_by("start")) if award.work is not None else []
    job.state, job.ended_at, job.reason_code, job.reason_numbers = state, at, code, dict(numbers)
    job.save(update_fields=["state", "ended_at", "reason_code", "reason_numbers"])
    cut = while_running(award, job, batch, at) if award.state in ALIVE else {"award": None}
    about = {"slot": job.pool.slot_at(at), **cut} | ({"reason": code, "numbers": dict(numbers)} if code else {})
    events, postings = [job_event(_KINDS[state], job, at=at, data=about)], list[Posting]()
    for other in further:
        some, cut = award_give_up(other, job, batch, at)
        postings += some
        events.append(given_up_event(job, cut, at))
    events_append(events)
    if isinstance(answer := post_many(postings=postings), InsufficientFunds):
        raise HoldMissing(str(answer))
    return job


def _may_end(job: TrainingJob, award: Award, state: JobState) -> bool:
    """Return whether a job may be ended. The end of a program that finished at the very last moment may be reported
    after the clock has passed it: its job was stopped then, or in an elastic pool paused, or saved after a piece."""
    goes_on = award.work_left is not None or award.work is not None
    if goes_on and (job.state, state) == (JobState.QUEUED, JobState.FINISHED):
        return True
    late = job.state == JobState.STOPPED and job.reason_code == RESERVATION_ENDED and state == JobState.FINISHED
    return late or job.state in (JobState.AWARDED, JobState.RUNNING)
