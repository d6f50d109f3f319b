"""Jobs as programs see them: where each is and why, what it was given, and what is still held for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from scheduling.models import Award, AwardState, Lane, LaneClock, Pool, TrainingJob
from scheduling.selectors.explain import JobView, jobs_explain


@dataclass(frozen=True)
class JobRow:
    job: TrainingJob
    view: JobView
    award: Award | None  # of the present attempt
    held: int  # micro-credits that are still set aside for it

    @property
    def start_slot(self) -> int | None:
        return self.award.start if self.award else None

    @property
    def end_slot(self) -> int | None:
        return self.award.end if self.award else None

    @property
    def parameter_servers(self) -> int:
        return self.award.ps if self.award else 0


def job_list() -> QuerySet[TrainingJob]:
    """The open tenant's jobs, with what `job_rows` needs at hand; without their specifications."""
    return TrainingJob.objects.select_related("pool", "tenant", "submitted_by").defer("spec")


def job_by_id(job_id: int) -> TrainingJob | None:
    """Of the open tenant."""
    return TrainingJob.objects.select_related("pool", "tenant", "submitted_by").filter(pk=job_id).first()


def job_rows(jobs: Sequence[TrainingJob]) -> list[JobRow]:
    """In their order, of whichever pools; as many queries as there are pools, and two more."""
    awards = {(award.job_id, award.attempt): award for award in Award.objects.filter(job__in=[job.pk for job in jobs])}
    by_pool: defaultdict[Pool, list[TrainingJob]] = defaultdict(list)
    for job in jobs:
        by_pool[job.pool].append(job)
    views = {view.id: view for pool, of_pool in by_pool.items() for view in jobs_explain(pool, of_pool)}
    settled = _settled(by_pool)
    return [_row(job, views[job.pk], awards.get((job.pk, job.attempt)), settled.get(job.pool_id, -1)) for job in jobs]


def _settled(pools: Mapping[Pool, object]) -> dict[int, int]:
    """Pool id -> the last slot that is paid for."""
    rows = LaneClock.objects.filter(pool__in=[pool.pk for pool in pools], lane=Lane.BATCH)
    return dict(rows.values_list("pool_id", "settled_slot"))


def _row(job: TrainingJob, view: JobView, award: Award | None, settled: int) -> JobRow:
    return JobRow(job, view, award, _held(award, settled) if award else 0)


def _held(award: Award, settled: int) -> int:
    """The charges of the slots that are not paid for yet. Nothing, once it is over."""
    if award.state not in (AwardState.BOOKED, AwardState.RUNNING):
        return 0
    ahead = award.charges[max(settled + 1 - award.start, 0) :]
    return sum(amount for slot in ahead for _, amount in slot)
