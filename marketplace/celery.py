"""The Celery application: which tasks beat starts, and how often."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging
from django.conf import settings

from marketplace.heartbeat import HEARTBEAT_SECONDS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

app = Celery("marketplace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = {
    "heartbeat": {"task": "marketplace.tasks.heartbeat", "schedule": HEARTBEAT_SECONDS},
    # What is not sealed yet can be removed without a trace by whoever may write to the database past its rules.
    "seal": {"task": "marketplace.tasks.ledger_seal", "schedule": 60.0, "options": {"expires": 60.0}},
    # What days that are over moved, kept for statements. A day without its sheet is read from the book meanwhile.
    "days": {"task": "marketplace.tasks.ledger_days_close", "schedule": 300.0, "options": {"expires": 300.0}},
    "all days": {
        "task": "marketplace.tasks.ledger_days_close",
        "schedule": 3600.0,
        "kwargs": {"everything": True},
        "options": {"expires": 3600.0},
    },
    # Answers kept for retries; each run takes what has grown old since the last.
    "kept answers": {
        "task": "marketplace.tasks.kept_answers_expire",
        "schedule": 3600.0,
        "options": {"expires": 600.0},
    },
    # Earnings become spendable once an hour; who asks more often finds it done.
    "earnings": {"task": "scheduling.tasks.earned_tick", "schedule": 300.0, "options": {"expires": 300.0}},
    # What an interval was worth to whom, once it is closed; a backlog is worked off in portions.
    "fairness": {"task": "scheduling.tasks.fairness_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # What auditors asked for; who comes while one is at it finds that out and leaves.
    "audits": {"task": "scheduling.tasks.audits_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # What would have happened, and verifications in pieces; never while the one above is at work.
    "inquiries": {"task": "scheduling.tasks.inquiries_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # A round goes on for seconds where there is much to tell; who comes meanwhile finds it under way.
    "webhooks": {"task": "scheduling.tasks.webhooks_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Boundaries are found from the clock, so a tick that is lost or late costs seconds and nothing else.
    "market": {"task": "scheduling.tasks.pools_tick", "schedule": 1.0, "options": {"expires": 5.0}},
}
if settings.DEBUG:
    # Somebody submits, so that the demonstration has something to show.
    app.conf.beat_schedule["outside"] = {
        "task": "scheduling.tasks.demo_tick",
        "schedule": 3.0,
        "options": {"expires": 5.0},
    }


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Django has configured logging; without a listener here Celery would replace it."""
