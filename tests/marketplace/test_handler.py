"""The web process answers a request in one thread, and sends streams from its event loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from asgiref.testing import ApplicationCommunicator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path

from marketplace.handler import OneThreadHandler

seen: list[int] = []


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


urlpatterns = [path("plain", plain), path("streamed", streamed), path("broken", broken)]


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
    return OneThreadHandler()


def ask(handler: OneThreadHandler, address: str) -> tuple[int, bytes]:
    async def talk() -> tuple[int, bytes]:
        kind: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": f"/{address}",
            "headers": [],
            "query_string": b"",
        }
        call = ApplicationCommunicator(handler, kind)
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
