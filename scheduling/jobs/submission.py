"""Submission of a job: it is checked, stored under its client's key, and handed to its lane."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from scheduling.common import Steps, as_sentence
from scheduling.core.estimates.remaining import check_speeds
from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.fields import text
from scheduling.feed import events_append
from scheduling.jobs.intake import Intake, over_budget, pool_closed
from scheduling.jobs.second_chance import job_queue
from scheduling.market.calendar import closes, lane_lock
from scheduling.market.decide import (
    Pinned,
    cooling,
    estimates_keep,
    instant_admit,
    program_pinned,
    submission_event,
)
from scheduling.market.elastic import target_check
from scheduling.market.reads import jobs_named
from scheduling.market.view import SpecRead, arrival_of, gives_floors
from scheduling.models import (
    AFTER_OTHERS,
    PROGRAM,
    Award,
    JobDescription,
    JobState,
    Lane,
    Pool,
    TrainingJob,
)
from scheduling.programs.ordering import Waited, waited_in_order
from scheduling.programs.saving import DIVISIBLE, SAVE_SLOTS, UNBROKEN, Saves, pieces_added, unbroken_added
from scheduling.refusals import NOT_AT_ONCE
from tenants.access import Access, Refused
from tenants.models import Tenant, User
from tenants.names import is_blank
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

LONGEST_KEY = 200
AT_ONCE = 1_000  # rows of one statement
# Fields of a scenario's job that the market fills in itself, or that only logs of other clusters have.
OURS = ("name", "tenant", "lane", "arrival", "asked_workers")
KEY_REUSED = Refused("key_reused", "This key was used for another submission.")


@dataclass(frozen=True)
class InvalidJob(Refused):
    field: str


@dataclass(frozen=True)
class Checked:
    """A job that passed all checks: the row that would be stored, and what it means. It arrives no sooner than `begin`.
    `description` is how a person described it, and is stored with the job."""

    job: TrainingJob
    read: SpecRead
    begin: datetime | None = None
    description: JobDescription | None = None


@dataclass(frozen=True)
class Wish:
    """A job to be submitted, in the same form for both lanes."""

    tenant: Tenant
    pool: Pool
    name: str
    spec: Mapping[str, Any]
    user: User | None
    at: datetime
    client_key: str | None
    digest: str
    description: JobDescription | None
    begin: datetime | None
    after: Sequence[Waited]
    worth_from: datetime | None


@dataclass(frozen=True)
class Submitted:
    """A job that was accepted. `award` is what an instant job was awarded at once. `repeated` says that the same
    submission had been accepted before."""

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
    description: JobDescription | None = None,
    begin: datetime | None = None,
    after: Sequence[Waited] = (),
    worth_from: datetime | None = None,
) -> Submitted | Refused:
    """Submit one job. `spec` is the job as in a scenario file, without name, tenant, lane and arrival.

    `otherwise` is "batch" for a job that shall wait for the next interval if the instant lane does not accept it at
    once. `description` is the person's description that `spec` was made of, and is stored with the job. The job arrives
    no sooner than `begin`, and its value counts from then. `after` holds numbers of the tenant's jobs that must have
    ended well before, and arrays all of whose jobs must have, such as A-12. The value counts from `worth_from` at
    the latest, if there is one, also when the job arrives later because it waits for others or gets a second chance. A
    submission with a client key happens once: a repetition, also after a lost reply, returns the same job and completes
    what had not been done.
    """
    if by.tenant is None or not by.allows(Permission.JOBS_SUBMIT):
        return NOT_ALLOWED
    if refusal := lanes_refused(lane, otherwise) or _later_refused(lane, begin, after, at):
        return refusal
    after = waited_in_order(after)
    digest = job_digest(pool, name, spec, lane, otherwise, description, begin, after)
    wish = Wish(by.tenant, pool, name, spec, by.user, at, client_key, digest, description, begin, after, worth_from)
    with scope(by.tenant):
        answer = _submit(wish, lane)
        if otherwise is not None and isinstance(answer, Refused) and answer.code in NOT_AT_ONCE:
            answer = _submit(wish, otherwise, instead_of=answer.code)
    if otherwise is None or isinstance(answer, Refused) or _is_accepted(answer.job):
        return answer
    queued = job_queue(job_id=answer.job.pk, by=by, at=at)
    if isinstance(queued, Refused):  # no interval holds it, or the same submission, sent twice at once, has queued it
        with scope(by.tenant):
            answer.job.refresh_from_db()
    return Submitted(answer.job if isinstance(queued, Refused) else queued, None, answer.repeated)


def lanes_refused(lane: str, otherwise: str | None) -> InvalidJob | None:
    """Return why a job cannot be decided about in this lane, or not in `otherwise` after it."""
    if lane not in Lane.values:
        return InvalidJob("invalid_job", f"lane: must be one of {', '.join(Lane.values)}.", "lane")
    if otherwise is not None and (lane, otherwise) != (Lane.INSTANT, Lane.BATCH):
        return InvalidJob("invalid_job", "otherwise: only an instant job can go to the batch lane.", "otherwise")
    return None


def _is_accepted(job: TrainingJob) -> bool:
    return job.lane == Lane.BATCH or job.state != JobState.REJECTED


def _later_refused(lane: str, begin: datetime | None, after: Sequence[Waited], at: datetime) -> InvalidJob | None:
    if begin is not None and begin > at and lane == Lane.INSTANT:
        return InvalidJob("invalid_job", "begin: a job of the instant lane is decided now.", "begin")
    if after and lane == Lane.INSTANT:
        return InvalidJob("invalid_job", "after: a job of the instant lane is decided now.", "after")
    return None


@transaction.atomic(savepoint=False)  # a failure here undoes the whole transaction anyway
def _submit(wish: Wish, lane: str, instead_of: str = "") -> Submitted | Refused:
    """Check and store the job in `lane`. `instead_of` is the code of the instant lane's refusal, if there was one."""
    if earlier := earlier_submission(wish.tenant, wish.client_key, wish.digest):
        return earlier
    intake = Intake(wish.pool, wish.tenant, wish.user, wish.at, waits=lane == Lane.BATCH)
    later: dict[str, Any] = {"begin": wish.begin, "after": wish.after, "worth_from": wish.worth_from}
    checked = job_ready(intake, wish.name, wish.spec, lane, **later)
    if isinstance(checked, Refused):
        return checked
    checked.job.client_key, checked.job.request_digest = wish.client_key, wish.digest
    return _take(replace(checked, description=wish.description), wish, instead_of)


