"""Calls that go wrong on the way: what is sent again, how long it waits, and what the caller learns."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from bourse_client import (
    BourseError,
    Client,
    Conflict,
    NotAllowed,
    NotFound,
    Refused,
    ServerFailed,
    TooManyCalls,
    Unreachable,
)
from bourse_client.command.parser import parser_made
from bourse_client.transport import Pace, Transport
from tests.client.pace import Hours
from tests.client.stub import Answer, Stub, bad, closing, cut, dropped, good, hanging, stub_server, text
from tests.ports import free_port

JOB = {"id": 7, "state": "queued"}


def client(stub: Stub, hours: Hours, **pace: float) -> Client:
    return Client(stub.address, "bourse_secret", tenant="lumen", pace=hours.pace(**pace))


@pytest.mark.parametrize(
    "trouble",
    [
        dropped,
        cut(JOB),
        cut(JOB, length=False),
        bad(503, "busy"),
        bad(502, "gone"),
        bad(409, "idempotency_in_progress"),
    ],
    ids=["dropped", "cut", "cut without a length", "503", "502", "still running"],
)
def test_submission_is_sent_again_with_the_same_key_and_body(trouble: Answer) -> None:
    hours = Hours()
    with stub_server(trouble, trouble, good(JOB, status=201)) as stub, client(stub, hours) as caller:
        assert caller.job_submit({"epochs": 1}, pool="main", name="train") == JOB
    assert len(stub.calls) == 3
    assert len({(call.key, call.body, call.path) for call in stub.calls}) == 1
    assert stub.calls[0].key
    assert hours.waits == [0.25, 0.5]


def test_two_submissions_have_keys_of_their_own() -> None:
    with stub_server(good(JOB)) as stub, client(stub, Hours()) as caller:
        caller.job_submit({}, pool="main", name="train")
        caller.job_submit({}, pool="main", name="train")
        caller.job_submit({}, pool="main", name="train", key="mine")
    assert len({call.key for call in stub.calls}) == 3
    assert stub.calls[2].key == "mine"


def test_answer_that_does_not_come_is_given_up_and_asked_for_again() -> None:
    hours = Hours()
    with stub_server(hanging, good(JOB)) as stub, client(stub, hours, timeout=0.2) as caller:
        assert caller.job(7) == JOB
    assert len(stub.calls) == 2


def test_too_many_calls_wait_as_long_as_the_server_says() -> None:
    hours = Hours()
    with stub_server(bad(429, "too_many_calls", Retry_After="17"), good(JOB)) as stub, client(stub, hours) as caller:
        assert caller.job(7) == JOB
    assert hours.waits == [17.0]


@pytest.mark.parametrize(
    ("code", "seconds"),
    [("busy", 1), ("deadline_passed", 5), ("database_unavailable", 5), ("broker_unavailable", 5), ("storage_full", 60)],
)
def test_server_that_cannot_answer_now_is_asked_again_when_it_says_and_with_the_same_key(
    code: str, seconds: int
) -> None:
    hours = Hours()
    away = bad(503, code, Retry_After=str(seconds))
    with stub_server(away, good(JOB, status=201)) as stub, client(stub, hours) as caller:
        assert caller.job_submit({}, pool="main", name="nightly") == JOB
    assert hours.waits == [float(seconds)]
    assert stub.calls[0].key
    assert stub.calls[0].key == stub.calls[1].key
    assert stub.calls[0].body == stub.calls[1].body


def test_one_call_waits_longer_than_a_server_needs_to_say_that_it_took_too_long(settings: Any) -> None:
    assert Pace().timeout > settings.REQUEST_SECONDS
    assert parser_made().parse_args(["tenants"]).patience == Pace().timeout


def test_wait_beyond_the_patience_is_an_error_that_says_how_long() -> None:
    hours = Hours()
    with (
        stub_server(bad(429, "too_many_calls", Retry_After="600")) as stub,
        client(stub, hours) as caller,
        pytest.raises(TooManyCalls) as failure,
    ):
        caller.job(7)
    assert failure.value.retry_after == 600.0
    assert (hours.waits, len(stub.calls)) == ([], 1)


@pytest.mark.parametrize(("seconds", "waits"), [(60, [60.0]), (86400, [])])
def test_file_is_waited_for_no_longer_than_another_call(seconds: int, waits: list[float]) -> None:
    hours, away = Hours(), bad(503, "busy", Retry_After=str(seconds))
    with stub_server(away) as stub, client(stub, hours) as caller, pytest.raises(ServerFailed) as failure:
        caller.job_file(7, "model.pt", io.BytesIO())
    assert (failure.value.retry_after, hours.waits) == (seconds, waits)


@pytest.mark.parametrize("wait", ["soon", "-3", "inf", "nan", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_retry_after_that_is_no_number_of_seconds_is_left_to_our_own_pace(wait: str) -> None:
    hours = Hours()
    with stub_server(bad(429, "too_many_calls", Retry_After=wait), good(JOB)) as stub, client(stub, hours) as caller:
        caller.job(7)
    assert hours.waits == [0.25]


def test_who_follows_a_job_waits_out_an_outage_and_other_calls_do_not() -> None:
    hours = Hours()
    outage = [dropped] * 60
    with (
        stub_server(good(JOB), *outage, good(JOB | {"state": "finished"}), dropped) as stub,
        client(stub, hours) as caller,
    ):
        assert [job["state"] for job in caller.job_followed(7)] == ["queued", "finished"]
        assert 300 < hours.now < 600
        count = len(stub.calls)
        with pytest.raises(Unreachable):
            caller.job(7)
    assert len(stub.calls) == count + 1 + 6  # a kept connection that is closed costs no attempt


def test_who_calls_too_often_while_following_hears_that_and_of_no_outage() -> None:
    hours = Hours()
    busy = bad(429, "too_many_calls", "Too many calls: 1,200 in a minute.", Retry_After="10")
    with stub_server(good(JOB), *[busy] * 20, good(JOB | {"state": "finished"})) as stub, client(stub, hours) as caller:
        assert [job["state"] for job in caller.job_followed(7)] == ["queued", "finished"]
    assert hours.notices == [
        f"{stub.address} says: Too many calls: 1,200 in a minute. It is asked again for 10 minutes.",
        f"{stub.address} answers again.",
    ]


def test_who_follows_a_job_waits_for_no_outage_beyond_the_time_that_was_given() -> None:
    hours = Hours()
    with stub_server(good(JOB), dropped) as stub, client(stub, hours) as caller:
        followed = caller.job_followed(7, patience=60)
        assert next(followed) == JOB
        with pytest.raises(Unreachable):
            next(followed)
    assert 40 < hours.now <= 60


def test_who_follows_what_never_was_answered_waits_for_no_outage() -> None:
    hours = Hours()
    with stub_server(dropped) as stub, client(stub, hours) as caller, pytest.raises(Unreachable):
        next(caller.job_followed(7))
    assert len(stub.calls) == 6


def test_trouble_without_end_ends_after_six_attempts_and_names_the_key() -> None:
    hours = Hours()
    with (
        stub_server(dropped) as stub,
        client(stub, hours) as caller,
        pytest.raises(Unreachable, match="the connection was closed") as failure,
    ):
        caller.job_cancel(7, key="mine")
    assert failure.value.key == "mine"
    assert len(stub.calls) == 6
    assert hours.waits == [0.25, 0.5, 1.0, 2.0, 4.0]


BUSY, BROKEN = bad(503, "busy"), bad(500, "internal_error")
LIMIT = bad(429, "too_many_calls", Retry_After="600")


@pytest.mark.parametrize(
    ("answers", "is_known"),
    [
        ((BUSY,), False),
        ((BROKEN,), False),
        ((bad(409, "idempotency_in_progress"),), False),
        ((dropped, LIMIT), False),
        ((LIMIT,), True),
        ((dropped, bad(422, "invalid_job")), True),
        ((bad(404, "not_found"),), True),
    ],
)
def test_refusal_names_the_key_where_the_change_may_have_been_made(answers: tuple[Answer, ...], is_known: bool) -> None:
    with stub_server(*answers) as stub, client(stub, Hours()) as caller:
        with pytest.raises(Refused) as failure:
            caller.job_cancel(7, key="mine")
        assert (failure.value.key, caller.transport.unanswered) == ((None, None) if is_known else ("mine", "mine"))


def test_reads_and_what_is_answered_leave_no_key() -> None:
    with stub_server(BUSY, good(JOB), BUSY) as stub, client(stub, Hours()) as caller:
        caller.job_cancel(7)
        assert caller.transport.unanswered is None
        with pytest.raises(ServerFailed) as failure:
            caller.job(7)
    assert (failure.value.key, caller.transport.unanswered) == (None, None)


def test_nobody_waits_past_the_patience_for_one_call() -> None:
    hours = Hours()
    with stub_server(dropped) as stub, client(stub, hours, patience=1.0) as caller, pytest.raises(Unreachable):
        caller.job(7)
    assert hours.waits == [0.25, 0.5]
    assert len(stub.calls) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (bad(500, "internal_error"), ServerFailed, "internal_error"),
        (bad(409, "idempotency_mismatch"), Conflict, "idempotency_mismatch"),
        (bad(401, "token_expired"), NotAllowed, "token_expired"),
        (bad(403, "scope_missing"), NotAllowed, "scope_missing"),
        (bad(404, "not_found"), NotFound, "not_found"),
        (text("<h1>Not here</h1>", "text/html", status=404), NotFound, "http_404"),
        (text("[1]", "application/json", status=404), NotFound, "http_404"),
    ],
)
def test_no_is_no_and_is_not_asked_for_again(answer: Answer, kind: type[Exception], code: str) -> None:
    with stub_server(answer) as stub, client(stub, Hours()) as caller, pytest.raises(kind) as failure:
        caller.job(7)
    assert failure.value.code == code  # type: ignore[attr-defined]
    assert len(stub.calls) == 1


PORTAL = text("<h1>Welcome</h1>", "text/html; charset=utf-8")


@pytest.mark.parametrize(
    "call",
    [
        lambda caller: caller.me(),
        lambda caller: list(caller.pools()),
        lambda caller: caller.job_log_file(7),
        lambda caller: caller.statement_csv("2026-11"),
        lambda caller: caller.job_file(7, "model.pt", io.BytesIO()),
    ],
)
def test_answer_of_another_kind_is_of_somebody_else(call: Callable[[Client], Any]) -> None:
    with stub_server(PORTAL) as stub, client(stub, Hours()) as caller, pytest.raises(Unreachable) as failure:
        call(caller)
    assert f"{stub.address} answered with text/html, and not " in str(failure.value)
    assert str(failure.value).endswith("Is this the address of Bourse?")
    assert len(stub.calls) == 1


def test_change_that_is_answered_by_somebody_else_keeps_its_key() -> None:
    with stub_server(PORTAL) as stub, client(stub, Hours()) as caller, pytest.raises(Unreachable) as failure:
        caller.job_cancel(7, key="mine")
    assert failure.value.key == caller.transport.unanswered == "mine"


def test_refusal_carries_code_numbers_and_fields() -> None:
    errors = [{"field": "chunks", "code": "invalid", "detail": "Must be a positive integer."}]
    answer = bad(422, "invalid_job", "The job cannot be.", numbers={"left": "1.500000"}, errors=errors)
    with stub_server(answer) as stub, client(stub, Hours()) as caller, pytest.raises(BourseError) as failure:
        caller.quote({}, pool="main", name="train")
    assert str(failure.value) == "The job cannot be."
    assert (failure.value.status, failure.value.numbers) == (422, {"left": "1.500000"})  # type: ignore[attr-defined]
    assert failure.value.errors == tuple(errors)  # type: ignore[attr-defined]


def test_connection_is_kept_for_the_next_call() -> None:
    with stub_server(good(JOB)) as stub, client(stub, Hours()) as caller:
        for _ in range(3):
            caller.job(7)
    assert len({call.connection for call in stub.calls}) == 1


def test_kept_connection_that_was_closed_meanwhile_costs_no_wait() -> None:
    hours = Hours()
    with stub_server(closing(JOB)) as stub, client(stub, hours) as caller:
        for _ in range(3):
            assert caller.job(7) == JOB
    assert hours.waits == []


def test_redirect_is_not_followed_because_the_token_would_go_along() -> None:
    with stub_server(good(JOB)) as elsewhere:
        away = text("", "text/html", status=302, Location=f"{elsewhere.address}/api/v1/me/")
        with stub_server(away) as stub, client(stub, Hours()) as caller, pytest.raises(BourseError, match="points to"):
            caller.me()
    assert elsewhere.calls == []


def test_pages_are_read_one_after_the_other_from_the_same_server() -> None:
    first = {"next": "http://elsewhere.invalid/api/v1/tenants/lumen/jobs/?cursor=abc&limit=200", "results": [{"id": 1}]}
    with (
        stub_server(good(first), good({"next": None, "results": [{"id": 2}]})) as stub,
        client(stub, Hours()) as caller,
    ):
        assert [job["id"] for job in caller.jobs(state=["queued", "running"], lane=None)] == [1, 2]
    assert stub.calls[0].path == "/api/v1/tenants/lumen/jobs/?state=queued&state=running&limit=200"
    assert stub.calls[1].path == "/api/v1/tenants/lumen/jobs/?cursor=abc&limit=200"


def test_no_page_is_asked_for_that_nobody_reads() -> None:
    page = {"next": "http://x/api/v1/tenants/lumen/jobs/?cursor=abc", "results": [{"id": n} for n in range(200)]}
    with stub_server(good(page)) as stub, client(stub, Hours()) as caller:
        assert len(list(caller.jobs(most=250))) == 250
    assert len(stub.calls) == 2


def test_address_may_lie_below_a_path_of_the_host() -> None:
    page = {"next": "http://host/bourse/api/v1/pools/?cursor=b", "results": []}
    with (
        stub_server(good(page), good({"next": None, "results": []})) as stub,
        Client(f"{stub.address}/bourse/", "t", pace=Hours().pace()) as caller,
    ):
        list(caller.pools())
    assert [call.path for call in stub.calls] == ["/bourse/api/v1/pools/?limit=200", "/bourse/api/v1/pools/?cursor=b"]


@pytest.mark.parametrize(
    "address",
    [
        "bourse.example", "ftp://bourse.example", "https://", "https://me:pw@bourse.example", "http://here:abc",
        "http://here:99999", "http://[::1", "http://a..b", f"http://{'a' * 70}", "http://here/süd",
    ],
)  # fmt: skip
def test_address_that_is_none_is_said_before_anything_is_sent(address: str) -> None:
    with pytest.raises(BourseError, match="is no address of a server"):
        Transport(address, "t")


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("http://[::1]", "::1", 80),
        ("https://[2001:db8::8000]/bourse", "2001:db8::8000", 443),
        ("http://[::1]:8000", "::1", 8000),
        ("https://bourse.example", "bourse.example", 443),
    ],
)
def test_server_may_be_named_by_an_address_of_ipv6(address: str, host: str, port: int) -> None:
    connection = Transport(address, "t").connection(1.0)
    assert (connection.host, connection.port) == (host, port)


@pytest.mark.parametrize("token", ["bo€urse", "one\ntwo", "tab\t"])
def test_token_that_cannot_be_one_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(BourseError, match="The token has signs that no token has") as refusal:
        Transport("https://bourse.example", token)
    assert token not in str(refusal.value)


def test_server_that_is_not_there_is_said_so() -> None:
    with (
        Client(f"http://127.0.0.1:{free_port()}", "t", pace=Hours().pace()) as caller,
        pytest.raises(Unreachable, match="nothing listens there"),
    ):
        caller.me()


def test_certificate_that_is_not_trusted_is_said_at_once_and_nothing_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(connection: http.client.HTTPConnection) -> None:
        raise ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed certificate")

    monkeypatch.setattr(http.client.HTTPSConnection, "connect", refuse)
    hours = Hours()
    with (
        Client("https://bourse.example", "t", tenant="lumen", pace=hours.pace()) as caller,
        pytest.raises(Unreachable, match=r"its certificate is not trusted here: .*self-signed") as failure,
    ):
        caller.job_cancel(7, key="mine")
    assert (hours.waits, failure.value.key, caller.transport.unanswered) == ([], None, None)


def test_tenant_is_asked_for_once_where_the_token_has_only_one() -> None:
    me = {"tenants": [{"slug": "lumen"}]}
    with stub_server(good(me), good(JOB)) as stub, Client(stub.address, "t", pace=Hours().pace()) as caller:
        caller.job(7)
        caller.job(8)
    assert [call.path for call in stub.calls][1:] == [
        "/api/v1/tenants/lumen/jobs/7/",
        "/api/v1/tenants/lumen/jobs/8/",
    ]


def test_tenant_must_be_named_where_there_are_several() -> None:
    me = {"tenants": [{"slug": "lumen"}, {"slug": "quarry"}]}
    with (
        stub_server(good(me)) as stub,
        Client(stub.address, "t", pace=Hours().pace()) as caller,
        pytest.raises(BourseError, match="lumen, quarry"),
    ):
        caller.job(7)


def test_token_goes_in_its_header_only() -> None:
    with stub_server(good(JOB)) as stub, client(stub, Hours()) as caller:
        caller.job(7)
    assert stub.calls[0].headers["authorization"] == "Bearer bourse_secret"
    assert "secret" not in stub.calls[0].path
    assert socket.getdefaulttimeout() is None
