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

from marketplace.env import settings_load
from marketplace.heartbeat import HEARTBEAT_SECONDS
from marketplace.request_ids import IN_LOG
from tenants.common.patience import process_is

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")
settings_load()

CARRIED = "bourse_request"  # header of a task's message: the id of the request from which the task comes
_before: dict[str, Mapping[str, Token[Any]]] = {}  # by each running task of this process, what log lines had before it

app = Celery("marketplace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["marketplace", "scheduling.app"])
app.conf.beat_schedule = {
    "heartbeat": {"task": "marketplace.tasks.heartbeat", "schedule": HEARTBEAT_SECONDS},
    # What is not sealed yet can be removed without a trace by anybody who can write to the database past its rules.
    "seal": {"task": "marketplace.tasks.ledger_seal", "schedule": 60.0, "options": {"expires": 60.0}},
    # The same for the feed, whose events prove the rows of jobs.
    "feed seal": {"task": "scheduling.app.tasks.feed_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # Sums of past days, kept for statements. Until a day has its sheet, it is read from the book.
    "days": {"task": "marketplace.tasks.ledger_days_close", "schedule": 300.0, "options": {"expires": 300.0}},
    "all days": {
        "task": "marketplace.tasks.ledger_days_close",
        "schedule": 3600.0,
        "kwargs": {"everything": True},
        "options": {"expires": 3600.0},
    },
    # Removes the answers that are kept for retries; each run removes those that have become old since the last.
    "kept answers": {
        "task": "marketplace.tasks.kept_answers_expire",
        "schedule": 3600.0,
        "options": {"expires": 600.0},
    },
    # Earnings become spendable once an hour; further runs in the same hour do nothing.
    "earnings": {"task": "scheduling.app.tasks.earned_tick", "schedule": 300.0, "options": {"expires": 300.0}},
    # The fairness of an interval is computed once it is closed; a backlog is worked off in portions.
    "fairness": {"task": "scheduling.app.tasks.fairness_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # The use of all units is summed once their slots are settled.
    "use": {"task": "scheduling.app.tasks.use_tick", "schedule": 30.0, "options": {"expires": 30.0}},
    # What auditors requested. A run that comes while another one works ends at once.
    "audits": {"task": "scheduling.app.tasks.audits_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Questions about what would have happened, and verifications in pieces; never while audits are being worked on.
    "inquiries": {"task": "scheduling.app.tasks.inquiries_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Studies of the lab, which take minutes; other questions about the past get their turn in between.
    "studies": {"task": "scheduling.app.tasks.studies_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Steps of learners beside elastic pools, each in a process of its own; in most runs none is due.
    "learners": {"task": "scheduling.app.tasks.learners_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # It works by whole days: the first run of a day does the work, and later ones continue if it was too much for one.
    "retention": {"task": "scheduling.app.tasks.retention_tick", "schedule": 3600.0, "options": {"expires": 600.0}},
    # Webhooks' secrets and the key of bundles, after a change of SECRET_KEY or an upgrade.
    "secrets": {"task": "scheduling.app.tasks.secrets_tick", "schedule": 300.0, "options": {"expires": 300.0}},
    # Notices are made a moment after their events. A run that comes while another one works ends at once.
    "notices": {"task": "scheduling.app.tasks.notices_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Mails at once, and after seven o'clock of UTC those of the day; a slow mail server delays one process at a time.
    "notice mails": {"task": "scheduling.app.tasks.notice_mails_tick", "schedule": 10.0, "options": {"expires": 10.0}},
    # Notices to chat tools, sent as webhooks below.
    "notice chats": {"task": "scheduling.app.tasks.notice_chats_tick", "schedule": 5.0, "options": {"expires": 5.0}},
    # A round takes seconds where there is much to send; a run that comes meanwhile does nothing.
    "webhooks": {"task": "scheduling.app.tasks.webhooks_tick", "schedule": 2.0, "options": {"expires": 2.0}},
    # Boundaries follow from the clock, so a lost or late tick costs seconds and nothing else.
    "market": {"task": "scheduling.app.tasks.pools_tick", "schedule": 1.0, "options": {"expires": 5.0}},
}
if settings.DEVELOPMENT:
    # Somebody has to submit jobs, so that the demonstration has something to show.
    app.conf.beat_schedule["outside"] = {
        "task": "scheduling.app.tasks.demo_tick",
        "schedule": 3.0,
        "options": {"expires": 5.0},
    }


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Keep Django's configuration of logging: without a listener here Celery would replace it."""


@celeryd_init.connect
def worker_begins(**_: Any) -> None:
    """Set the limits of a worker, before it starts the processes that work."""
    process_is("worker")


@beat_init.connect
def beat_begins(**_: Any) -> None:
    """End beat at once on SIGTERM, since it has nothing to save. Celery's own handler raises an exception wherever beat
    is at that moment; in the middle of a call to the broker it is taken for an error of the broker, and beat runs on
    for ever."""
    process_is("beat")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


@before_task_publish.connect
def task_asked(headers: MutableMapping[str, Any] | None = None, **_: Any) -> None:
    """Put the id of the request into a task's message, if a request, or a task of one, sends it."""
    if headers is not None and (request_id := get_contextvars().get(IN_LOG)):
        headers[CARRIED] = request_id


@task_prerun.connect
def task_begins(task_id: str, task: Task, **_: Any) -> None:
    """Give the task's log lines its name, its id, and the id of the request."""
    request_id = task.request.get(CARRIED)
    words = {"task": task.name, "task_id": task_id} | ({IN_LOG: request_id} if request_id else {})
    _before[task_id] = bind_contextvars(**words)


@task_postrun.connect
def task_ends(task_id: str, **_: Any) -> None:
    reset_contextvars(**_before.pop(task_id, {}))
