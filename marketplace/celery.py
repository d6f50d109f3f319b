"""The Celery application: which tasks beat starts, and how often."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging

from marketplace.tasks import HEARTBEAT_SECONDS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

app = Celery("marketplace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = {
    "heartbeat": {"task": "marketplace.tasks.heartbeat", "schedule": HEARTBEAT_SECONDS},
}


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Django has configured logging; without a listener here Celery would replace it."""
