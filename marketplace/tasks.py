"""Tasks of the installation itself: the sign of life for the health page, sealing the book, its day sheets, removing
old kept answers, and verifying.

Other tasks are in the apps.
"""

import time
from datetime import timedelta
from typing import Any

from celery import shared_task
from django.core.cache import cache
from django.utils import timezone

from marketplace.heartbeat import HEARTBEAT_KEY, HEARTBEAT_SECONDS
from marketplace.upkeep.health import verified
from marketplace.upkeep.sealing import seal_everything
from tenants.ledger.sheets import days_close
from tenants.scoping import scope_disabled
from tenants.services.answers import answers_expire

DAYS_LOOKED_AT = timedelta(days=40)  # checked each time; postings about earlier days wait for the hourly check of all
DAYS_AT_ONCE = 200  # sheets in one transaction
DAYS_IN_ONE_ROUND = 5_000


@shared_task
def heartbeat() -> None:
    """Store the sign of life, which expires after three missed beats."""
    cache.set(HEARTBEAT_KEY, time.time(), timeout=3 * HEARTBEAT_SECONDS)


@shared_task
def ledger_seal(**_: Any) -> None:
    seal_everything(at=timezone.now())


@shared_task
def ledger_days_close(*, everything: bool = False, **_: Any) -> None:
    at = timezone.now()
    since = None if everything else (at - DAYS_LOOKED_AT).date()
    with scope_disabled("day sheets are made of every tenant's days"):
        for _round in range(DAYS_IN_ONE_ROUND // DAYS_AT_ONCE):
            if days_close(at=at, since=since, most=DAYS_AT_ONCE) < DAYS_AT_ONCE:
                return


@shared_task
def kept_answers_expire(**_: Any) -> None:
    answers_expire(at=timezone.now())


@shared_task
def verify(*, what: str, **_: Any) -> None:
    verified(what)
