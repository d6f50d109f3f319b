"""The Celery application: which tasks beat starts, and how often."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_process_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

app = Celery("marketplace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Django has configured logging; without a listener here Celery would replace it."""


@worker_process_init.connect
def drop_inherited_connections(**_: Any) -> None:
    """A prefork child shares its parent's sockets; two processes on one connection garble both."""
    from django.db import connections

    for connection in connections.all(initialized_only=True):
        connection.inc_thread_sharing()
        connection.connection = None
        connection.dec_thread_sharing()
