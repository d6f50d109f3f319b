"""Rows of the table: fairness. The auditor reads all of it and sets no limit; a tenant reads its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from scheduling.fairness.intervals import fairness_catch_up
from scheduling.models import AuditKind, AuditPart, AuditRun, AuditState, Interval, Pool
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER
from tests.api.table import Names, Row, World, answers
from tests.database import as_superuser
from tests.scheduling.markets import run_slots

STAFF = answers(200, AUDITOR, OPERATOR)
STARTED = answers(202, AUDITOR, OPERATOR)
FAIRNESS = "pools/{pool}/fairness/"


def figures(world: World) -> Names:
    """Of one interval, with everybody in it."""
    row = Interval.objects.filter(pool=world.pool).first() or run_slots(world.pool, 0, 0)[0]
    with as_superuser():
        Pool.objects.filter(pk=world.pool.pk).update(name="Main")
    fairness_catch_up()
    return {"number": row.number, "day": f"{world.pool.epoch_at:%Y-%m-%d}"}


def bundle(world: World) -> Names:
    """One that is ready."""
    now = timezone.now()
    run = AuditRun.objects.create(
        kind=AuditKind.BUNDLE, state=AuditState.DONE, pool=world.pool, asked_at=now, ended_at=now, size=3
    )
    AuditPart.objects.create(run=run, place=0, content=b"zip")
    return {"audit": run.pk}


def waiting(world: World) -> Names:
    """One that nobody has begun."""
    run = AuditRun.objects.create(kind=AuditKind.EVERYTHING, pool=world.pool, asked_at=timezone.now())
    return {"audit": run.pk}


def verification(names: Names) -> Mapping[str, Any]:
    return {"what": "interval", "number": names["number"]}


def period(names: Names) -> Mapping[str, Any]:
    return {"start": "2026-03-01T00:00:00Z", "end": "2026-03-08T00:00:00Z"}


def thresholds(names: Names) -> Mapping[str, Any]:
    return {"thresholds": {"jain_index": 0.8, "one_bidder": None}, "reason": "The table says so."}


ROWS = [
    Row("fairness_read", "get", FAIRNESS, STAFF, prepare=figures),
    Row("fairness_tenants_list", "get", FAIRNESS + "tenants/", STAFF, prepare=figures),
    Row("fairness_health_read", "get", FAIRNESS + "health/", STAFF, prepare=figures),
    Row("fairness_intervals_list", "get", FAIRNESS + "intervals/", STAFF, prepare=figures),
    Row("fairness_intervals_read", "get", FAIRNESS + "intervals/{number}/", STAFF, prepare=figures),
    Row("fairness_certificates_list", "get", FAIRNESS + "certificates/", STAFF, prepare=figures),
    Row("fairness_blocked_list", "get", FAIRNESS + "blocked/", STAFF, prepare=figures),
    Row("fairness_alerts_read", "get", FAIRNESS + "alerts/", STAFF),
    Row("fairness_alerts_set", "put", FAIRNESS + "alerts/", answers(200, OPERATOR), body=thresholds),
    Row("fairness_verify", "post", FAIRNESS + "verify/", STARTED, body=verification, prepare=figures),
    Row("fairness_bundles_create", "post", FAIRNESS + "bundles/", STARTED, body=period),
    Row("audits_list", "get", "audits/", STAFF, prepare=bundle),
    Row("audits_read", "get", "audits/{audit}/", STAFF, prepare=bundle),
    Row("audits_cancel", "post", "audits/{audit}/cancel/", STAFF, prepare=waiting),
    Row("audits_file", "get", "audits/{audit}/file/", STAFF, prepare=bundle),
    Row(
        "own_fairness_read",
        "get",
        "tenants/{tenant}/pools/{pool}/fairness/?from={day}",  # the month at hand may be another one by now
        answers(200, OWNER, BILLING, AUDITOR, OPERATOR),
        prepare=figures,
    ),
]
