"""What comes over a websocket and is nonsense: closed with a code, with one line in the log and never a traceback."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import OperationalError
from psycopg.errors import CannotConnectNow
from pytest_django.fixtures import Settings
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from marketplace.urls import websocket_urlpatterns
from marketplace.web.heads import LONGEST_HEADER, MOST_BACKSLASHES
from marketplace.web.process import LARGEST_FRAME
from marketplace.web.sockets import BROKEN, LATER, LONG_HEAD, NO_SUCH_ADDRESS, Sockets
from tenants.roles import OWNER
from tests.conftest import FOLDER
from tests.patience import PATIENCE
from tests.tenants.builders import client_of, make_member, make_tenant, session_of
from tests.web import web_server

NO_UTF8 = b"\xff\xfe"
FRAMES: dict[str, tuple[Any, int, str]] = {
    "no JSON": ("hello", 4400, "a frame that is no JSON"),
    "nothing": ("", 4400, "a frame that is no JSON"),
    "deep": ("[" * (LARGEST_FRAME - 10), 4400, "a frame that is no JSON"),
    "no UTF-8": (NO_UTF8, 1007, "a frame that is no UTF-8"),
    "bytes": (b"\x00\xff", 1003, "a frame of bytes"),
    "JSON in bytes": (b"{}", 1003, "a frame of bytes"),
    "too large": ("[" + "1," * LARGEST_FRAME + "1]", 1009, "a frame that is too large"),
}


@pytest.mark.django_db(transaction=True)
def test_nonsense_over_a_real_socket_ends_with_a_code_and_one_line_in_the_log() -> None:
    person = make_member(make_tenant("lumen"), OWNER).user
    session = client_of(person).cookies[settings.SESSION_COOKIE_NAME].value
    with web_server() as address:
        codes, statuses = asyncio.run(_talk(address, {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"}))
        with pytest.raises(urllib.error.HTTPError) as plain:
            urllib.request.urlopen(f"{address}/ws/x", timeout=PATIENCE)
        log = (FOLDER / f"web-{address.rpartition(':')[2]}.log").read_text()
    assert codes == {name: code for name, (_, code, _) in FRAMES.items()}
    assert statuses == {"/ws/x": 403, "/": 403, "/ws/t/lumen": 403, "/ws/t/nobody/": 403}
    plain.value.close()
    assert plain.value.code == 404
    assert "Traceback" not in log
    for what in {what for _, _, what in FRAMES.values()}:
        assert log.count(what) == sum(what == other for _, _, other in FRAMES.values()), log
    assert log.count("there is no such address: /ws/x") == 1


async def _talk(address: str, headers: dict[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """The code after each frame, and the status at each address that is none."""
    host = address.removeprefix("http")
    codes, statuses = {}, {}
    for name, (frame, _, _) in FRAMES.items():
        async with connect(f"ws{host}/ws/t/lumen/", additional_headers=headers, origin=address) as socket:
            await socket.send('{"JSON": "is heard and not answered"}')
            await socket.send(frame, text=frame is NO_UTF8 or None)
            try:
                async with asyncio.timeout(30):
                    while True:
                        await socket.recv()
            except ConnectionClosed as closed:
                codes[name] = closed.rcvd.code if closed.rcvd else 0
    for path in ("/ws/x", "/", "/ws/t/lumen", "/ws/t/nobody/"):
        try:
            async with connect(f"ws{host}{path}", additional_headers=headers, origin=address):
                statuses[path] = 101
        except InvalidStatus as refused:
            statuses[path] = refused.response.status_code
    return codes, statuses


def closed_with(change: Callable[[Sockets], None] = lambda _: None, **scope: Any) -> int:
    """The code with which a socket ends that has these things in its scope."""
    sockets = Sockets(websocket_urlpatterns)
    change(sockets)
    request_scope = {"type": "websocket", "path": "/ws/t/lumen/", "headers": [], "query_string": b""} | scope

    async def talk() -> int:
        call = ApplicationCommunicator(sockets, request_scope)
        await call.send_input({"type": "websocket.connect"})
        message = await call.receive_output(10)
        await call.wait()
        assert message["type"] == "websocket.close"
        return int(message["code"])

    return asyncio.run(talk())


def consumer(error: Exception) -> Callable[[Sockets], None]:
    """All that a consumer does is to raise this."""

    async def consume(*_: Any) -> None:
        raise error

    def change(sockets: Sockets) -> None:
        sockets._consumers = consume

    return change


def test_socket_with_long_headers_is_refused_before_they_are_read() -> None:
    long = [(b"cookie", b"a" * LONGEST_HEADER)]
    escapes = [(b"cookie", b'a="' + b'\\"' * (MOST_BACKSLASHES + 1) + b'"')]
    assert closed_with(headers=long) == LONG_HEAD
    assert closed_with(headers=escapes) == LONG_HEAD
    assert closed_with(path="/nowhere") == NO_SUCH_ADDRESS


def test_socket_ends_with_a_code_also_when_something_breaks(caplog: pytest.LogCaptureFixture) -> None:
    away = OperationalError("the database system is starting up")
    away.__cause__ = CannotConnectNow()
    assert closed_with(consumer(away)) == LATER
    (line,) = caplog.records
    assert ("starting up" in line.getMessage(), line.exc_info) == (True, None)
    caplog.clear()
    assert closed_with(consumer(ValueError("ours"))) == BROKEN
    (line,) = caplog.records
    assert line.exc_info is not None  # a fault of the code is to be found


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("before", "opens"), [(True, True), (False, False)])
def test_socket_of_a_page_from_before_a_new_secret_opens_as_long_as_the_old_one_is_known(
    settings: Settings, before: bool, opens: bool
) -> None:
    """As pages do. The session stays as it is, so that the next page renews it."""
    old = settings.SECRET_KEY
    session = session_of(make_member(make_tenant("lumen"), OWNER).user)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 50, [old] if before else []
    cookie = f"{settings.SESSION_COOKIE_NAME}={session.session_key}".encode()
    headers = [(b"cookie", cookie), (b"origin", b"http://localhost"), (b"host", b"localhost")]
    request_scope = {"type": "websocket", "path": "/ws/t/lumen/", "headers": headers, "query_string": b""}

    async def talk() -> Mapping[str, Any]:
        call = ApplicationCommunicator(Sockets(websocket_urlpatterns), request_scope)
        await call.send_input({"type": "websocket.connect"})
        first: Mapping[str, Any] = await call.receive_output(PATIENCE)
        await call.send_input({"type": "websocket.disconnect", "code": 1000})
        await call.wait(PATIENCE)
        return first

    assert asyncio.run(talk())["type"] == ("websocket.accept" if opens else "websocket.close")
    assert Session.objects.filter(session_key=session.session_key).exists()
