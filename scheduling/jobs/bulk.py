"""Jobs in bulk: many jobs in one act, each with its own specification, and all are submitted or none. After that each
is a job like any other: its row and its event are the same as if it had been submitted by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.common import Steps
from scheduling.jobs.describing import JobWording, job_understood
from scheduling.jobs.intake import Intake, pool_closed
from scheduling.jobs.submission import (
    KEY_REUSED,
    Checked,
    InvalidJob,
    client_key_flaw,
    client_key_take,
    job_digest,
    job_ready,
    rows_store,
    submissions_announce,
    waiting_reason_set,
)
from scheduling.models import JobDescription, Lane, Pool, TrainingJob
from scheduling.programs.ordering import Waited, waited_in_order
from tenants.access import Access, Refused
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

MOST_JOBS = 1_000
MOST_FAULTS = 100  # jobs that a refusal names
NOT_AT_ONCE = InvalidJob(
    "invalid_job",
    "lane: jobs in bulk wait for the next interval. The instant lane answers each job by itself: submit them so.",
    "lane",
)
HOW_MANY = InvalidJob("invalid_job", f"jobs: must be 1 to {MOST_JOBS:,} jobs.", "jobs")


@dataclass(frozen=True)
class JobWords:
    """The request for one job: either a name and a specification, or a `wording`, in which a person describes the job.
    `begin` and `after` are those of `job_submit`; a wording has its own."""

    name: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    begin: datetime | None = None
    after: Sequence[Waited] = ()
    wording: JobWording | None = None


@dataclass(frozen=True)
class SubmittedJobs:
    """Jobs that were accepted, in the order of the request. `repeated` says that the same submission had been accepted
    before."""

    jobs: Sequence[TrainingJob]
    repeated: bool


@dataclass(frozen=True)
class JobsRefused(Refused):
    """The refusal of all jobs of a request. `jobs` is how many there are, `refused` how many of them cannot be
    accepted, and `faults` holds the first of these by index, each with its refusal."""

    jobs: int
    refused: int
    faults: tuple[tuple[int, Refused], ...]


def jobs_submit(
    *,
    pool: Pool,
    words: Sequence[JobWords],
    by: Access,
    at: datetime,
    client_key: str | None = None,
    lane: str = Lane.BATCH.value,
) -> SubmittedJobs | Refused:
    """Submit all these jobs in the batch lane, or none. A submission with a client key happens once; each of its jobs
    keeps a key that is derived from that one."""
    if by.tenant is None or not by.allows(Permission.JOBS_SUBMIT):
        return NOT_ALLOWED
    if lane != Lane.BATCH:
        return NOT_AT_ONCE
    if not 1 <= len(words) <= MOST_JOBS:
        return HOW_MANY
    if client_key is not None and (flaw := client_key_flaw(client_key)):
        return flaw
    digests = [_digest(pool, each) for each in words]
    with scope(by.tenant):
        return _stored(Intake(pool, by.tenant, by.user, at, waits=True), words, by, client_key, digests)


@transaction.atomic
def _stored(
    intake: Intake, words: Sequence[JobWords], by: Access, client_key: str | None, digests: Sequence[str]
) -> SubmittedJobs | Refused:
    # 1. Gather and decide: first what holds for all jobs, then each job by itself.
    if earlier := _earlier(intake.tenant, client_key, digests):
        return earlier
    if closed := pool_closed(intake, Lane.BATCH):
        return closed
    steps, answers = Steps("admission", f"of {len(words)} jobs"), [_ready(intake, each, by) for each in words]
    refused = [(index, answer) for index, answer in enumerate(answers) if isinstance(answer, Refused)]
    if refused:
        return jobs_refused(refused, len(words))
    ready = [answer for answer in answers if isinstance(answer, Checked)]
    steps.done("check", jobs=len(ready), pool=intake.pool.slug)

    # 2. Apply: store the jobs, their probable starts, and the events of their submission.
    for each, key, digest in zip(ready, _keys(client_key, len(words)), digests, strict=True):
        each.job.client_key, each.job.request_digest = key, digest
        waiting_reason_set(each, intake.at)
    rows_store(ready)
    steps.done("store", jobs=len(ready), pool=intake.pool.slug)
    submissions_announce(ready, intake.at, steps)
    return SubmittedJobs([each.job for each in ready], repeated=False)


def _ready(intake: Intake, words: JobWords, by: Access) -> Checked | Refused:
    lane = Lane.BATCH.value
    if words.wording is None:
        after = waited_in_order(words.after)
        return job_ready(intake, words.name, words.spec, lane, begin=words.begin, after=after)
    understood = job_understood(pool=intake.pool, wording=words.wording, by=by, at=intake.at, intake=intake)
    if isinstance(understood, Refused):
        return understood
    later: dict[str, Any] = {"begin": understood.begin, "after": understood.after}
    later |= {"worth_from": understood.worth_from}
    ready = job_ready(intake, understood.name, understood.spec, lane, **later)
    return ready if isinstance(ready, Refused) else replace(ready, description=understood.row)


def jobs_refused(refused: Sequence[tuple[int, Refused]], jobs: int) -> JobsRefused:
    """Refuse all `jobs` jobs. `refused` holds the index and the refusal of each that cannot be accepted."""
    index, first = refused[0]
    others = f" {len(refused)} of the {jobs:,} jobs cannot be taken, so none is." if len(refused) > 1 else ""
    sentence = f"jobs[{index}]: {first.sentence}{others}"
    return JobsRefused("jobs_refused", sentence, jobs, len(refused), tuple(refused[:MOST_FAULTS]))


def _digest(pool: Pool, words: JobWords) -> str:
    """Return the same digest as for a job that is submitted by itself."""
    lane = Lane.BATCH.value
    if words.wording is None:
        later = (words.begin, waited_in_order(words.after))
        return job_digest(pool, words.name, words.spec, lane, None, None, *later)
    described = JobDescription(how=words.wording.how, said=words.wording.document)
    return job_digest(pool, "", {}, lane, None, described, None, ())


def _keys(client_key: str | None, count: int) -> list[str | None]:
    """Return a key for each job. The first job keeps the client's key itself, so that a key stands for one submission,
    whether of one job or in bulk."""
    if client_key is None:
        return [None] * count
    return [client_key, *(hashlib.sha256(f"{client_key} {index}".encode()).hexdigest() for index in range(1, count))]


def _earlier(tenant: Tenant, client_key: str | None, digests: Sequence[str]) -> SubmittedJobs | Refused | None:
    """Return the jobs that this key has already made, or None. The key is refused if it has made others than these."""
    if client_key is None or client_key_take(tenant, client_key) is None:
        return None
    keys = _keys(client_key, len(digests) + 1)
    rows = {row.client_key: row for row in TrainingJob.objects.filter(client_key__in=keys)}
    jobs = [rows.get(key) for key in keys]
    if [job and job.request_digest for job in jobs] != [*digests, None]:
        return KEY_REUSED
    return SubmittedJobs([job for job in jobs if job is not None], repeated=True)
