"""The web process answers a request in one thread, and sends streams from its event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from asgiref.testing import ApplicationCommunicator
from django.core.signals import request_finished
from django.db import Error, OperationalError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path

from marketplace.web.handler import PROBES, OneThreadHandler
from marketplace.web.turns import Turns
from tenants.api.bodies import MOST_BYTES
from tests.patience import PATIENCE

thread_ids: list[int] = []
begun, go_on = threading.Event(), threading.Event()


def recorder(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    def handle(request: HttpRequest) -> HttpResponseBase:
        thread_ids.append(threading.get_ident())
        response = get_response(request)
        thread_ids.append(threading.get_ident())
        return response

    return handle


def plain(request: HttpRequest) -> HttpResponseBase:
    thread_ids.append(threading.get_ident())
    return HttpResponse("ok")


def streamed(request: HttpRequest) -> HttpResponseBase:
    async def pieces() -> AsyncIterator[bytes]:
        thread_ids.append(threading.get_ident())
        yield b"one "
        yield b"two"

    return StreamingHttpResponse(pieces())


def broken(request: HttpRequest) -> HttpResponseBase:
    raise RuntimeError("the view broke")


def torn(request: HttpRequest) -> HttpResponseBase:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        raise RuntimeError("the stream broke")

    return StreamingHttpResponse(pieces())


def slow(request: HttpRequest) -> HttpResponseBase:
    begun.set()
    go_on.wait(PATIENCE)
    return HttpResponse("late")


urlpatterns = [path(view.__name__, view) for view in (plain, streamed, broken, torn, slow)]
urlpatterns += [path("api/slow", slow), *(path(probe.removeprefix("/"), plain) for probe in PROBES)]


@pytest.fixture
def handler(settings: Any) -> Iterator[OneThreadHandler]:
    """Nothing of it goes on in the next test: a thread that nobody waited for ends its request here."""
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = [
        "django.middleware.common.CommonMiddleware",
        f"{__name__}.recorder",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
        f"{__name__}.recorder",
    ]
    thread_ids.clear()
    begun.clear()
    go_on.clear()
    handler = OneThreadHandler()
    yield handler
    go_on.set()
    turns = handler._turns
    with turns._changed:
        assert turns._changed.wait_for(lambda: not turns._at_work, PATIENCE)


def request_of(address: str) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": f"/{address}", "headers": [], "query_string": b""}


def ask(handler: OneThreadHandler, address: str) -> tuple[int, bytes]:
    async def talk() -> tuple[int, bytes]:
        call = ApplicationCommunicator(handler, request_of(address))
        await call.send_input({"type": "http.request", "body": b""})
        begun = await call.receive_output(10)
        content = b""
        while True:
            piece = await call.receive_output(10)
            content += piece.get("body", b"")
            if not piece.get("more_body"):
                await call.wait()
                return begun["status"], content

    return async_to_sync(talk)()


@pytest.mark.parametrize("probe", ["healthz", "readyz"])
def test_whoever_watches_is_answered_while_all_threads_are_taken(
    handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch, probe: str
) -> None:
    """One slow request has the only turn there is, as all of them wait for a database that is away."""
    monkeypatch.setattr(handler, "_turns", Turns(1, 1, handler._later))
    others = threading.Thread(target=ask, args=(handler, "slow"))
    others.start()
    try:
        assert begun.wait(PATIENCE)
        assert ask(handler, probe) == (200, b"ok")
    finally:
        go_on.set()
        others.join(PATIENCE)


def test_all_middleware_and_the_view_run_in_one_thread(handler: OneThreadHandler) -> None:
    assert ask(handler, "plain") == (200, b"ok")
    assert len(thread_ids) == 5
    assert len(set(thread_ids)) == 1
    assert not iscoroutinefunction(handler._middleware_chain)


def test_a_stream_is_sent_piece_by_piece_by_the_event_loop(handler: OneThreadHandler) -> None:
    assert ask(handler, "streamed") == (200, b"one two")
    assert thread_ids[-1] != thread_ids[0]


def test_a_stream_gives_its_connection_back_before_its_first_piece(
    handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that wait for their turns would otherwise hold every connection of the process."""
    monkeypatch.setattr(
        "marketplace.web.handler.close_old_connections", lambda: thread_ids.append(-threading.get_ident())
    )
    ask(handler, "streamed")
    assert thread_ids[-2] == -thread_ids[0]


