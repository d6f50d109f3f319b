"""Reading which jobs an interval decided about, for a person who asks a what-if question about one of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.db.models.expressions import RawSQL

from scheduling.core.collector import collector_resting
from scheduling.core.stored_jobs import document_and_jobs
from scheduling.core.types import AWARDED
from scheduling.market.reads import READING_ERRORS, contents_of
from scheduling.models import Award, Interval, Pool, TrainingJob
from scheduling.what_if.read_words import outcome_words
from tenants.models import Tenant
from tenants.scoping import scope_disabled

MOST_JOBS = 1_000  # most jobs in a list to choose from


@dataclass(frozen=True)
class JobAsked:
    """A job that waited in the interval; `outcome` says in words what it got there."""

    id: int
    name: str
    tenant: str
    slug: str
    spec: Mapping[str, Any]
    arrival: float
    outcome: str


@dataclass(frozen=True)
class IntervalAsked:
    """An interval and its jobs. `more` counts jobs that it decided about besides `jobs`; each of them can be asked
    about by its number."""

    interval: Interval
    jobs: tuple[JobAsked, ...]
    more: int
    is_readable: bool
    before: int | None
    after: int | None

    def job(self, job_id: int | None) -> JobAsked | None:
        return next((job for job in self.jobs if job.id == job_id), None)


def interval_asked(pool: Pool, number: int, *, tenant: Tenant | None, job: int | None = None) -> IntervalAsked | None:
    """Return the interval with the tenant's own jobs, in its scope; without a tenant, for readers who may see
    everybody's. It has the first of them, and the `job` of that number, if it is one of them."""
    interval = Interval.objects.filter(pool=pool, number=number).first()
    if interval is None:
        return None
    with collector_resting():
        decision = _decided(interval)
    jobs, more = _jobs(decision, tenant, job) if decision else ((), 0)
    later = Interval.objects.filter(pool=pool, number=number + 1).exists()
    return IntervalAsked(
        interval=interval,
        jobs=jobs,
        more=more,
        is_readable=decision is not None,
        before=number - 1 if number > 1 else None,
        after=number + 1 if later else None,
    )


def last_decided(pool: Pool, *, tenant: Tenant | None) -> int | None:
    """Return the number of the newest interval that gave something to a job of the tenant, or to anybody's."""
    if tenant is None:
        rows = Interval.objects.filter(pool=pool, jobs_awarded__gt=0).order_by("-number")
        return rows.values_list("number", flat=True).first()
    awards = Award.objects.filter(tenant=tenant, pool=pool, interval__isnull=False).order_by("-pk")
    return awards.values_list("interval__number", flat=True).first()


def jobs_named(job_ids: Iterable[int], *, tenant: Tenant | None) -> dict[int, tuple[str, str]]:
    """Return the name of each job, and the short name of its tenant."""
    with _reading(tenant):
        rows = TrainingJob.objects.filter(pk__in=set(job_ids)).values_list("pk", "name", "tenant__slug")
        return {pk: (name, slug) for pk, name, slug in rows}


def _reading(tenant: Tenant | None) -> AbstractContextManager[None]:
    return scope_disabled("an auditor asks about everybody's jobs") if tenant is None else nullcontext()


def _decided(interval: Interval) -> dict[int, str] | None:
    """Return number -> outcome of each job that waited and arrived before the slot of the decision. Return None where
    the bytes are unreadable."""
    try:
        contents = contents_of(interval)
        (view, came), plan = document_and_jobs(contents.view), json.loads(contents.plan)
        booked = {row["job"]: {"state": AWARDED, **row} for row in plan["bookings"]}
        refusals = {row["job"]: {"state": row["state"], "reason": row["code"]} for row in plan["refusals"]}
        waiting = [number for number in sorted(set(view["waiting"])) if came[number].arrival < view["slot"]]
    except READING_ERRORS:
        return None
    outcomes = refusals | booked
    return {number: outcome_words(outcomes[number]) if number in outcomes else "no news" for number in waiting}


def _jobs(numbers: Mapping[int, str], tenant: Tenant | None, also: int | None) -> tuple[tuple[JobAsked, ...], int]:
    """Return the jobs in the order of their numbers, and how many more there are."""
    with _reading(tenant):
        fields = ("name", "arrival", "spec", "tenant__name", "tenant__slug")  # of a thousand jobs: only these are read
        decided = RawSQL("SELECT unnest(%s::bigint[])", [list(numbers)])  # one parameter, and not ten thousand
        rows = TrainingJob.objects.filter(pk__in=decided).select_related("tenant").only(*fields).order_by("pk")
        jobs = list(rows[:MOST_JOBS])
        count = rows.count() if len(jobs) == MOST_JOBS else len(jobs)
        if also in numbers and also not in {row.pk for row in jobs}:
            jobs += rows.filter(pk=also)
    rows_shown = (
        JobAsked(row.pk, row.name, row.tenant.name, row.tenant.slug, row.spec, row.arrival, numbers[row.pk])
        for row in jobs
    )
    return tuple(rows_shown), count - len(jobs)
