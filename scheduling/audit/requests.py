"""Requests of auditors: to verify a charge, an interval or everything, or to make a signed bundle of a period.

A request is a row, and no process needs to be notified of it: `rounds` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.core.cache import cache
from django.db import transaction
from django.db.models import Q, Sum

from scheduling.audit.bundle import reach_refusal
from scheduling.jobs import UNKNOWN_JOB
from scheduling.market.reads import UNKNOWN_INTERVAL
from scheduling.models import (
    OPEN_WORK,
    AuditKind,
    AuditPart,
    AuditRun,
    AuditState,
    Interval,
    Pool,
    TrainingJob,
    VerificationRun,
    WorkState,
)
from tenants.access import Access, Refused
from tenants.common.zones import midnight
from tenants.models import User
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.services.members import NOT_ALLOWED

MOST_WAITING = 5  # open requests of one person
LONGEST = timedelta(days=93)
RETENTION = timedelta(days=7)
OPEN_AUDITS = (AuditState.QUEUED, AuditState.RUNNING)
CAN_CANCEL = Q(state=AuditState.QUEUED) | Q(state=AuditState.RUNNING, kind=AuditKind.EVERYTHING)
NO_DAYS = Refused("invalid_period", "Name the first day and the last one, like 2026-03-01.")
NO_PERIOD = Refused("invalid_period", "The period ends before it begins.")
TOO_LONG = Refused("invalid_period", f"A bundle is of at most {LONGEST.days} days. For more there is a command.")
TOO_MANY = Refused("audits_waiting", f"{MOST_WAITING} requests of yours are not done yet. Wait for one of them.")
AUDIT_OVER = Refused("audit_over", "It is over.")
NOT_NOW = Refused("audit_under_way", "It is being worked on. Only a verification of everything can be called off then.")


@dataclass(frozen=True)
class AuditProgress:
    done: int
    total: int  # 0 where it is not known beforehand
    unit: str

    @property
    def percent(self) -> float:
        return 100.0 * self.done / self.total if self.total else 0.0


def verify_start(*, kind: str, pool: Pool | None, number: int | None, by: Access, at: datetime) -> AuditRun | Refused:
    """Request the verification of a charge (`number` of the job), an interval (of the pool), or everything (of the
    pool, or of all pools)."""
    if kind == AuditKind.CHARGE:
        with scope_disabled("an auditor looks at everybody's jobs"):
            job = TrainingJob.objects.filter(pk=number).first()
        if job is None:
            return UNKNOWN_JOB
        pool = job.pool
    elif kind == AuditKind.INTERVAL and not _is_there(pool, number):
        return UNKNOWN_INTERVAL
    return _start(AuditRun(kind=kind, pool=pool, number=number), by, at)


def bundle_start(*, pool: Pool, start: datetime, end: datetime, by: Access, at: datetime) -> AuditRun | Refused:
    """Request the signed bundle of [start, end)."""
    if end <= start:
        return NO_PERIOD
    if refusal := reach_refusal(start, end):
        return refusal
    if end - start > LONGEST:
        return TOO_LONG
    return _start(AuditRun(kind=AuditKind.BUNDLE, pool=pool, period_start=start, period_end=end), by, at)


def bundle_of_days(
    *, pool: Pool, first: date | None, last: date | None, by: Access, at: datetime
) -> AuditRun | Refused:
    """Request the signed bundle of some days of UTC, both ends included; None is a day that could not be read. No
    other days are put in their place: what is signed is what its reader named."""
    if first is None or last is None:
        return NO_DAYS
    start, end = (midnight(day, UTC) for day in (first, last + timedelta(days=1)))
    return bundle_start(pool=pool, start=start, end=end, by=by, at=at)


def _is_there(pool: Pool | None, number: int | None) -> bool:
    return number is not None and Interval.objects.filter(pool=pool, number=number).exists()


@transaction.atomic
def _start(run: AuditRun, by: Access, at: datetime) -> AuditRun | Refused:
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    if by.user is not None:  # their requests are counted one after the other
        User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    waiting = AuditRun.objects.filter(asked_by=by.user, state__in=OPEN_AUDITS)
    if waiting.count() >= MOST_WAITING:
        return TOO_MANY
    run.asked_at, run.asked_by = at, by.user
    run.save(force_insert=True)
    return run


@transaction.atomic
def audit_cancel(*, run_id: int, by: Access, at: datetime) -> AuditRun | Refused:
    """Call off a request that waits, or a verification of everything. A process that works at it stores nothing
    more."""
    if not by.allows(Permission.AUDITS_ASK):
        return NOT_ALLOWED
    sentence = f"{by.actor_name} has called it off."
    rows = AuditRun.objects.filter(CAN_CANCEL, pk=run_id)
    is_ours = rows.update(state=AuditState.CANCELLED, ended_at=at, sentence=sentence, result={})
    run = AuditRun.objects.get(pk=run_id)
    if not is_ours:
        return NOT_NOW if run.state == AuditState.RUNNING else AUDIT_OVER
    walks = VerificationRun.objects.filter(audit=run, state__in=OPEN_WORK)
    walks.update(state=WorkState.CANCELLED, ended_at=at)
    return run


def can_cancel(run: AuditRun) -> bool:
    return run.state == AuditState.QUEUED or (run.state == AuditState.RUNNING and run.kind == AuditKind.EVERYTHING)


def audit_progress(run: AuditRun) -> AuditProgress | None:
    """Return how far a request is, or None where it is not running or nothing is known. For a verification of
    everything the rows of its walks say it; for the rest the cache does, as this may be lost."""
    if run.state != AuditState.RUNNING:
        return None
    if run.kind == AuditKind.EVERYTHING:
        sums = run.verifications.aggregate(done=Sum("done", default=0), total=Sum("total", default=0))
        return AuditProgress(sums["done"], sums["total"], "steps")
    progress = cache.get(progress_key(run.pk))
    return AuditProgress(*progress) if progress else None


def progress_key(run_id: int) -> str:
    """Return the key of the cache under which (done, total, unit) are."""
    return f"audit-progress:{run_id}"


def bundle_bytes(run: AuditRun) -> Iterator[bytes]:
    """Return the file, piece by piece."""
    for place in range(AuditPart.objects.filter(run=run).count()):
        yield bytes(AuditPart.objects.get(run=run, place=place).content)
