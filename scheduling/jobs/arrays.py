"""Arrays of jobs: all members are submitted in one act, or none. After that each member is a job like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import IO, Any

from django.db import transaction

from scheduling.common import Steps, as_sentence
from scheduling.jobs.describing import JobWording, job_understood
from scheduling.jobs.intake import Intake
from scheduling.jobs.script_program import INDEX, script_register
from scheduling.jobs.submission import (
    InvalidJob,
    earlier_submission,
    job_ready,
    request_digest,
    rows_store,
    submissions_announce,
    waiting_reason_set,
)
from scheduling.market.decide import program_kept
from scheduling.market.view import is_divisible
from scheduling.models import PROGRAM, JobArray, JobDescription, Lane, Pool
from scheduling.programs.catalogue import values_of
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.ordering import ArrayMember, Waited, members, waited_in_order
from tenants.access import Access, Refused
from tenants.models import Tenant, User
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

NOT_AT_ONCE = InvalidJob(
    "invalid_job",
    "lane: an array waits for the next interval. The instant lane answers each job by itself: submit them so.",
    "lane",
)


BOUGHT_BY_SLOT = InvalidJob(
    "invalid_job",
    "together: an elastic pool deals out one slot at a time, to each job by itself, so none are bought together.",
    "together",
)

BOUGHT_IN_PIECES = InvalidJob(
    "invalid_job",
    "together: a job that rents in pieces goes on by itself, window by window, so none are bought together.",
    "together",
)


@dataclass(frozen=True)
class SubmittedArray:
    """An array that was accepted. `repeated` says that the same submission had been accepted before."""

    array: JobArray
    repeated: bool


@dataclass(frozen=True)
class _Wish:
    """An array to be submitted: one job for each of `indexes`."""

    pool: Pool
    name: str
    spec: Mapping[str, Any]
    indexes: Sequence[int]
    tenant: Tenant
    user: User | None
    at: datetime
    client_key: str | None
    digest: str
    begin: datetime | None
    after: Sequence[Waited]
    description: JobDescription | None = None
    together: bool = False
    worth_from: datetime | None = None


def array_submit(
    *,
    pool: Pool,
    name: str,
    spec: Mapping[str, Any],
    count: int,
    by: Access,
    at: datetime,
    client_key: str | None = None,
    begin: datetime | None = None,
    after: Sequence[Waited] = (),
    together: bool = False,
    lane: str = Lane.BATCH.value,
) -> SubmittedArray | Refused:
    """Submit `count` jobs of one specification, with the indexes from 0 on, in the batch lane. If their program has a
    parameter `index`, each job gets its own index in it. `together` says that all members that wait are bought in one
    interval, or none. A submission with a client key happens once."""
    if by.tenant is None or not by.allows(Permission.JOBS_SUBMIT):
        return NOT_ALLOWED
    if lane != Lane.BATCH:
        return NOT_AT_ONCE
    request = {"name": name, "spec": dict(spec), "array": count, "after": waited_in_order(after)}
    request |= {"together": True} if together else {}
    digest = request_digest(pool, request | ({"begin": begin.isoformat()} if begin is not None else {}))
    who, later = (by.tenant, by.user, at, client_key), (begin, waited_in_order(after))
    return _submit(_Wish(pool, name, spec, range(count), *who, digest, *later, together=together))


def array_describe(
    *,
    pool: Pool,
    wording: JobWording,
    count: int | None,
    by: Access,
    at: datetime,
    client_key: str | None = None,
    together: bool = False,
    lane: str = Lane.BATCH.value,
    archive: IO[bytes] | None = None,
) -> SubmittedArray | Refused:
    """Submit an array as a person describes it: in hours with a `count`, or by a script with `--array`."""
    if by.tenant is None or not by.allows(Permission.JOBS_SUBMIT):
        return NOT_ALLOWED
    if lane != Lane.BATCH:
        return NOT_AT_ONCE
    digest = request_digest(pool, {"said": wording.document, "array": count} | ({"together": True} if together else {}))
    with scope(by.tenant):
        if before := _earlier(by.tenant, client_key, digest):
            return before
    understood = job_understood(pool=pool, wording=wording, by=by, at=at, together=together)
    if isinstance(understood, Refused):
        return understood
    if bool(understood.indexes) == (count is not None):
        sentence = "count: a script says its members by `#SBATCH --array`, everything else by `count`."
        return InvalidJob("invalid_job", sentence, "count")
    spec = understood.spec
    if understood.document is not None:
        program = script_register(understood.document, understood.parameters, by=by, at=at, archive=archive)
        if isinstance(program, Refused):
            return program
        spec = {**spec, **program}
    indexes = understood.indexes or range(count or 0)
    who, later = (by.tenant, by.user, at, client_key), (understood.begin, understood.after)
    wish = _Wish(pool, understood.name, spec, indexes, *who, digest, *later, understood.row, together)
    return _submit(replace(wish, worth_from=understood.worth_from))


def _earlier(tenant: Tenant, client_key: str | None, digest: str) -> SubmittedArray | Refused | None:
    """Return the array that this key has already made, or None. The key is stored with the array's first member."""
    earlier = earlier_submission(tenant, client_key, digest)
    if earlier is None or isinstance(earlier, Refused):
        return earlier
    return SubmittedArray(JobArray.objects.get(pk=earlier.job.array_id), repeated=True)


