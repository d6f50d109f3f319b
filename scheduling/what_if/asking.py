"""Asking what would have happened, reading the answer, and cancelling a question."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, Q

from scheduling.core import records
from scheduling.core.scenario import BadScenario
from scheduling.core.types import View
from scheduling.jobs import UNKNOWN_JOB
from scheduling.market.reads import READING_ERRORS, UNKNOWN_INTERVAL, contents_of
from scheduling.market.view import DEMANDS, demands_check, steps_of
from scheduling.models import OPEN_WORK, Interval, JobFloor, TrainingJob, WhatIf, WorkState
from scheduling.what_if.otherwise import FIELDS, TERMS, Misasked, job_as_reported, job_otherwise, value_of
from scheduling.what_if.seen import WhatIfSeen, seen_all, view_of
from tenants.access import Access, Refused
from tenants.common.limits import LimitOverAll, limit_lock
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.services.members import NOT_ALLOWED

STEPS = 4
ELASTIC = "elastic"  # the policy's name in the stored intervals of an elastic pool
RETENTION = timedelta(days=7)
MOST_OPEN = 3  # open questions of one person
MOST_OF_TENANT = 10  # open questions about jobs of one tenant
MOST_A_DAY = 60  # questions of one person
MOST_IN_ALL = 30  # open questions
MOST_JOBS = 1_000  # most jobs waiting in an interval, as it is decided again twice
HEAVY = tuple(f"interval__{name}" for name in ("view", "plan", "windows", "policy"))  # a megabyte, not needed here

UNKNOWN = Refused("unknown_what_if", "There is no such question.")
UNKNOWN_FIELD = Misasked("unknown_field", f"This cannot be said otherwise. What can: {', '.join(FIELDS)}.", "field")
NOT_THERE = Misasked("did_not_wait", "The job was not among those that this interval decided about.", "job")
NO_CHANGE = Misasked("no_change", "That is what the job said.", "value")
TOO_LARGE = Refused("too_large", f"More than {MOST_JOBS} jobs waited in this interval: too many to decide it again.")
OTHER_CODE = Refused(
    "other_code",
    "The interval was decided by another version of the rules, and this version decides it otherwise: a difference "
    "could be that of the rules.",
)
BY_SLOT = Refused(
    "decided_by_slot",
    "An elastic pool decides every slot anew: what one slot is worth to a job follows from slots that came later.",
)
ARCHIVED = Refused("archived", "What the interval was decided from lies in an archive, and no longer in the database.")
UNREADABLE = Refused("unreadable", "What is stored of the interval cannot be read. Verify the interval.")
TOO_MANY = Refused("too_many_open", f"{MOST_OPEN} questions of yours are not answered yet. Wait, or cancel one.")
TOO_MANY_OF_TENANT = Refused(
    "too_many_open", f"{MOST_OF_TENANT} questions about this tenant's jobs are not answered yet. Wait for one of them."
)
TOO_MANY_TODAY = Refused("too_many_today", f"You asked {MOST_A_DAY} questions within a day. Come back tomorrow.")
BUSY = Refused("too_many_in_all", "Too many questions wait for an answer. Try again in a minute.")
OVER = Refused("what_if_over", "This question is not open any more.")


def what_if_fields() -> tuple[str, ...]:
    return FIELDS


def what_if_start(
    *, pool_id: int, number: int, job_id: int, field: str, value: Any, by: Access, at: datetime
) -> WhatIfSeen | Refused:
    """Ask a question. `value` is written as in a specification (for `arrival`: slots of the pool); None means as if it
    were not given."""
    with scope_disabled("an interval is decided again for all of its jobs"):
        job = TrainingJob.objects.filter(pk=job_id, pool=pool_id).first()
        if job is None or not _may(by, job.tenant_id):
            return Misasked(UNKNOWN_JOB.code, UNKNOWN_JOB.sentence, "job") if _may_at_all(by) else NOT_ALLOWED
        interval = Interval.objects.filter(pool=pool_id, number=number).first()
        if interval is None:
            return Misasked(UNKNOWN_INTERVAL.code, UNKNOWN_INTERVAL.sentence, "interval")
        if refusal := _cannot(interval, job, field, value):
            return refusal
        with transaction.atomic():
            limit_lock(LimitOverAll.QUESTIONS)  # under it those of a tenant and of a person are counted, too
            if refusal := _too_many(job.tenant_id, by, at):
                return refusal
            row = WhatIf.objects.create(
                tenant_id=job.tenant_id,
                interval=interval,
                job=job,
                field=field,
                said=value_of(job, field),
                instead=value,
                total=STEPS,
                asked_by=by.user,
                asked_at=at,
                expires_at=at + RETENTION,
            )
        return view_of(row, by)


def what_if_read(*, what_if_id: int, by: Access, at: datetime) -> WhatIfSeen | Refused:
    """Return a question, for the person who asked, and for the staff."""
    with scope_disabled("a tenant's answer is about everybody's jobs, and names only its own"):
        row = _row(what_if_id, by, at)
        return row if isinstance(row, Refused) else view_of(row, by)


def what_ifs_newest(*, by: Access, at: datetime, most: int = 20) -> tuple[WhatIfSeen, ...]:
    """Return the reader's own questions, newest first; in a tenant, those about its jobs."""
    with scope_disabled("a tenant's answer is about everybody's jobs, and names only its own"):
        rows = WhatIf.objects.filter(asked_by=by.user, expires_at__gt=at).order_by("-pk")
        if by.tenant is not None:
            rows = rows.filter(tenant=by.tenant)
        return seen_all(rows.select_related("interval").defer(*HEAVY)[:most], by) if _may_at_all(by) else ()


