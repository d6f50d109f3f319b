"""What a page and a program are told while the database, Redis or a disk is away, and what the log says of it."""

from __future__ import annotations

import errno
import itertools
import logging
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.core.cache import cache
from django.db import OperationalError, connection
from django.test import Client
from psycopg import errors
from psycopg_pool import PoolTimeout
from redis import exceptions as redis

from tenants.api import views
from tenants.api.problems import problem_of_exception
from tenants.common.failures import BY_STATE, unavailable_of
from tenants.common.patience import DeadlinePassed
from tenants.models import KeptAnswer
from tenants.roles import OPERATOR, OWNER
from tests.api.builders import problem, program_of
from tests.tenants.builders import PASSWORD, client_of, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db


def raised(cause: BaseException) -> OperationalError:
    """As Django raises what the driver has raised."""
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


WHAT: list[tuple[BaseException, str]] = [
    (raised(errors.DeadlockDetected()), "busy"),
    (raised(errors.SerializationFailure()), "busy"),
    (raised(errors.LockNotAvailable()), "busy"),
    (raised(errors.QueryCanceled()), "deadline_passed"),
    (raised(errors.IdleInTransactionSessionTimeout()), "deadline_passed"),
    (DeadlinePassed(), "deadline_passed"),
    (raised(errors.DiskFull()), "storage_full"),
    (OSError(errno.ENOSPC, "No space left on device"), "storage_full"),
    (raised(errors.AdminShutdown()), "database_unavailable"),
    (raised(errors.CrashShutdown()), "database_unavailable"),
    (raised(errors.CannotConnectNow()), "database_unavailable"),
    (raised(errors.TooManyConnections()), "database_unavailable"),
    (raised(errors.ReadOnlySqlTransaction()), "database_unavailable"),
    (raised(psycopg.OperationalError("connection refused")), "database_unavailable"),
    (raised(psycopg.InterfaceError("the connection is closed")), "database_unavailable"),
    (raised(PoolTimeout("couldn't get a connection after 10.00 sec")), "database_unavailable"),
    (redis.ConnectionError(), "broker_unavailable"),
    (redis.TimeoutError(), "broker_unavailable"),
    (redis.OutOfMemoryError(), "broker_unavailable"),
]


@pytest.mark.parametrize(("error", "code"), WHAT, ids=[f"{type(e.__cause__ or e).__name__}" for e, _ in WHAT])
def test_what_lies_outside_is_told_as_such(error: Exception, code: str) -> None:
    answer = problem_of_exception(error, None)
    assert (answer.status, answer.code) == (503, code)
    assert answer.headers is not None
    assert int(answer.headers["Retry-After"]) > 0
    assert "Nothing" not in answer.detail
    assert "same Idempotency-Key" in answer.detail


@pytest.mark.parametrize(
    "error",
    [ValueError(), raised(errors.UniqueViolation()), raised(errors.UndefinedTable()), redis.ResponseError("WRONGTYPE"),
     OSError(errno.ENOENT, "no such file"), None],
)  # fmt: skip
def test_our_own_faults_are_not_told_as_if_they_would_pass(error: Exception | None) -> None:
    assert unavailable_of(error) is None


def test_unexpected_error_claims_nothing_about_what_was_done() -> None:
    answer = problem_of_exception(RuntimeError(), None)
    assert answer.status == 500
    assert "not known" in answer.detail


def failing(error: Callable[[], BaseException], sql: str = "") -> Callable[..., Any]:
    """Statements that begin so fail with this error."""

    def execute(send: Callable[..., Any], statement: str, *rest: Any) -> Any:
        if statement.startswith(sql):
            raise error()
        return send(statement, *rest)

    return execute


def away() -> OperationalError:
    return raised(errors.CannotConnectNow("the database system is in recovery mode"))


def full() -> OperationalError:
    return raised(errors.DiskFull("could not extend file: No space left on device"))


