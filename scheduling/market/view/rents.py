"""Awards that were rented for jobs whose plan at home is still a draft (K4), or whose end nobody knows yet (D16)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from scheduling.core.policies.astraea.settings import NOTHING
from scheduling.models import Award, AwardState, JobState, Pool, RentState, TrainingJob

GIVEN_UP = "given_up"  # why a job failed that the platform lost too often
# Where parts are worth nothing: jobs that ended without being done, and by nobody's will.
UNDONE = (JobState.EXPIRED, JobState.REJECTED, JobState.FAILED)
IS_PART = Q(work__isnull=False)


def jobs_undone() -> QuerySet[TrainingJob]:
    """Where parts are worth nothing: those that paid for parts, are over and were not done, and were neither taken back
    nor failed by themselves (D16)."""
    paid_for = Award.objects.filter(job=OuterRef("pk"), work__isnull=False, rent=RentState.CLOSED)
    jobs = TrainingJob.objects.filter(Exists(paid_for), pool__batch_policy__parts=NOTHING, state__in=UNDONE)
    return jobs.exclude(~Q(reason_code=GIVEN_UP), state=JobState.FAILED)


def cut_short(pool: Pool) -> Q:
    """Of awards that were cut short, or whose jobs ended before their time: so they do in their owner's world. Where a
    piece of a job was lost, all that it had before was of an earlier attempt.

    Where parts are worth nothing those before a lost one stay open, and so do those of a job that the platform gave up.
    Of the lost piece itself what was delivered is paid (D13).
    """
    ended = Q(state=AwardState.VOID) | Q(job__state=JobState.CANCELLED)
    before = Q(attempt__lt=F("job__attempt"))
    if not pool.parts_worth_nothing:
        return ended | Q(job__state=JobState.FAILED) | before
    by_itself = Q(job__state=JobState.FAILED) & ~Q(job__reason_code=GIVEN_UP)
    return ended | by_itself | (~IS_PART & (Q(job__state=JobState.FAILED) | before))


def rents_open(pool: Pool, slot: int, most: int | None = None) -> dict[int, list[Award]]:
    """By job, in order: awards whose jobs have not started in their owner's world alone, nor been dropped there (K4),
    or whose jobs may still be done (D16); several where a job rents in pieces. A run that was cut short is cut in both
    worlds. `most`: awards. A job that the platform failed and that rests in this slot is not looked at."""
    rows = Award.objects.filter(~cut_short(pool), pool=pool, rent=RentState.OPEN)
    rows = rows.exclude(IS_PART, job__state=JobState.QUEUED, job__not_before__gt=slot)
    rents: dict[int, list[Award]] = {}
    open_rows = rows.select_related("job").order_by("job_id", "pk")
    for award in open_rows if most is None else open_rows[:most]:
        rents.setdefault(award.job_id, []).append(award)
    return rents


def undone(pool: Pool, rents: Mapping[int, Sequence[Award]], unfit: Container[int]) -> frozenset[int]:
    """Jobs of open rents that are over and were not done, where that makes a difference (D16). `unfit`: jobs that are
    refused for good now, without a plan."""
    if not pool.parts_worth_nothing:
        return frozenset()
    return frozenset(n for n, awards in rents.items() if n in unfit or awards[0].job.state in UNDONE)