@pytest.mark.parametrize(("address", "status"), [("broken", 500), ("nowhere", 404)])
def test_errors_become_answers(handler: OneThreadHandler, address: str, status: int) -> None:
    assert ask(handler, address)[0] == status


@pytest.fixture
def finished() -> Iterator[list[int]]:
    """The threads in which requests ended: there the connection to the database is given back."""
    threads: list[int] = []

    def note(**_: Any) -> None:
        threads.append(threading.get_ident())

    request_finished.connect(note)
    yield threads
    request_finished.disconnect(note)


def test_a_request_ends_once_and_in_its_thread_which_serves_the_next(
    handler: OneThreadHandler, finished: list[int]
) -> None:
    for address in ("plain", "streamed", "plain"):
        ask(handler, address)
    assert finished == [thread_ids[0]] * 3
    assert len(handler._idle) == 1


def test_a_stream_that_breaks_is_closed_too(handler: OneThreadHandler, finished: list[int]) -> None:
    async def listen() -> None:
        call = ApplicationCommunicator(handler, request_of("torn"))
        await call.send_input({"type": "http.request", "body": b""})
        await call.wait()

    with pytest.raises(RuntimeError, match="the stream broke"):
        async_to_sync(listen)()
    assert finished == [thread_ids[0]]


def test_whoever_leaves_is_not_waited_for_and_keeps_nobody_else_waiting(handler: OneThreadHandler) -> None:
    async def leave() -> None:
        call = ApplicationCommunicator(handler, request_of("slow"))
        await call.send_input({"type": "http.request", "body": b""})
        while not begun.is_set():
            await asyncio.sleep(0)
        await call.send_input({"type": "http.disconnect"})
        await call.wait()

    async_to_sync(leave)()
    assert handler._idle == []
    assert ask(handler, "plain") == (200, b"ok")
    go_on.set()


@pytest.fixture
def hurried(handler: OneThreadHandler, settings: Any) -> OneThreadHandler:
    """One that has no patience at all."""
    settings.REQUEST_SECONDS = 0
    return handler


def answered(handler: OneThreadHandler, request: dict[str, Any], *inputs: dict[str, Any]) -> tuple[int, Any, bytes]:
    async def talk() -> tuple[int, Any, bytes]:
        call = ApplicationCommunicator(handler, request)
        for message in inputs or ({"type": "http.request", "body": b""},):
            await call.send_input(message)
        begun = await call.receive_output(10)
        body = await call.receive_output(10)
        await call.wait()
        return begun["status"], {name.decode(): value.decode() for name, value in begun["headers"]}, body["body"]

    return async_to_sync(talk)()


@pytest.mark.parametrize("path", ["/slow", "/api/slow"])
def test_request_that_takes_too_long_is_a_503_that_says_when_to_come_again(
    hurried: OneThreadHandler, path: str
) -> None:
    status, headers, body = answered(hurried, request_of("slow") | {"path": path})
    go_on.set()
    assert (status, headers["Retry-After"]) == (503, "5")
    assert headers["Content-Type"].startswith("application/problem+json" if "api" in path else "text/html")
    assert b"longer than a request may" in body


