"""Verifying everything of a pool: asked for once, done in pieces by whoever's turn it is, and taken up again after a
crash where the last piece ended.

A piece is worked out without writing anything, and then kept in one statement that says what it went on from. So two
processes with the same piece keep it once, and a run that was cancelled meanwhile stays cancelled.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from scheduling.models import OPEN_WORK, Award, Interval, Lane, Phase, Pool, VerificationRun, WorkState
from scheduling.services.verification.findings import Finding
from scheduling.services.verification.walk import bounds_of, walk_from
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.services.members import NOT_ALLOWED

UNKNOWN_POOL = Refused("unknown_pool", "There is no such pool.")
UNKNOWN_RUN = Refused("unknown_verification", "There is no such verification.")
UNKNOWN_INTERVAL = Refused("unknown_interval", "The pool has no interval of that number.")
UNDER_WAY = Refused("verification_under_way", "This pool is being verified already. Wait for its end, or cancel it.")
OVER = Refused("verification_over", "This verification is over.")


@dataclass(frozen=True)
class VerificationSeen:
    """`done` of `of`: intervals, then awards that were made at once, then one for the end of the chain and the book."""

    id: int
    pool_id: int
    first: int
    last: int
    state: str
    phase: str
    done: int
    of: int
    awards: int
    differences: int
    findings: tuple[Finding, ...]
    head: str  # the digest of the last interval that was done
    asked_at: datetime
    seen_at: datetime | None
    ended_at: datetime | None

    @property
    def is_clean(self) -> bool:
        return self.state == WorkState.DONE and not self.differences

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_WORK


def verify_start(*, pool_id: int, by: Access, at: datetime, first: int = 1) -> VerificationSeen | Refused:
    """From interval `first` to the last one that is decided by now. One at a time for each pool."""
    if not by.allows(Permission.FAIRNESS_VIEW):
        return NOT_ALLOWED
    if not Pool.objects.filter(pk=pool_id).exists():
        return UNKNOWN_POOL
    with scope_disabled("a verification looks at everybody's awards and payments"):
        run = _new(pool_id, first)
    if first < 1 or first > max(run.last, 1):
        return UNKNOWN_INTERVAL
    run.asked_by, run.asked_at = by.user, at
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError:  # the database lets one be open for each pool
        return UNDER_WAY
    return seen(run)


def _new(pool_id: int, first: int) -> VerificationRun:
    bounds, walk = bounds_of(pool_id), walk_from(pool_id, first)
    intervals = Interval.objects.filter(pool=pool_id, number__gte=first, slot__lte=bounds.decided_slot)
    last = intervals.order_by("-number").values_list("number", flat=True).first() or 0
    at_once = Award.objects.filter(pool=pool_id, lane=Lane.INSTANT).count()
    return VerificationRun(
        pool_id=pool_id,
        first=first,
        last=last,
        bounds=asdict(bounds),
        number=walk.number,
        digest=walk.digest,
        memory=walk.memory,
        total=intervals.count() + at_once + 1,
    )


def verify_read(*, run_id: int, by: Access, at: datetime) -> VerificationSeen | Refused:
    if not by.allows(Permission.FAIRNESS_VIEW):
        return NOT_ALLOWED
    run = VerificationRun.objects.filter(pk=run_id).first()
    return UNKNOWN_RUN if run is None else seen(run)


def verify_newest(*, pool_id: int, by: Access) -> VerificationSeen | Refused | None:
    """The last one that was asked for; None: there never was one."""
    if not by.allows(Permission.FAIRNESS_VIEW):
        return NOT_ALLOWED
    run = VerificationRun.objects.filter(pool=pool_id).order_by("-pk").first()
    return None if run is None else seen(run)


def verify_cancel(*, run_id: int, by: Access, at: datetime) -> VerificationSeen | Refused:
    """What was found until now stays."""
    if not by.allows(Permission.FAIRNESS_VIEW):
        return NOT_ALLOWED
    run = VerificationRun.objects.filter(pk=run_id)
    if not run.exists():
        return UNKNOWN_RUN
    if not run.filter(state__in=OPEN_WORK).update(state=WorkState.CANCELLED, ended_at=at):
        return OVER
    return seen(run.get())


def seen(run: VerificationRun) -> VerificationSeen:
    return VerificationSeen(
        id=run.pk,
        pool_id=run.pool_id,
        first=run.first,
        last=run.last,
        state=run.state,
        phase=run.phase,
        done=run.done,
        of=run.total,
        awards=run.awards,
        differences=run.differences,
        findings=tuple(Finding(*pair) for pair in run.findings),
        head=run.digest,
        asked_at=run.asked_at,
        seen_at=run.seen_at,
        ended_at=run.ended_at,
    )


def phase_after(phase: str) -> str | None:
    """None: the run is done."""
    order = [str(one) for one in Phase]
    place = order.index(phase) + 1
    return order[place] if place < len(order) else None
