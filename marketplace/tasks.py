"""The sign of life that the health page looks for, the sealing of the book, and what is forgotten in time.

Other tasks live in the apps.
"""

import time
from typing import Any

from celery import shared_task
from django.core.cache import cache
from django.utils import timezone

from marketplace.heartbeat import HEARTBEAT_KEY, HEARTBEAT_SECONDS
from tenants.ledger.seals import seal
from tenants.services.answers import answers_expire


@shared_task
def heartbeat() -> None:
    """Gone by itself after three missed beats."""
    cache.set(HEARTBEAT_KEY, time.time(), timeout=3 * HEARTBEAT_SECONDS)


@shared_task
def ledger_seal(**_: Any) -> None:
    seal(at=timezone.now())


@shared_task
def kept_answers_expire(**_: Any) -> None:
    answers_expire(at=timezone.now())
