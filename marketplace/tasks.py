"""The sign of life that the health page looks for. Tasks that do something live in the apps."""

import time

from celery import shared_task
from django.core.cache import cache

HEARTBEAT_KEY = "worker-heartbeat"
HEARTBEAT_SECONDS = 10


@shared_task
def heartbeat() -> None:
    """Gone by itself after three missed beats."""
    cache.set(HEARTBEAT_KEY, time.time(), timeout=3 * HEARTBEAT_SECONDS)