def job_ready(
    intake: Intake,
    name: str,
    spec: Mapping[str, Any],
    lane: str,
    *,
    begin: datetime | None = None,
    after: Sequence[Waited] = (),
    together: bool = False,
    worth_from: datetime | None = None,
) -> Checked | Refused:
    """Return the row as it will wait in its lane, without the client's key, or a refusal. `after` is in order, and
    the worth counts from `worth_from` at the latest, if there is one."""
    checked = job_checked(intake, name, spec, lane, begin=begin, together=together)
    if isinstance(checked, Refused):
        return checked
    if lane == Lane.BATCH and (never := intake.fitting.never(checked.job, frontier=checked.read.rows.frontier)):
        return never
    unfinished = intake.unfinished(tuple(after))
    if isinstance(unfinished, str):
        return InvalidJob("invalid_job", as_sentence(f"after: {unfinished}"), "after")
    checked.job.after, checked.job.not_before = list(after), AFTER_OTHERS if unfinished else 0
    checked.job.worth_from = None if worth_from is None else arrival_of(intake.pool, worth_from)
    return checked


def job_checked(
    intake: Intake,
    name: str,
    spec: Mapping[str, Any],
    lane: str,
    *,
    begin: datetime | None = None,
    read: SpecRead | None = None,
    together: bool = False,
) -> Checked | Refused:
    """Return what would be stored, or a refusal. `read` is the specification as it was just checked and read for this
    lane and arrival; it is not checked again. `together` says that the job is bought with others, all or none."""
    pool, at = intake.pool, intake.at
    if refusal := lanes_refused(lane, None) or pool_closed(intake, lane):
        return refusal
    arrival = arrival_of(pool, max(at, begin or at))
    if read is None:
        checked = spec_checked(intake, name, spec, lane, arrival, together=together)
        if isinstance(checked, Refused):
            return checked
        spec, read = checked
    if refusal := over_budget(intake, spec) or (cooling(pool, spec, at) if lane == Lane.INSTANT else None):
        return refusal
    job = TrainingJob(
        tenant=intake.tenant,
        pool=pool,
        name=name,
        lane=lane,
        spec=dict(spec),
        submitted_at=at,
        submitted_by=intake.user,
        arrival=arrival,
    )
    return Checked(job, read, begin)


