"""The Celery application: which tasks beat starts, and how often."""

import os
import signal
from collections.abc import Mapping, MutableMapping
from contextvars import Token
from typing import Any

from celery import Celery, Task
from celery.signals import beat_init, before_task_publish, celeryd_init, setup_logging, task_postrun, task_prerun
from django.conf import settings
from structlog.contextvars import bind_contextvars, get_contextvars, reset_contextvars

from marketplace.heartbeat import HEARTBEAT_SECONDS
from marketplace.request_ids import IN_LOG
from tenants.patience import process_is

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

CARRIED = "bourse_request"  # among the headers of a task's message: from which request it comes
_before: dict[str, Mapping[str, Token[Any]]] = {}  # by task at work in this process, what log lines had before it

app = Celery("marketplace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["marketplace", "scheduling.app"])
app.conf.beat_schedule = {
    "heartbeat": {"task": "marketplace.tasks.heartbeat", "schedule": HEARTBEAT_SECONDS},
    # What is not sealed yet can be removed without a trace by whoever may write to the database past its rules.
    "seal": {"task": "marketplace.tasks.ledger_seal", "schedule": 60.0, "options": {"expires": 60.0}},
    # The same of the feed, by whose events the rows of jobs are proved.
    "feed seal": {"task": "scheduling.app.tasks.feed_tick", "schedule": 10.0, "options": {"expires": 10.0}},
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
    "earnings": {"task": "scheduling.app.tasks.earned_tick", "schedule": 300.0, "options": {"expires": 300.0}},
    # What an interval was worth to whom, once it is closed; a backlog is worked off in portions.
    "fairness": {"task": "scheduling.app.tasks.fairness_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # What became of all units, once their slots are settled.
    "use": {"task": "scheduling.app.tasks.use_tick", "schedule": 30.0, "options": {"expires": 30.0}},
    # What auditors asked for; who comes while one is at it finds that out and leaves.
    "audits": {"task": "scheduling.app.tasks.audits_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # What would have happened, and verifications in pieces; never while the one above is at work.
    "inquiries": {"task": "scheduling.app.tasks.inquiries_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Studies of the lab, which go on for minutes; whatever else is asked about the past has its turn in between.
    "studies": {"task": "scheduling.app.tasks.studies_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Steps of learners beside elastic pools, each in a process of its own; most ticks find none that is due.
    "learners": {"task": "scheduling.app.tasks.learners_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # By whole days: the first call of a day does it, and the others go on where there was too much for one.
    "retention": {"task": "scheduling.app.tasks.retention_tick", "schedule": 3600.0, "options": {"expires": 600.0}},
    # Webhooks' secrets and the key of bundles, after a change of SECRET_KEY or an upgrade.
    "secrets": {"task": "scheduling.app.tasks.secrets_tick", "schedule": 300.0, "options": {"expires": 300.0}},
    # Notices are made of events a moment after these; who comes while one is at it finds that out and leaves.
    "notices": {"task": "scheduling.app.tasks.notices_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Mails at once, and after seven o'clock of UTC those of the day; a slow mail server holds up one process at a time.
    "notice mails": {"task": "scheduling.app.tasks.notice_mails_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # Notices in chat tools, as webhooks below.
    "notice chats": {"task": "scheduling.app.tasks.notice_chats_tick", "schedule": 5.0, "options": {"expires": 5.0}},
    # A round goes on for seconds where there is much to tell; who comes meanwhile finds it under way.
    "webhooks": {"task": "scheduling.app.tasks.webhooks_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Boundaries are found from the clock, so a tick that is lost or late costs seconds and nothing else.
    "market": {"task": "scheduling.app.tasks.pools_tick", "schedule": 1.0, "options": {"expires": 5.0}},
}
if settings.DEVELOPMENT:
    # Somebody submits, so that the demonstration has something to show.
    app.conf.beat_schedule["outside"] = {
        "task": "scheduling.app.tasks.demo_tick",
        "schedule": 3.0,
        "options": {"expires": 5.0},
    }


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Django has configured logging; without a listener here Celery would replace it."""


@celeryd_init.connect
def worker_begins(**_: Any) -> None:
    """Before it starts the processes that work."""
    process_is("worker")


@beat_init.connect
def beat_begins(**_: Any) -> None:
    """Beat has nothing to save when it ends. Celery's own handler raises an exception wherever beat is at that moment,
    and one that comes in the middle of a call to the broker is taken for the broker's: beat then goes on, for ever."""
    process_is("beat")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


@before_task_publish.connect
def task_asked(headers: MutableMapping[str, Any] | None = None, **_: Any) -> None:
    """By a request, or by a task that a request asked for."""
    if headers is not None and (request_id := get_contextvars().get(IN_LOG)):
        headers[CARRIED] = request_id


@task_prerun.connect
def task_begins(task_id: str, task: Task, **_: Any) -> None:
    """Its log lines have its name, its id, and the request's."""
    request_id = task.request.get(CARRIED)
    words = {"task": task.name, "task_id": task_id} | ({IN_LOG: request_id} if request_id else {})
    _before[task_id] = bind_contextvars(**words)


@task_postrun.connect
def task_ends(task_id: str, **_: Any) -> None:
    reset_contextvars(**_before.pop(task_id, {}))
