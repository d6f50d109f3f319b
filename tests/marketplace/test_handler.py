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
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path

from marketplace.handler import OneThreadHandler

seen: list[int] = []
begun, go_on = threading.Event(), threading.Event()


def recorder(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    def handle(request: HttpRequest) -> HttpResponseBase:
        seen.append(threading.get_ident())
        response = get_response(request)
        seen.append(threading.get_ident())
        return response

    return handle


def plain(request: HttpRequest) -> HttpResponseBase:
    seen.append(threading.get_ident())
    return HttpResponse("ok")


def streamed(request: HttpRequest) -> HttpResponseBase:
    async def pieces() -> AsyncIterator[bytes]:
        seen.append(threading.get_ident())
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
    go_on.wait(10)
    return HttpResponse("late")


urlpatterns = [path(view.__name__, view) for view in (plain, streamed, broken, torn, slow)]


@pytest.fixture
def handler(settings: Any) -> OneThreadHandler:
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = [
        "django.middleware.common.CommonMiddleware",
        f"{__name__}.recorder",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
        f"{__name__}.recorder",
    ]
    seen.clear()
    begun.clear()
    go_on.clear()
    return OneThreadHandler()


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


def test_all_middleware_and_the_view_run_in_one_thread(handler: OneThreadHandler) -> None:
    assert ask(handler, "plain") == (200, b"ok")
    assert len(seen) == 5
    assert len(set(seen)) == 1
    assert not iscoroutinefunction(handler._middleware_chain)


def test_a_stream_is_sent_piece_by_piece_by_the_event_loop(handler: OneThreadHandler) -> None:
    assert ask(handler, "streamed") == (200, b"one two")
    assert seen[-1] != seen[0]


@pytest.mark.parametrize(("address", "status"), [("broken", 500), ("nowhere", 404)])
def test_errors_become_answers(handler: OneThreadHandler, address: str, status: int) -> None:
    assert ask(handler, address)[0] == status


@pytest.fixture
def finished() -> Iterator[list[int]]:
    """The threads in which requests ended: there the connection to the database is given back."""
    found: list[int] = []

    def note(**_: Any) -> None:
        found.append(threading.get_ident())

    request_finished.connect(note)
    yield found
    request_finished.disconnect(note)


def test_a_request_ends_once_and_in_its_thread_which_serves_the_next(
    handler: OneThreadHandler, finished: list[int]
) -> None:
    for address in ("plain", "streamed", "plain"):
        ask(handler, address)
    assert finished == [seen[0]] * 3
    assert len(handler._idle) == 1


def test_a_stream_that_breaks_is_closed_too(handler: OneThreadHandler, finished: list[int]) -> None:
    with pytest.raises(RuntimeError, match="the stream broke"):
        ask(handler, "torn")
    assert finished == [seen[0]]


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