def what_if_cancel(*, what_if_id: int, by: Access, at: datetime) -> WhatIfSeen | Refused:
    """Cancel a question: one's own, or as auditors may, anybody's. The process that works it out notices and stores
    nothing."""
    with scope_disabled("a tenant's answer is about everybody's jobs, and names only its own"):
        row = _row(what_if_id, by, at)
        if isinstance(row, Refused):
            return row
        if row.asked_by != by.user and not by.allows(Permission.AUDITS_ASK):
            return NOT_ALLOWED
        still = WhatIf.objects.filter(pk=row.pk, state__in=OPEN_WORK)
        if not still.update(state=WorkState.CANCELLED, ended_at=at):
            return OVER
        row = _row(what_if_id, by, at)
        return row if isinstance(row, Refused) else view_of(row, by)


def _row(what_if_id: int, by: Access, at: datetime) -> WhatIf | Refused:
    rows = WhatIf.objects.select_related("interval").defer(*HEAVY)
    row = rows.filter(pk=what_if_id, expires_at__gt=at).first()
    if row is None or not _may(by, row.tenant_id):
        return UNKNOWN
    if not _is_staff(by) and row.asked_by != by.user:
        return UNKNOWN
    return row


def _cannot(interval: Interval, job: TrainingJob, field: str, value: Any) -> Refused | None:
    """Return why this interval cannot be decided again with this value for this job, or None."""
    if field not in FIELDS:
        return UNKNOWN_FIELD
    if json.loads(bytes(interval.policy)).get("name") == ELASTIC:
        return BY_SLOT
    if interval.jobs_waiting > MOST_JOBS:
        return TOO_LARGE
    if interval.is_archived:
        return ARCHIVED
    try:
        view = records.view_from(contents_of(interval).view)
    except READING_ERRORS:
        return UNREADABLE
    if not any(other.number == job.pk and other.arrival < view.slot for other in view.waiting):
        return NOT_THERE
    return _floor_given(view, job, field) or _wrong_value(view, job, field, value)


def _wrong_value(view: View, job: TrainingJob, field: str, value: Any) -> Refused | None:
    real = job_as_reported(view, job)
    if isinstance(real, Refused):
        return real
    other = job_otherwise(view, job, real, field, value)
    if isinstance(other, Refused):
        return other
    try:
        if field in DEMANDS:  # a demand that no submission may have cannot be asked about
            demands_check({field: value}, steps_of(job.pool))
    except BadScenario as error:
        return Misasked("invalid_value", f"{error}.", "value")
    return NO_CHANGE if value_of(job, field) == value else None


def _floor_given(view: View, job: TrainingJob, field: str) -> Refused | None:
    """Refuse a question about a floor that was given before. A floor is given once, by what the job reported then, and
    later reports do not change it (G2). A tenant without cells has no floor, whatever it reports."""
    if field in TERMS or job.pk not in view.floors or view.floors[job.pk].draft:
        return None
    owner = view.jobs[job.pk].tenant
    if not view.cluster.quota[:, owner].any() and not view.floors[job.pk].allocation:
        return None
    rows = JobFloor.objects.filter(job=job, interval__slot__lt=view.slot).order_by("-attempt", "-interval")
    number = rows.values_list("interval__number", flat=True).first()
    where = f" in interval {number}. Ask about that one" if number else " in an earlier interval"
    return Misasked("floor_given", f"The job's floor was given by what it said{where}.", "field", number)


def _too_many(tenant_id: int, by: Access, at: datetime) -> Refused | None:
    waiting = WhatIf.objects.filter(state__in=OPEN_WORK).aggregate(
        of_person=Count("pk", filter=Q(asked_by=by.user)),
        of_tenant=Count("pk", filter=Q(tenant=tenant_id)),
        in_all=Count("pk"),
    )
    if waiting["of_person"] >= MOST_OPEN:
        return TOO_MANY
    if WhatIf.objects.filter(asked_by=by.user, asked_at__gt=at - timedelta(days=1)).count() >= MOST_A_DAY:
        return TOO_MANY_TODAY
    if waiting["of_tenant"] >= MOST_OF_TENANT:
        return TOO_MANY_OF_TENANT
    return BUSY if waiting["in_all"] >= MOST_IN_ALL else None


def _is_staff(by: Access) -> bool:
    return by.allows(Permission.FAIRNESS_VIEW)


def _may_at_all(by: Access) -> bool:
    return _is_staff(by) or (by.tenant is not None and by.allows(Permission.JOBS_VIEW))


def _may(by: Access, tenant_id: int) -> bool:
    """Return whether the reader may ask about this tenant's jobs. A tenant asks about its own jobs, the staff about
    everybody's; inside a tenant there are only its own."""
    if by.tenant is not None and by.tenant.pk != tenant_id:
        return False
    return _is_staff(by) or (by.tenant is not None and by.allows(Permission.JOBS_VIEW))
