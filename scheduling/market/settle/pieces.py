"""The end of a piece: its job is saved, and waits for the next piece or for its place at home (D8, D12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.core.types import SHARED, Reason
from scheduling.feed import EventKind, event, job_subject
from scheduling.market.view.pieces import left_of, pieces_so_far
from scheduling.market.view.specs import SpecReader
from scheduling.models import ALIVE, Award, Event, JobState, Pool, TrainingJob


@dataclass(frozen=True)
class Saved:
    """A job whose piece is over. `rest` of its `work` mini-batches are left. `following` is the first slot of its next
    award, or None if it waits for one."""

    award_id: int
    job: TrainingJob
    rest: int
    work: int
    following: int | None


def pieces_over(pool: Pool, award_ids: Sequence[int], unfinished: Mapping[int, object]) -> list[Saved]:
    """Return those of these awards, which all end now, whose jobs have work left. `unfinished` are jobs whose program
    is not done although the award is over.

    A program that is behind its plan when the last rented piece ends continues with what its last save leaves, if it
    reports that. When its award at home ends, its time is over, as for any job.
    """
    if not award_ids:
        return []
    over = list(Award.objects.filter(pk__in=award_ids, work__isnull=False).select_related("job").order_by("pk"))
    if not over:
        return []
    jobs = {award.job_id: award.job for award in over}
    so_far, reader = pieces_so_far(jobs.values()), SpecReader(pool)
    planned = Award.objects.filter(job__in=jobs, state__in=ALIVE).exclude(pk__in=[award.pk for award in over])
    following = {award.job_id: award.start for award in planned.order_by("-start").only("job", "start")}
    saved = []
    for award in over:
        read, begun = reader.read(award.job), so_far[award.job_id]
        rest = left_of(read, begun)
        as_planned = begun.work >= read.work
        goes_on = rest > 0 and (not as_planned or (award.phase == SHARED and award.job_id in unfinished))
        if award.job_id in following or goes_on:
            saved.append(Saved(award.pk, award.job, rest, read.work, following.get(award.job_id)))
    return saved


def jobs_wait_again(saved: Sequence[Saved]) -> list[Saved]:
    """Write the new states: a job without a further award waits, with its old arrival and number; a job with one is
    awarded. Return the jobs that were changed: a cancelled job stays cancelled."""
    moved = []
    for each in saved:
        live = TrainingJob.objects.filter(pk=each.job.pk, state__in=(JobState.AWARDED, JobState.RUNNING))
        if each.following is None:
            numbers = {"done": 1.0 - each.rest / each.work, "worth": each.job.worth or 0.0}
            reason = Reason("in_pieces", numbers)
            changes = {"state": JobState.QUEUED, "reason_code": reason.code, "reason_numbers": dict(reason.numbers)}
        else:
            changes = {"state": JobState.AWARDED, "reason_code": "", "reason_numbers": {}}
        moved += [each] if live.update(**changes) else []
    return moved


def saved_events(pool: Pool, saved: Sequence[Saved], slot: int, at: datetime) -> list[Event]:
    return [
        event(
            EventKind.JOB_SAVED,
            pool_id=pool.pk,
            tenant_id=each.job.tenant_id,
            subject=job_subject(each.job.pk),
            at=at,
            data={
                "job": each.job.pk,
                "award": each.award_id,
                "slot": slot,
                "left": each.rest,
                "work": each.work,
                "next": each.following,
            },
        )
        for each in saved
    ]