def test_thread_that_was_not_waited_for_gives_its_connection_back_and_ends(
    handler: OneThreadHandler, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REQUEST_SECONDS = 0.05
    given_back = threading.Event()
    monkeypatch.setattr("marketplace.web.handler.connections.close_all", given_back.set)
    assert ask(handler, "slow")[0] == 503
    assert begun.is_set()
    assert handler._idle == []
    assert not given_back.is_set()  # it is still at work
    assert handler._turns._at_work  # and counts as such
    go_on.set()
    assert given_back.wait(PATIENCE)
    assert not handler._turns._at_work
    settings.REQUEST_SECONDS = 30
    assert ask(handler, "plain") == (200, b"ok")


def test_body_that_does_not_come_is_not_waited_for(hurried: OneThreadHandler) -> None:
    status, _, _ = answered(hurried, request_of("plain"), {"type": "http.request", "body": b"x", "more_body": True})
    assert status == 503
    assert thread_ids == []


@pytest.mark.parametrize("path", ["/plain", "/api/plain"])
def test_body_without_end_is_not_read_to_its_end(handler: OneThreadHandler, path: str) -> None:
    piece = {"type": "http.request", "body": b"x" * (MOST_BYTES // 2), "more_body": True}
    status, headers, _ = answered(handler, request_of("plain") | {"path": path}, piece, piece, piece)
    assert status == 413
    assert headers["Content-Type"] == ("application/problem+json" if "api" in path else "text/html; charset=utf-8")
    assert thread_ids == []


@pytest.mark.parametrize(
    "head",
    [
        {"headers": [(b"cookie", b'a="' + b'\\"' * 1_001 + b'"')]},
        {"headers": [(b"accept", b"a/b," * 3_000)]},
        {"headers": [(b"x-%d" % number, b"y" * 4_000) for number in range(9)]},
        {"query_string": b"a=" + b"x" * 9_000},
    ],
    ids=["a cookie of backslashes", "one header", "all headers", "the address"],
)
def test_long_head_is_refused_before_anything_reads_it(handler: OneThreadHandler, head: dict[str, Any]) -> None:
    status, _, _ = answered(handler, request_of("plain") | head)
    assert status == 431
    assert thread_ids == []


@pytest.mark.django_db(transaction=True)
def test_cookie_of_messages_is_no_long_head(handler: OneThreadHandler) -> None:
    cookie = b'messages="' + b'\\"' * 900 + b'"; bourse_session=x'
    assert answered(handler, request_of("plain") | {"headers": [(b"cookie", cookie)]})[0] == 200


class FixedParty:
    """In the place of the database: whose a credential is."""

    def __init__(self, answer: str | Error) -> None:
        self.answer = answer
        self.calls = 0

    def __call__(self, _: str) -> str:
        self.calls += 1
        if isinstance(self.answer, Error):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "party", "calls"),
    [("tenant 7", "tenant 7", 1), (OperationalError("it is gone"), "address 10.0.0.1", 2)],
)
def test_first_request_with_a_credential_has_the_turns_of_its_tenant_already(
    handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch, answer: str | Error, party: str, calls: int
) -> None:
    monkeypatch.setattr("marketplace.web.handler.party_of_token", lookup := FixedParty(answer))
    who = {"client": ("10.0.0.1", 1), "headers": [(b"authorization", b"Bearer x")]}
    at_work = []
    begin = handler._turns.begin

    def noted(name: str, start: Callable[[], object]) -> None:
        at_work.append(name)
        begin(name, start)

    monkeypatch.setattr(handler._turns, "begin", noted)
    for _ in range(2):
        assert answered(handler, request_of("plain") | who)[0] == 200
    assert at_work[:2] == ["address 10.0.0.1", party]  # whose it is, and then the request itself
    assert at_work[-1] == party
    assert lookup.calls == calls


def test_one_party_waits_behind_itself_and_may_wait_only_so_often(
    handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marketplace.web.handler.MOST_WAITING", 1)

    async def begun_call(client: str) -> ApplicationCommunicator:
        call = ApplicationCommunicator(handler, request_of("slow") | {"client": (client, 1)})
        await call.send_input({"type": "http.request", "body": b""})
        for _ in range(50):  # it comes as far as it can
            await asyncio.sleep(0)
        return call

    async def status(call: ApplicationCommunicator) -> int:
        answer_status = (await call.receive_output(10))["status"]
        await call.receive_output(10)
        await call.wait()
        return int(answer_status)

    async def talk() -> None:
        calls = [await begun_call("10.0.0.1") for _ in range(4)]  # two work, one waits
        assert await status(calls.pop()) == 429
        assert handler._turns._at_work == {"address 10.0.0.1": 2}
        calls.append(await begun_call("10.0.0.2"))
        assert handler._turns._at_work == {"address 10.0.0.1": 2, "address 10.0.0.2": 1}
        go_on.set()
        assert [await status(call) for call in calls] == [200] * 4

    async_to_sync(talk)()
