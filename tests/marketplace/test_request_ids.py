"""One id through the lines of a request, its answer and the tasks that follow; and a job's id in its engine's lines."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from django.test import Client
from django.utils import timezone
from structlog.contextvars import bound_contextvars, get_contextvars

from marketplace import celery as wiring
from marketplace.request_ids import HEADER
from tenants.roles import SUBMITTER
from tests.api.builders import program_of
from tests.patience import PATIENCE
from tests.scheduling.builders import make_server
from tests.scheduling.live import SPEC, fund, make_live_pool
from tests.tenants.builders import make_tenant


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.msg for record in caplog.records if isinstance(record.msg, dict)]


@pytest.mark.parametrize(
    ("own_id", "is_id"),
    [
        ("from-the-proxy.1", True),
        ("a" * 64, True),
        ("short", False),
        ("a" * 65, False),
        ("two words", False),
        ("a line\nanother", False),
        ("", False),
    ],
)
def test_answer_has_the_id_that_was_said_if_it_is_one_and_a_new_one_otherwise(own_id: str, is_id: bool) -> None:
    ids = {Client().get("/healthz", headers={HEADER: own_id})[HEADER] for _ in range(2)}
    assert (ids == {own_id}) if is_id else (len(ids) == 2 and all(len(name) == 32 for name in ids))


@pytest.mark.django_db
def test_lines_of_a_submission_have_the_requests_id_and_the_jobs(caplog: pytest.LogCaptureFixture) -> None:
    make_server(make_live_pool(epoch_at=timezone.now()), worker=4, ps=1)
    fund(tenant := make_tenant("lumen"))
    caller = program_of(SUBMITTER, tenant)
    with caplog.at_level(logging.INFO):
        words = {"pool": "main", "name": "train", "lane": "instant", "spec": SPEC}
        reply = caller.post("tenants/lumen/jobs/", words, X_Request_ID="from-the-proxy")
    assert (reply.status_code, reply[HEADER]) == (201, "from-the-proxy")
    admission_lines = [line for line in lines(caplog) if line.get("id") == f"admission job {reply.json()['id']}"]
    assert admission_lines
    assert {line.get("request") for line in admission_lines} == {"from-the-proxy"}
    assert "request" not in get_contextvars()  # the thread answers others, too


@pytest.fixture
def app() -> Celery:
    """A broker and a worker in this process. The signals are those of the product: they heed every application."""
    app = Celery("tried", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(task_ignore_result=False, worker_hijack_root_logger=False)

    @app.task(name="tried.inner")
    def inner() -> dict[str, Any]:
        return get_contextvars()

    @app.task(name="tried.outer")
    def outer() -> tuple[dict[str, Any], str]:
        return get_contextvars(), inner.apply_async().id

    assert wiring.task_begins  # it is imported, so its signals are connected
    return app


def test_tasks_that_a_request_asks_for_have_its_id_and_their_own(app: Celery) -> None:
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="WARNING", shutdown_timeout=PATIENCE):
        with bound_contextvars(request="from-the-proxy"):
            task = app.tasks["tried.outer"].apply_async()
        alone = app.tasks["tried.inner"].apply_async()
        words, inner_id = task.get(timeout=PATIENCE)
        inner = app.AsyncResult(inner_id).get(timeout=PATIENCE)
        by_itself = alone.get(timeout=PATIENCE)
    assert words == {"task": "tried.outer", "task_id": task.id, "request": "from-the-proxy"}
    assert inner == {"task": "tried.inner", "task_id": inner_id, "request": "from-the-proxy"}
    assert by_itself == {"task": "tried.inner", "task_id": alone.id}