@pytest.fixture
def outsider() -> Client:
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("debug", [False, True])
def test_page_is_a_503_with_one_line_in_the_log(
    outsider: Client, debug: bool, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DEBUG = debug
    person = make_member(make_tenant("lumen"), OWNER).user
    outsider.cookies = client_of(person).cookies
    for address in ("/t/lumen/jobs/", "/", "/admin/", "/accounts/email/"):
        caplog.clear()
        with connection.execute_wrapper(failing(away)):
            response = outsider.get(address, secure=True)
        assert response.status_code == 503, address
        assert response["Retry-After"] == "5"
        html = response.content.decode()
        assert "The database does not answer" in html
        assert "othing was changed" not in html
        assert "was not done" not in html
        assert all(record.exc_info is None for record in caplog.records)
        reasons = [record for record in caplog.records if "in recovery mode" in record.getMessage()]
        assert len(reasons) == 1, [record.getMessage() for record in caplog.records]
        assert reasons[0].levelno == logging.WARNING
    assert outsider.get("/t/lumen/jobs/", secure=True).status_code == 200


def test_program_with_a_token_or_a_session_gets_a_problem(outsider: Client) -> None:
    lumen = make_tenant("lumen")
    caller = program_of(OWNER, lumen)
    outsider.cookies = client_of(make_member(lumen, OWNER).user).cookies
    with connection.execute_wrapper(failing(away)):
        reply = caller.get("tenants/lumen/jobs/")
        assert reply["Retry-After"] == "5"
        problem(reply, 503, "database_unavailable")
        problem(outsider.get("/api/v1/tenants/lumen/jobs/"), 503, "database_unavailable")


def test_commit_that_is_lost_is_done_once_with_a_key_and_its_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database had committed; only its answer was lost."""
    caller = program_of(OWNER, make_tenant("lumen"))
    body = {"name": "nightly", "scopes": ["jobs:read"]}
    answered, answers = views.once, itertools.count(1)

    def lost(*args: Any, **kwargs: Any) -> Any:
        response = answered(*args, **kwargs)
        if next(answers) == 1:
            raise raised(psycopg.OperationalError("the connection is lost"))
        return response

    monkeypatch.setattr(views, "once", lost)
    problem(caller.post("tenants/lumen/tokens/", body, key="k"), 503, "database_unavailable")
    again = caller.post("tenants/lumen/tokens/", body, key="k")
    assert again.status_code == 201
    assert again["Idempotent-Replay"] == "true"
    assert KeptAnswer.objects.count() == 1


LOG_IN = {"login": "ada@example.org", "password": PASSWORD}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "sql", ['INSERT INTO "django_session"', 'UPDATE "tenants_user"', "INSERT", "UPDATE"], ids=lambda sql: sql[:24]
)
def test_log_in_on_a_full_disk_is_a_clear_503(outsider: Client, sql: str, caplog: pytest.LogCaptureFixture) -> None:
    make_person("ada@example.org")
    with connection.execute_wrapper(failing(full, sql)):
        response = outsider.post("/accounts/login/", LOG_IN, secure=True)
    assert response.status_code == 503
    assert response["Retry-After"] == "60"
    assert "The disk of the database is full." in response.content.decode()
    assert all(record.exc_info is None for record in caplog.records)
    assert "bourse_session" not in response.cookies
    assert outsider.post("/accounts/login/", LOG_IN, secure=True).status_code == 302


def test_session_that_cannot_be_saved_after_the_view_is_a_503(
    outsider: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of all views, where Django has made a page of its own out of the error."""
    make_person("ada@example.org")

    def save(*_: Any, **__: Any) -> None:
        raise full()

    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "save", save)
        response = outsider.post("/accounts/login/", LOG_IN, secure=True)
    assert response.status_code == 503


def test_page_that_cannot_do_without_redis_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise redis.ConnectionError("Connection refused")

    operator = client_of(make_staff(OPERATOR).user)
    monkeypatch.setattr(cache, "set", refuse)
    response = operator.post("/operator/health/verify/history/", secure=True)
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert "Redis does not answer" in response.content.decode()


def test_every_state_in_the_table_is_one_that_the_database_knows() -> None:
    sqlstates = {getattr(errors, name).sqlstate for name in dir(errors) if hasattr(getattr(errors, name), "sqlstate")}
    states = {state for state in sqlstates if isinstance(state, str)}
    assert all(any(state.startswith(beginning) for state in states) for beginning in BY_STATE)
