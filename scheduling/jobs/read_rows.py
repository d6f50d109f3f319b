"""Read jobs as programs see them: where each is and why, what it was given, and what is still held for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet

from scheduling.jobs.read_arrays import ArraySums, array_sums
from scheduling.market.reads import JobView, begun_read, has_several, job_view, paid_beside
from scheduling.models import CHARGES, MAY_HOLD, Award, Lane, LaneClock, TrainingJob, may_hold
from scheduling.programs.ordering import after_arrays, after_jobs
from tenants.access import Refused
from tenants.common.repeated import RepeatedRead, Whose

UNKNOWN_JOB = Refused("unknown_job", "There is no such job.")


@dataclass(frozen=True)
class JobRow:
    job: TrainingJob
    view: JobView
    award: Award | None  # of the present attempt
    held: int  # micro-credits that are still set aside for it
    array: ArraySums | None = None  # of which it is a member

    @property
    def index(self) -> int | None:
        """Return its index among the members of its array."""
        return None if self.array is None else self.array.array.indexes[self.job.array_place]

    @property
    def as_member(self) -> JobRow | None:
        return None if self.array is None else self

    @property
    def after_jobs(self) -> list[int]:
        return after_jobs(self.job.after)

    @property
    def after_arrays(self) -> list[int]:
        return after_arrays(self.job.after)

    @property
    def start_slot(self) -> int | None:
        return self.view.start

    @property
    def end_slot(self) -> int | None:
        return self.view.end

    @property
    def parameter_servers(self) -> int:
        return self.award.ps if self.award else 0


def job_list() -> QuerySet[TrainingJob]:
    """Return the open tenant's jobs with what `job_rows` needs, without their specifications. Many jobs share a pool
    and a person, so each of these is made once and not for every row."""
    return TrainingJob.objects.prefetch_related("pool", "tenant", "submitted_by").defer("spec")


def job_by_id(job_id: int) -> TrainingJob | None:
    """Return a job of the open tenant."""
    return next(iter(_job(job_id=job_id)), None)


_job = RepeatedRead(
    lambda job_id: TrainingJob.objects.select_related("pool", "tenant", "submitted_by").filter(pk=job_id).order_by(),
    of=Whose.ONE,
    job_id=-1,
)


def job_rows(jobs: Sequence[TrainingJob]) -> list[JobRow]:
    """Return the rows of jobs of whichever pools, in their order. This takes two queries, the second one only where
    something may be held; one more where a job has its awards slot by slot, two or three more where one goes on in
    pieces or was lost before, and three more where one is a member of an array."""
    newest = list(_newest([job.pk for job in jobs]) if len(jobs) != 1 else _newest_of_one(job_id=jobs[0].pk))
    begun_read(newest)
    if several := [award.pk for award in newest if has_several(award)]:
        beside = dict(Award.objects.filter(pk__in=several).annotate(beside=paid_beside()).values_list("pk", "beside"))
        for award in newest:
            award.paid_before = beside.get(award.pk, award.paid_before)
    awards = {award.job_id: award for award in newest}
    held = _held_by_job(newest)
    sums = array_sums({job.array_id for job in jobs if job.array_id is not None})
    rows = (_row(job, awards.get(job.pk), held) for job in jobs)
    return [replace(row, array=sums[row.job.array_id]) if row.job.array_id is not None else row for row in rows]


def job_row(job: TrainingJob, award: Award | None) -> JobRow:
    """Return the row of a job that was just submitted, with what it was given at once."""
    return _row(job, award, _held_by_job([award] if award else []))


def _newest(job_ids: Collection[int]) -> QuerySet[Award]:
    rows = Award.objects.filter(job__in=job_ids).order_by("job_id", "-attempt", "-start")
    return rows.distinct("job_id").only(*_FIELDS)


_newest_of_one = RepeatedRead(lambda job_id: _newest([job_id]), of=Whose.ONE, job_id=-1)
_FIELDS: tuple[str, ...] = ("job", "attempt", "pool", "state", "phase", "start", "end", "workers", "ps", "paid")
_FIELDS += ("returned", *CHARGES, "rent", "adjusted", "cut_at", "pays_from", "work_left", "paid_before", "work")


def _settled(pools: Collection[int]) -> dict[int, int]:
    """Return the last slot that is paid for, by pool id."""
    if not pools:
        return {}
    rows = LaneClock.objects.filter(pool__in=pools, lane=Lane.BATCH)
    return dict(rows.values_list("pool_id", "settled_slot"))


def _row(job: TrainingJob, award: Award | None, held: Mapping[int, int]) -> JobRow:
    """Return the row of a job. `award` is its newest."""
    of_attempt = award if award and award.attempt == job.attempt else None
    return JobRow(job, job_view(job.pool, job, award), of_attempt, held.get(job.pk, 0))


def _held_by_job(newest: Sequence[Award]) -> dict[int, int]:
    """Return what the slots that are not paid for yet cost, by job: slots of the newest award of each job, or of all
    its pieces, as the rents of pieces that are over may still be open."""
    in_pieces = [award.job_id for award in newest if award.work is not None]
    holding = [award for award in newest if award.work is None and may_hold(award)]
    if in_pieces:
        holding += Award.objects.filter(MAY_HOLD, job__in=in_pieces, work__isnull=False, paid__gt=0).only(*_FIELDS)
    settled = _settled({award.pool_id for award in holding})
    held: defaultdict[int, int] = defaultdict(int)
    for award in holding:
        held[award.job_id] += award.owed_after(settled.get(award.pool_id, -1))
    return held
