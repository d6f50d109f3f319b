"""Read every job of a period with its charge, or the reason why it has none. No job is left out.

A job belongs to a period if it was submitted in it, or if money moved for it in that period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Case, Count, OuterRef, Q, Subquery, When, Window
from django.db.models.functions import JSONObject

from scheduling.market.reads import reason_sentence
from scheduling.models import CHARGES, Award, AwardState, JobState, RentState, TrainingJob
from tenants.ledger.sums import MovedBy
from tenants.models import Tenant

CHUNK = 1_000  # jobs in memory at once
# The order that finds the award which explains why a job has no charge: one whose rent is open, or else the newest.
_TELLING = (Case(When(rent=RentState.OPEN, then=0), default=1), "-attempt", "-start")


@dataclass(frozen=True)
class Reconciled:
    """One job. `charge` is the micro-credits paid for it in the period; `reason` says why there are none, else it is
    empty."""

    job_id: int
    name: str
    lane: str
    state: str
    submitted_at: datetime
    charge: int
    reason: str


def jobs_of_period(*, tenant: Tenant, start: datetime, end: datetime, moved: Iterable[int]) -> list[int]:
    """Return the ids of the period's jobs, the oldest first. `moved` are the jobs for which money moved."""
    submitted = TrainingJob.objects.filter(tenant=tenant, submitted_at__gte=start, submitted_at__lt=end)
    ids = submitted.order_by().aggregate(ids=ArrayAgg("pk", default=[]))["ids"]  # one value, as there are thousands
    return sorted({*ids, *moved})


def reconciled(*, job_ids: Sequence[int], charges: Mapping[int, int]) -> list[Reconciled]:
    """Return these jobs with their charges, in the order of `job_ids`. Takes two queries. Needs the tenant's scope."""
    jobs = {job.pk: job for job in TrainingJob.objects.filter(pk__in=job_ids).select_related("pool").defer("spec")}
    rows = Award.objects.filter(job__in=job_ids).order_by("job_id", *_TELLING).distinct("job_id")
    awards = {award.job_id: award for award in rows.defer(*CHARGES, "allocation", "on_operator")}
    return [_row(jobs[n], awards.get(n), charges.get(n, 0)) for n in job_ids if n in jobs]


@dataclass(frozen=True)
class Uncharged:
    """The newest jobs of a period without a charge, their number, and the number of all jobs of the period."""

    jobs: tuple[Reconciled, ...]
    count: int
    of: int


def uncharged(*, tenant: Tenant, start: datetime, end: datetime, moved: Sequence[MovedBy], most: int) -> Uncharged:
    """Read the jobs of a period without a charge, in one query. `moved` is what moved in it by subject. Needs the
    tenant's scope."""
    numbers = {row.subject: job_number(row.subject) for row in moved}
    charged = {numbers[row.subject] for row in moved if row.spent} - {None}
    touched = {number for number in numbers.values() if number is not None} - charged
    inside = Q(submitted_at__gte=start, submitted_at__lt=end) | Q(pk__in=touched)
    award = Award.objects.filter(job=OuterRef("pk")).order_by(*_TELLING)
    terms = JSONObject(paid="paid", state="state", returned="returned", rent="rent", adjusted="adjusted")
    rows = (
        TrainingJob.objects.filter(inside, tenant=tenant)
        .exclude(pk__in=charged)
        .annotate(award=Subquery(award.values(terms=terms)[:1]), found=Window(Count("*")))
        .select_related("pool")
        .defer("spec")
        .order_by("-submitted_at", "-pk")[:most]
    )
    jobs = [(job, Award(**job.award) if job.award else None, job.found) for job in rows]
    count = jobs[0][2] if jobs else 0
    return Uncharged(tuple(_row(job, award, 0) for job, award, _ in jobs), count, count + len(charged))


def job_number(subject: str) -> int | None:
    kind, _, number = subject.partition(":")
    return int(number) if kind == "job" and number.isdecimal() else None


def _row(job: TrainingJob, award: Award | None, charge: int) -> Reconciled:
    reason = "" if charge else _reason(job, award)
    return Reconciled(job.pk, job.name, job.lane, job.state, job.submitted_at, charge, reason)


def _reason(job: TrainingJob, award: Award | None) -> str:
    if award is None:
        why = reason_sentence(job.pool, job.reason_code, job.reason_numbers)
        verb = "Still waits" if job.state == JobState.QUEUED else f"Never started ({job.get_state_display().lower()})"
        return f"{verb}: {why[:1].lower()}{why[1:]}"
    if award.paid == 0:
        over = award.state in (AwardState.DONE, AwardState.ENDED, AwardState.VOID)
        return "Ran at home: your own cells are free." if over else "Runs at home: your own cells are free."
    if award.rent == RentState.OPEN and award.returned < award.paid:
        return "Payment is set aside until it is known what is due; nothing was paid for in this period."
    if award.adjusted and award.returned == award.paid:
        return "All that was set aside came back: it was never done, or alone it would have been worth more."
    if award.state == AwardState.VOID:
        return "The platform failed it: what was not delivered was refunded."
    if award.state == AwardState.ENDED and award.returned:
        return "Cancelled before its start: what was set aside came back."
    return "Payment is set aside; no slot of it was paid for in this period."
