"""Asking as an auditor does, and working it off as the clock's ticks do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.utils import timezone

from scheduling.audit.requests import verify_start
from scheduling.audit.rounds import audits_next, verification_round
from scheduling.models import AuditKind, AuditRun, Pool
from tenants.access import Access
from tenants.roles import AUDITOR, OWNER
from tests.scheduling.builders import NOON

AUDIT = Access(user=None, tenant=None, roles=frozenset({AUDITOR}))
MEMBER = Access(user=None, tenant=None, roles=frozenset({OWNER}))


class Clock:
    """Moves on by so many seconds whenever it is looked at."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now, self.step = NOON, timedelta(seconds=seconds)

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


def everything_asked(pool: Pool | None = None) -> AuditRun:
    run = verify_start(kind=AuditKind.EVERYTHING, pool=pool, number=None, by=AUDIT, at=NOON)
    assert isinstance(run, AuditRun), run
    return run


def everything_begun(pool: Pool | None = None) -> AuditRun:
    """Its walks are there, and none of them has done a step."""
    run = everything_asked(pool)
    assert audits_next(clock=Clock()) == 1
    run.refresh_from_db()
    return run


def work_off(clock: Callable[[], datetime] = timezone.now) -> None:
    for _ in range(100):
        if not audits_next(clock=clock) + verification_round(clock=clock):
            return
    raise AssertionError("there is always more to do")
