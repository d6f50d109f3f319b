"""Verifying that what is done of jobs that rent in pieces is worth what the last interval that considered them says
(D4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from scheduling.core import records
from scheduling.market.reads import contents_of
from scheduling.market.view import is_divisible
from scheduling.models import Award, AwardState, Interval, JobState, Pool, TrainingJob


def worths_decided(pool: Pool, jobs: Sequence[TrainingJob]) -> dict[int, float | None]:
    """Return the worth by job of what is done of it. For jobs that wait and may be saved and resumed it is what an
    interval said; for those that are always sold whole it is None. Nothing reads the worth of a job in pieces that does
    not wait, so that job is left out.

    A job that waits was considered by the pool's last interval, or has had an award since, and then that award's
    interval says it. What the platform cut short is worth nothing until an interval considers it again.
    """
    worths: dict[int, float | None] = {job.pk: None for job in jobs if not is_divisible(job)}
    waiting = [job.pk for job in jobs if job.state == JobState.QUEUED and is_divisible(job)]
    if not waiting:
        return worths
    newest = Award.objects.filter(job__in=waiting, work__isnull=False).order_by("job_id", "-pk").distinct("job_id")
    awards = {award.job_id: award for award in newest}
    last = Interval.objects.filter(pool=pool).order_by("-number").first()

    @cache
    def worths_of(interval_id: int) -> dict[int, float | None]:
        contents = contents_of(Interval.objects.get(pk=interval_id))
        view, plan = records.view_from(contents.view), records.plan_from(contents.plan)
        return {job.number: plan.worths.get(job.number, view.worths.get(job.number)) for job in view.waiting}

    for number in waiting:
        award = awards.get(number)
        before = award.interval if award is not None else None
        looked_since = (
            last is not None and (before is None or last.number > before.number) and number in worths_of(last.pk)
        )
        if looked_since and last is not None:
            worths[number] = worths_of(last.pk)[number]
        elif award is None or before is None or award.state == AwardState.VOID:
            worths[number] = None
        else:
            worths[number] = worths_of(before.pk).get(number)
    return worths
