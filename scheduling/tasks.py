"""What beat and other programs start. Rules live in the services; a task only calls one, with the time."""

from __future__ import annotations

import random
from typing import Any

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from scheduling.notify import slot_tell
from scheduling.services.audit_rounds import audits_next, verification_round
from scheduling.services.bundle import seed_of
from scheduling.services.clock import pool_advance, pools_due
from scheduling.services.credits import earned_collect
from scheduling.services.fairness import fairness_in_turn
from scheduling.services.fairness_alerts import alerts_look
from scheduling.services.outside import outside_tick
from scheduling.services.webhooks.rounds import deliveries_round
from scheduling.services.what_if_said import what_ifs_round

AUDITS_LIMIT = 3_000  # seconds; less than after which the broker hands a task to another process
TICK_EXPIRES = 5.0  # seconds; one that waited longer in the queue has been overtaken by another


@shared_task
def pools_tick(**_: Any) -> None:
    for pool_id in pools_due(at=timezone.now()):
        pool_tick.apply_async(kwargs={"pool_id": pool_id}, expires=TICK_EXPIRES)


@shared_task
def pool_tick(*, pool_id: int, **_: Any) -> None:
    if pool_advance(pool_id=pool_id, at=timezone.now()).boundaries:
        slot_tell(pool_id)


@shared_task
def webhooks_tick(**_: Any) -> None:
    deliveries_round(clock=timezone.now, draw=random.random)


@shared_task
def earned_tick(**_: Any) -> None:
    earned_collect(at=timezone.now())


@shared_task
def fairness_tick(**_: Any) -> None:
    if fairness_in_turn():
        alerts_look(at=timezone.now())


@shared_task(time_limit=AUDITS_LIMIT)
def audits_tick(**_: Any) -> None:
    audits_next(clock=timezone.now, seed=seed_of(settings.SECRET_KEY))


@shared_task
def inquiries_tick(**_: Any) -> None:
    """What was asked about the past, and pieces of verifying everything; the questions first, for somebody looks at the
    page."""
    what_ifs_round(clock=timezone.now)
    verification_round(clock=timezone.now)


@shared_task
def demo_tick(**_: Any) -> None:
    outside_tick(at=timezone.now())
