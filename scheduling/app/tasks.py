"""The tasks that beat and other programs start. Rules are in the services; a task only calls one, with the time. A few
call two, one after the other."""

from __future__ import annotations

import random
from typing import Any

from celery import shared_task
from django.core.cache import cache
from django.utils import timezone

from scheduling.app.clock import pool_advance, pools_due
from scheduling.app.retention import retention_apply
from scheduling.app.secrets import secrets_carry
from scheduling.audit.feed_seals import feed_seal
from scheduling.audit.rounds import audits_next, verification_round
from scheduling.demo.outside import outside_tick
from scheduling.fairness.alerts import alerts_look
from scheduling.fairness.intervals import fairness_in_turn
from scheduling.feed.notify import slot_tell
from scheduling.lab.rounds import studies_round
from scheduling.learner.working import learners_round
from scheduling.market.settle.use import use_in_turn
from scheduling.money.credits import earned_collect
from scheduling.notices.collecting import notices_collect
from scheduling.notices.mails import mails_round
from scheduling.webhooks.rounds import chats_round, deliveries_round
from scheduling.what_if.working import what_ifs_round

# Seconds; less than the time after which the broker gives a task to another process.
STUDIES_LIMIT = AUDITS_LIMIT = LEARNERS_LIMIT = 3_000
TICK_EXPIRES = 5.0  # seconds; a message that waited longer in the queue is out of date


@shared_task
def pools_tick(**_: Any) -> None:
    """Send a message for each pool with a boundary to be done, unless one waits in the queue: if many pools have their
    boundary at once, as many messages more each second would take the workers' time from those that do something."""
    for pool_id in pools_due(at=timezone.now()):
        if cache.add(_message_of(pool_id), True, timeout=TICK_EXPIRES):
            pool_tick.apply_async(kwargs={"pool_id": pool_id}, expires=TICK_EXPIRES)


@shared_task
def pool_tick(*, pool_id: int, **_: Any) -> None:
    try:
        if pool_advance(pool_id=pool_id, at=timezone.now()).boundaries:
            slot_tell(pool_id)
    finally:
        cache.delete(_message_of(pool_id))  # if more is to be done, there is a message within a second


def _message_of(pool_id: int) -> str:
    return f"pool-tick:{pool_id}"


@shared_task
def webhooks_tick(**_: Any) -> None:
    deliveries_round(clock=timezone.now, draw=random.random)


@shared_task
def notices_tick(**_: Any) -> None:
    notices_collect(at=timezone.now())


@shared_task
def notice_mails_tick(**_: Any) -> None:
    mails_round(clock=timezone.now)


@shared_task
def notice_chats_tick(**_: Any) -> None:
    chats_round(clock=timezone.now, draw=random.random)


@shared_task
def secrets_tick(**_: Any) -> None:
    secrets_carry(at=timezone.now())


@shared_task
def retention_tick(**_: Any) -> None:
    retention_apply(clock=timezone.now)


@shared_task
def feed_tick(**_: Any) -> None:
    feed_seal(at=timezone.now())


@shared_task
def earned_tick(**_: Any) -> None:
    earned_collect(at=timezone.now())


@shared_task
def fairness_tick(**_: Any) -> None:
    if fairness_in_turn():
        alerts_look(at=timezone.now())


@shared_task
def use_tick(**_: Any) -> None:
    use_in_turn(at=timezone.now())


@shared_task(time_limit=AUDITS_LIMIT)
def audits_tick(**_: Any) -> None:
    audits_next(clock=timezone.now)


@shared_task
def inquiries_tick(**_: Any) -> None:
    """Answer questions about the past, and do pieces of verifying everything; questions first, since their readers
    wait."""
    what_ifs_round(clock=timezone.now)
    verification_round(clock=timezone.now)


@shared_task(time_limit=STUDIES_LIMIT)
def studies_tick(**_: Any) -> None:
    """Do pieces of studies. While they run, this process does other work about the past."""
    studies_round(clock=timezone.now, others=_questions)


@shared_task(time_limit=LEARNERS_LIMIT)
def learners_tick(**_: Any) -> None:
    """Do a step of a learner in a process of its own with the lowest priority; meanwhile this process answers
    questions."""
    learners_round(clock=timezone.now, others=_questions)


def _questions() -> None:
    audits_next(clock=timezone.now)
    what_ifs_round(clock=timezone.now)
    verification_round(clock=timezone.now)


@shared_task
def demo_tick(**_: Any) -> None:
    outside_tick(at=timezone.now())