def _submit(wish: _Wish) -> SubmittedArray | Refused:
    with scope(wish.tenant):
        return _stored(wish)


@transaction.atomic
def _stored(wish: _Wish) -> SubmittedArray | Refused:
    # 1. Gather and check once for all members, which differ in their index alone.
    if earlier := _earlier(wish.tenant, wish.client_key, wish.digest):
        return earlier
    tenant, pool, at = wish.tenant, wish.pool, wish.at
    entries = members(wish.name, wish.indexes)
    if isinstance(entries, FieldRefusal):
        field = "count" if entries.field == "array" else entries.field
        return InvalidJob("invalid_job", as_sentence(f"{field}: {entries.sentence}"), field)
    first, lane = entries[0].name, Lane.BATCH.value
    later: dict[str, Any] = {"begin": wish.begin, "after": wish.after, "together": wish.together}
    later |= {"worth_from": wish.worth_from}
    intake = Intake(pool, tenant, wish.user, at, waits=True)
    checked = job_ready(intake, first, wish.spec, lane, **later)
    if isinstance(checked, Refused):
        return checked
    if wish.together and pool.is_elastic:
        return BOUGHT_BY_SLOT
    if wish.together and is_divisible(checked.job):
        return BOUGHT_IN_PIECES
    if wish.together and (most := intake.fitting.most_together(checked.job)) is not None and most < len(entries):
        return _too_many_together(len(entries), most)
    specs = _specs(checked.job.spec, entries, tenant.pk)
    if isinstance(specs, InvalidJob):
        return specs

    # 2. Apply: store the array, its members and the events of each. The first member keeps the key.
    array = JobArray.objects.create(
        tenant=tenant,
        pool=pool,
        name=wish.name,
        indexes=[member.index for member in entries],
        submitted_at=at,
        submitted_by=wish.user,
    )
    steps = Steps("admission", f"array {array.pk}")
    checked.job.array, checked.job.request_digest = array, wish.digest
    checked.job.together = wish.together
    waiting_reason_set(checked, at)
    submitted = [replace(checked, job=copy(checked.job)) for _ in entries]
    for place, (each, member, spec) in enumerate(zip(submitted, entries, specs, strict=True)):
        each.job.name, each.job.spec, each.job.array_place = member.name, spec, place
    submitted[0].job.client_key = wish.client_key
    submitted[0] = replace(submitted[0], description=wish.description)  # one description for all members
    rows_store(submitted)
    steps.done("store", jobs=len(submitted), pool=pool.slug)
    submissions_announce(submitted, at, steps, estimated=False)
    return SubmittedArray(array, repeated=False)


def _too_many_together(count: int, most: int) -> InvalidJob:
    room = f"no interval of this pool has room for more than {most:,} such jobs at once"
    return InvalidJob("invalid_job", f"together: {room}, and these are {count:,}.", "together")


def _specs(
    spec: Mapping[str, Any], entries: Sequence[ArrayMember], tenant_id: int
) -> list[dict[str, Any]] | InvalidJob:
    """Return the specification of each member, with its index if its program has a parameter of that name."""
    program = program_kept(spec, tenant_id=tenant_id)
    if program is None or INDEX not in {parameter.name for parameter in program[0].program.parameters}:
        return [dict(spec) for _ in entries]
    specs = []
    for member in entries:
        parameters = {**spec[PROGRAM]["parameters"], INDEX: member.index}
        values = values_of(program[0].program, parameters)
        if isinstance(values, tuple):
            return InvalidJob("invalid_job", as_sentence(f"{PROGRAM}.{values[0].field}: {values[0].sentence}"), PROGRAM)
        specs.append({**spec, PROGRAM: {**spec[PROGRAM], "parameters": parameters}})
    return specs
