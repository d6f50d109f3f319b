"""Submitting a job: checked, remembered under its client's key, and handed to its lane."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from scheduling.core.estimates.remaining import check_speeds
from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.fields import text
from scheduling.models import Award, JobState, Lane, LaneClock, Pool, TrainingJob
from scheduling.services.cooling import cooling
from scheduling.services.estimates import estimate_keep
from scheduling.services.feed import event, events_append, job_subject
from scheduling.services.instant import instant_admit
from scheduling.services.lanes import clocks_of, frontier_of, lane_lock
from scheduling.services.lanes import closes as closes
from scheduling.services.programs import program_of
from scheduling.services.second_chance import job_queue
from scheduling.snapshots.budgets import left_for, tenant_limits
from scheduling.snapshots.jobs import arrival_of
from scheduling.snapshots.specs import SpecRead, spec_read
from tenants.access import Access, Refused
from tenants.models import Tenant, User
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

LONGEST_KEY = 200
OURS = ("name", "tenant", "lane", "arrival")  # fields of a scenario's job that the market fills in itself
# Refusals of the instant lane before it looks at a job's price; the batch lane may take the job all the same.
NOT_AT_ONCE = ("lane_closed", "market_held", "cooling")


@dataclass(frozen=True)
class InvalidJob(Refused):
    field: str


@dataclass(frozen=True)
class OverBudget(Refused):
    """Micro-credits."""

    left: int


@dataclass(frozen=True)
class Checked:
    """The row that would be stored, what it means, and the first slot that the batch lane has not sold yet."""

    job: TrainingJob
    read: SpecRead
    frontier: int


@dataclass(frozen=True)
class Submitted:
    """`award`: what an instant job got at once. `repeated`: the same submission had been taken before."""

    job: TrainingJob
    award: Award | None
    repeated: bool


def job_submit(
    *,
    pool: Pool,
    name: str,
    spec: Mapping[str, Any],
    lane: str,
    by: Access,
    at: datetime,
    client_key: str | None = None,
    otherwise: str | None = None,
) -> Submitted | Refused:
    """`spec`: the job in the words of a scenario file, without name, tenant, lane and arrival.

    `otherwise`: "batch", for a job that waits for the next interval if the instant lane does not take it at once.
    A submission with a client key happens once: repeated, also after a lost reply, it gives the same job back, and
    does what of it was not done.
    """
    if by.tenant is None or not by.allows(Permission.JOBS_SUBMIT):
        return NOT_ALLOWED
    if otherwise is not None and (lane, otherwise) != (Lane.INSTANT, Lane.BATCH):
        return InvalidJob("invalid_job", "otherwise: only an instant job can go to the batch lane.", "otherwise")
    with scope(by.tenant):
        digest = _digest(pool, name, spec, lane, otherwise)
        answer = _submit(by.tenant, pool, name, spec, lane, by, at, client_key, digest)
        if otherwise is not None and isinstance(answer, Refused) and answer.code in NOT_AT_ONCE:
            said = answer.code
            answer = _submit(by.tenant, pool, name, spec, otherwise, by, at, client_key, digest, instead_of=said)
    if otherwise is None or isinstance(answer, Refused) or _taken(answer.job):
        return answer
    queued = job_queue(job_id=answer.job.pk, by=by, at=at)
    if isinstance(queued, Refused):  # the same submission, sent twice at once, has queued it and more
        with scope(by.tenant):
            answer.job.refresh_from_db()
    return Submitted(answer.job if isinstance(queued, Refused) else queued, None, answer.repeated)


def _taken(job: TrainingJob) -> bool:
    return job.lane == Lane.BATCH or job.state != JobState.REJECTED


@transaction.atomic
def _submit(
    tenant: Tenant,
    pool: Pool,
    name: str,
    spec: Mapping[str, Any],
    lane: str,
    by: Access,
    at: datetime,
    client_key: str | None,
    digest: str,
    instead_of: str = "",
) -> Submitted | Refused:
    """`instead_of`: why the instant lane did not even look at it."""
    if earlier := _earlier(client_key, digest):
        return earlier
    checked = job_checked(tenant, pool, name, spec, lane, by.user, at)
    if isinstance(checked, Refused):
        return checked
    checked.job.client_key, checked.job.request_digest = client_key, digest
    return _take(checked, at, instead_of)


def job_checked(
    tenant: Tenant, pool: Pool, name: str, spec: Mapping[str, Any], lane: str, user: User | None, at: datetime
) -> Checked | Refused:
    """What would be stored, or why it cannot be."""
    clocks = clocks_of(pool)
    if refusal := _closed(pool, lane, clocks, at):
        return refusal
    arrival = arrival_of(pool, at)
    try:
        text(name, "name")
        if taken := [field for field in OURS if field in spec]:
            raise BadScenario(taken[0], "is not part of a job's specification")
        read = spec_read(pool, spec, tenant_id=tenant.pk, arrival=arrival, lane=lane)
        program_of(spec)
        if pool.is_elastic:
            check_speeds([read.job])  # the pool's policy believes them
    except BadScenario as error:
        field = error.place.removeprefix("jobs[0]").removeprefix(".")
        return InvalidJob("invalid_job", f"{field or 'The job'}: {error.message}.", field)
    if refusal := _over_budget(tenant, user, spec, at) or (cooling(pool, spec, at) if lane == Lane.INSTANT else None):
        return refusal
    job = TrainingJob(
        tenant=tenant,
        pool=pool,
        name=name,
        lane=lane,
        spec=dict(spec),
        submitted_at=at,
        submitted_by=user,
        arrival=arrival,
    )
    return Checked(job, read, frontier_of(clocks))


def _closed(pool: Pool, lane: str, clocks: Mapping[str, LaneClock], at: datetime) -> Refused | None:
    if lane not in Lane.values:
        return InvalidJob("invalid_job", f"lane: must be one of {', '.join(Lane.values)}.", "lane")
    if at < pool.epoch_at:
        return Refused("pool_not_open", f"{pool.name} opens at {pool.epoch_at:%Y-%m-%d %H:%M} UTC.")
    if any(clock.draining for clock in clocks.values()):
        return Refused("pool_draining", f"{pool.name} is coming to rest and takes no new jobs.")
    if lane == Lane.INSTANT and pool.instant_policy is None:
        return Refused("lane_closed", f"{pool.name} has no instant lane.")
    return None


def _over_budget(tenant: Tenant, user: User | None, spec: Mapping[str, Any], at: datetime) -> OverBudget | None:
    """A budget that is used up lets no job in that would want to rent."""
    left = left_for(tenant_limits(tenant_id=tenant.pk, at=at), tenant.pk, user.pk if user else None)
    if left == 0 and spec.get("rent") != "never":
        return OverBudget("over_budget", "The budget of this period is used up.", 0)
    return None


def _take(checked: Checked, at: datetime, instead_of: str) -> Submitted | Refused:
    job = checked.job
    # The lane's lock comes before the row: whoever sends the same key meanwhile waits for the row's fate.
    if job.lane == Lane.INSTANT:
        clock = lane_lock(pool_id=job.pool_id, lane=Lane.INSTANT)
        if clock is not None and clock.held:
            return Refused("market_held", "The market is on hold; nothing new is decided.")
        job.reason_code = "deciding"  # for the length of this transaction
    else:
        asked = {"instant": instead_of} if instead_of else {}
        job.reason_code, job.reason_numbers = "waiting_for_interval", closes(job.pool, at, checked.frontier) | asked
    try:
        with transaction.atomic() if job.client_key else nullcontext():
            job.save(force_insert=True)
    except IntegrityError:
        # Only the client's key is unique. The other submission has committed by now, or the insert would wait.
        if earlier := _earlier(job.client_key, job.request_digest):
            return earlier
        raise
    said = {"name": job.name, "lane": job.lane} | ({"instant": instead_of} if instead_of else {})
    news = event(
        "job_submitted", pool_id=job.pool_id, tenant_id=job.tenant_id, subject=job_subject(job.pk), at=at, data=said
    )
    if job.lane == Lane.INSTANT:
        return Submitted(job, instant_admit(job=job, at=at, told=[news]), repeated=False)
    events_append([news])
    if not job.pool.is_elastic:  # there nobody can say when, and what a slot costs is posted
        estimate_keep(job=job, read=checked.read, frontier=checked.frontier, at=at)
    return Submitted(job, None, repeated=False)


def _earlier(client_key: str | None, digest: str) -> Submitted | Refused | None:
    """The job that this key has already made."""
    if client_key is None:
        return None
    if not 0 < len(client_key) <= LONGEST_KEY or not client_key.isprintable():
        return Refused("invalid_key", f"A client key has 1 to {LONGEST_KEY} printable characters.")
    job = TrainingJob.objects.filter(client_key=client_key).first()
    if job is None:
        return None
    if job.request_digest != digest:
        return Refused("key_reused", "This key was used for another submission.")
    return Submitted(job, Award.objects.filter(job=job).order_by("-attempt", "-start").first(), repeated=True)


def _digest(pool: Pool, name: str, spec: Mapping[str, Any], lane: str, otherwise: str | None) -> str:
    request = {"pool": pool.pk, "name": name, "spec": dict(spec), "lane": lane}
    if otherwise is not None:
        request["otherwise"] = otherwise
    return hashlib.sha256(json.dumps(request, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