def spec_checked(
    intake: Intake,
    name: str,
    spec: Mapping[str, Any],
    lane: str,
    arrival: float,
    *,
    unregistered: Saves | None = None,
    together: bool = False,
) -> tuple[Mapping[str, Any], SpecRead] | InvalidJob:
    """Check that a job of this pool can have this name and specification. Return the specification, with the version
    of its program pinned and with whether it rents in pieces, as far as its program says that, and what was read.

    `unregistered` says how the program saves if it is registered only with the submission, and so cannot be pinned.
    """
    pool, tenant_id = intake.pool, intake.tenant.pk
    try:
        if is_blank(text(name, "name")):
            raise BadScenario("name", "must have a character that can be seen")
        if extras := [field for field in OURS if field in spec]:
            raise BadScenario(extras[0], "is not part of a job's specification")
        read = intake.reader.read(spec, arrival=arrival, lane=lane)
        sells_pieces = gives_floors(pool)
        if read.job.divisible and not sells_pieces:
            raise BadScenario(DIVISIBLE, f"{pool.name} sells whole jobs only")
        target_check(spec, read.job, elastic=pool.is_elastic, has_program=PROGRAM in spec)
        pinned = Pinned(dict(spec), unregistered)
        if unregistered is None:
            pinned = program_pinned(spec, tenant_id=tenant_id, job=read.job, among=intake.programs)
        seconds = float(pool.slot_seconds)
        added = pieces_added(pinned.spec, pinned.saves, seconds, sells_pieces=sells_pieces, together=together)
        added |= unbroken_added({**pinned.spec, **added}, pinned.saves)
        if added:
            pinned.spec.update(added)
            job = replace(
                read.job,
                divisible=bool(pinned.spec.get(DIVISIBLE)),
                save_slots=float(pinned.spec.get(SAVE_SLOTS, 0.0)),
                unbroken=bool(pinned.spec.get(UNBROKEN)),
            )
            read = replace(read, job=job)
        if pool.is_elastic:
            check_speeds([read.job])  # the pool's policy believes them
    except BadScenario as error:
        field = error.place.removeprefix("jobs[0]").removeprefix(".")
        return InvalidJob("invalid_job", as_sentence(f"{field or 'The job'}: {error.message}"), field)
    return pinned.spec, read


def _take(checked: Checked, wish: Wish, instead_of: str) -> Submitted | Refused:
    job, clock, at = checked.job, None, wish.at
    if job.lane == Lane.INSTANT:
        clock = lane_lock(pool_id=job.pool_id, lane=Lane.INSTANT)
        if clock is None or clock.held:
            return Refused("market_held", "The market is on hold; nothing new is decided.")
        job.reason_code = "deciding"  # for the length of this transaction
    else:
        waiting_reason_set(checked, at)
        job.reason_numbers |= {"instant": instead_of} if instead_of else {}
    steps = Steps("admission", "")
    rows_store([checked])
    steps.is_about(f"job {job.pk}")
    steps.done("store", lane=job.lane, pool=job.pool.slug)
    if clock is not None:
        news = submission_event(job, at=at)
        return Submitted(job, instant_admit(job=job, clock=clock, at=at, earlier_news=[news]), repeated=False)
    submissions_announce([checked], at, steps, instead_of=instead_of)
    return Submitted(job, None, repeated=False)


def waiting_reason_set(checked: Checked, at: datetime) -> None:
    """Write into the job's row what the job waits for. The row is not saved."""
    job = checked.job
    if job.not_before == AFTER_OTHERS:
        job.reason_code, job.reason_numbers = "waits_for_jobs", {"jobs": jobs_named(job.after)}
    else:
        closing = closes(job.pool, max(at, checked.begin or at), checked.read.rows.frontier)
        job.reason_code, job.reason_numbers = "waiting_for_interval", closing


