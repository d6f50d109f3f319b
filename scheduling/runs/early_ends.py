"""End a job whose program ended before its award: change its state at once, put its units back on sale, and let it pay
to the award's end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.feed import EventKind, events_append, job_event
from scheduling.jobs import award_give_up, given_up_event, has_begun, slot_running, while_running
from scheduling.market.calendar import lane_lock
from scheduling.market.settle import RESERVATION_ENDED, Cause, HoldMissing, awards_void
from scheduling.models import ALIVE, NOT_NEEDED, Award, AwardState, Event, JobState, Lane, LaneClock, Run, TrainingJob
from tenants.ledger.postings import InsufficientFunds, Posting
from tenants.ledger.services import post_many

NO_PROGRESS = "no_progress"  # pieces of a job, one after another, brought it no further
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
    account. Further awards of a job that runs in pieces, or slot by slot, are taken back. One that has begun and in
    which nothing ever ran is refunded: it was bought at a boundary after the program's end, before anybody had heard of
    that.
    """
    award = Award.objects.select_related("job", "pool").get(pk=award_id)
    batch = lane_lock(pool_id=award.pool_id, lane=Lane.BATCH)
    lane_lock(pool_id=award.pool_id, lane=Lane.INSTANT)
    job = TrainingJob.objects.select_for_update(of=("self",)).select_related("pool").get(pk=award.job_id)
    award = Award.objects.select_for_update(of=("self",)).select_related("pool").get(pk=award_id)
    if not _may_end(job, award, state):
        return None
    others = Award.objects.filter(job=job, attempt=job.attempt, state__in=ALIVE).exclude(pk=award.pk)
    one_of_several = award.work is not None or award.work_left is not None
    further = list(others.select_for_update(of=("self",)).order_by("start")) if one_of_several else []
    job.state, job.ended_at, job.reason_code, job.reason_numbers = state, at, code, dict(numbers)
    job.save(update_fields=["state", "ended_at", "reason_code", "reason_numbers"])
    cut = while_running(award, job, batch, at) if award.state in ALIVE else {"award": None}
    about = {"slot": job.pool.slot_at(at), **cut} | ({"reason": code, "numbers": dict(numbers)} if code else {})
    events, postings = _give_back(further, job, batch, at, whole=code == NO_PROGRESS)
    events_append([job_event(_KINDS[state], job, at=at, data=about), *events])
    if isinstance(answer := post_many(postings=postings), InsufficientFunds):
        raise HoldMissing(str(answer))
    return job


def _give_back(
    further: Sequence[Award], job: TrainingJob, batch: LaneClock | None, at: datetime, *, whole: bool
) -> tuple[list[Event], list[Posting]]:
    """Give back what a job that has ended was still to get. Return the events and postings.

    A rented piece that has begun without a run was never used, so what is not settled of it is refunded. With `whole`
    that also holds for one that has not begun: else it comes back as after a cancellation.
    """
    events, postings, running = list[Event](), list[Posting](), slot_running(job.pool, batch, at)
    runs = set(Run.objects.filter(award__in=further).values_list("award", flat=True))
    unused = [each for each in further if each.paid and each.pk not in runs and (whole or has_begun(each, running))]
    for award in further:
        if award not in unused:
            some, cut = award_give_up(award, job, batch, at)
            postings += some
            events.append(given_up_event(job, cut, at))
    for award in unused:  # last, as whatever else of the job is alive would be lost with it
        first = award.unpaid_since(batch.settled_slot if batch else -1)
        voided = awards_void(job.pool, [award], first, Cause(NOT_NEEDED), at)
        events += voided.events
        postings += voided.postings
    return events, postings


def _may_end(job: TrainingJob, award: Award, state: JobState) -> bool:
    """Return whether a job may be ended. The end of a program that finished at the very last moment may be reported
    after the clock has passed it: its job was stopped then, or in an elastic pool paused, or saved after a piece. The
    platform may even have lost a further piece since then, in which nothing ever ran."""
    if job.attempt != award.attempt:
        is_done = award.work is not None and award.state in (AwardState.DONE, *ALIVE) and state == JobState.FINISHED
        if not is_done or Run.objects.filter(job=job, award__start__gt=award.start).exists():
            return False
    goes_on = award.work_left is not None or award.work is not None
    if goes_on and job.state == JobState.QUEUED and state in (JobState.FINISHED, JobState.STOPPED):
        return True
    stopped = job.state == JobState.STOPPED and job.reason_code in (RESERVATION_ENDED, NO_PROGRESS)
    late = stopped and state == JobState.FINISHED
    return late or job.state in (JobState.AWARDED, JobState.RUNNING)