def rows_store(submitted: Sequence[Checked]) -> None:
    """Store the jobs and their descriptions, each in one statement. After this the jobs have their numbers."""
    TrainingJob.objects.bulk_create([each.job for each in submitted], batch_size=AT_ONCE)
    described = [(each.job, each.description) for each in submitted if each.description is not None]
    for job, description in described:
        description.job, description.tenant = job, job.tenant
    if described:
        JobDescription.objects.bulk_create([description for _, description in described], batch_size=AT_ONCE)


def submissions_announce(
    submitted: Sequence[Checked], at: datetime, steps: Steps, *, estimated: bool = True, instead_of: str = ""
) -> None:
    """Store when jobs of the batch lane will probably start, where that can be estimated, and append the events of
    their submission."""
    # In an elastic pool the start cannot be estimated, and the price of a slot is posted. Nor can it be estimated for a
    # job that waits for others.
    by_itself = [each for each in submitted if not each.job.pool.is_elastic and each.job.not_before != AFTER_OTHERS]
    pairs = [(each.job, each.read) for each in by_itself if estimated]
    estimates = estimates_keep(pairs, at=at)
    steps.done("estimate")
    events = []
    for each in submitted:
        data: dict[str, Any] = {"estimate": estimates.get(each.job.pk), "begin": each.begin}
        events.append(submission_event(each.job, at=at, instead_of=instead_of, **data))
    events_append(events)
    steps.done("tell", last=True)


def earlier_submission(tenant: Tenant, client_key: str | None, digest: str) -> Submitted | Refused | None:
    """Return the job that an earlier submission with this key made, or None. Needs the tenant's scope."""
    if client_key is None:
        return None
    if flaw := client_key_flaw(client_key):
        return flaw
    number = client_key_take(tenant, client_key)
    if number is None:
        return None
    job = TrainingJob.objects.get(pk=number)
    if job.request_digest != digest:
        return KEY_REUSED
    return Submitted(job, Award.objects.filter(job=job).order_by("-attempt", "-start").first(), repeated=True)


def client_key_take(tenant: Tenant, client_key: str) -> int | None:
    """Lock the key, and return the number of the job that it has already made, or None. A later submission with the
    same key waits, before it locks anything else, until this transaction ends, and then reads the job made here."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT scheduling_client_key(%s, %s)", [tenant.pk, client_key])
        (number,) = cursor.fetchone()
    return None if number is None else int(number)


def client_key_flaw(client_key: str) -> Refused | None:
    """Return why this cannot be a client key, or None if it can."""
    if 0 < len(client_key) <= LONGEST_KEY and client_key.isprintable():
        return None
    return Refused("invalid_key", f"A client key has 1 to {LONGEST_KEY} printable characters.")


def submission_before(
    *, pool: Pool, wording: Mapping[str, Any], lane: str, otherwise: str | None, by: Access, client_key: str | None
) -> Submitted | Refused | None:
    """Return the job that the same wording has made under this key before, whatever the wording would mean now."""
    if by.tenant is None or client_key is None:
        return None
    request = _with_otherwise({"said": dict(wording), "lane": lane}, otherwise)
    with scope(by.tenant):
        return earlier_submission(by.tenant, client_key, request_digest(pool, request))


def job_digest(
    pool: Pool,
    name: str,
    spec: Mapping[str, Any],
    lane: str,
    otherwise: str | None,
    description: JobDescription | None,
    begin: datetime | None,
    after: Sequence[Waited],
) -> str:
    """Return the digest of a submission. With a description, the digest is of the person's wording and not of `spec`,
    because the same wording a moment later means another value."""
    if description is not None:
        return request_digest(pool, _with_otherwise({"said": dict(description.said), "lane": lane}, otherwise))
    request: dict[str, Any] = {"name": name, "spec": dict(spec), "lane": lane}
    request |= {"begin": begin.isoformat()} if begin is not None else {}
    request |= {"after": list(after)} if after else {}
    return request_digest(pool, _with_otherwise(request, otherwise))


def _with_otherwise(request: Mapping[str, Any], otherwise: str | None) -> Mapping[str, Any]:
    return {**request, "otherwise": otherwise} if otherwise is not None else request


def request_digest(pool: Pool, request: Mapping[str, Any]) -> str:
    """Return the digest of a request, which is stored with its client key."""
    whole = {**request, "pool": pool.pk}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
