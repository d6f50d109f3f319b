"""Calling a receiver: one call each, no redirects, no waiting for ever, and one process at a time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from scheduling.app.tasks import webhooks_tick
from scheduling.models import DeliveryState, WebhookDelivery
from scheduling.webhooks.addresses import PRIVATE, target_of
from scheduling.webhooks.calls import MOST_BYTES, CallOutcome, call
from scheduling.webhooks.changes import webhook_create
from scheduling.webhooks.receivers import FIRST_PAUSE, LONGEST_PAUSE, LONGEST_QUIET, backoff
from scheduling.webhooks.rounds import LOCK
from tenants.access import Refused
from tenants.scoping import scope
from tests.patience import PATIENCE
from tests.tenants.builders import NOW, done
from tests.webhooks.hooks import Receiver, go, is_ours, make, owner, rows, tell


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Somebody on loopback who is called once. The requests that came."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)

        def run() -> None:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                came.append(connection.recv(65_536))
                with suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hook?a=1", came
    thread.join(timeout=PATIENCE)


def says(content: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(content)


def floods(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65_536)


def drips(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"H")
        time.sleep(0.01)


@pytest.fixture
def inside(settings: Any) -> None:
    settings.WEBHOOKS_ALLOW_PRIVATE, settings.WEBHOOKS_PORTS = True, None


@pytest.mark.usefixtures("inside")
class TestCalling:
    def test_body_and_headers_arrive(self) -> None:
        with server(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as (url, came):
            outcome = call(url, headers={"X-One": "1"}, body=b'{"a":1}')
        assert outcome == CallOutcome(200, "", "ok")
        head, _, body = came[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /hook?a=1 HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"X-One: 1" in head
        assert body == b'{"a":1}'

    def test_redirect_is_not_followed(self) -> None:
        with server(says(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")) as (
            url,
            _,
        ):
            outcome = call(url, headers={}, body=b"")
        assert (outcome.status, outcome.worked) == (302, False)

    def test_answer_without_end_is_cut_off(self) -> None:
        began = time.monotonic()
        with server(floods) as (url, _):
            outcome = call(url, headers={}, body=b"", patience=PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
        assert (outcome.status, outcome.worked) == (200, True)
        assert len(outcome.answer) <= MOST_BYTES

    def test_answer_that_drips_is_not_waited_for(self) -> None:
        began = time.monotonic()
        with server(drips) as (url, _):
            outcome = call(url, headers={}, body=b"", patience=0.3)
        assert outcome == CallOutcome(None, "No answer in 0.3 seconds.")
        assert time.monotonic() - began < PATIENCE / 2

    @pytest.mark.parametrize("content", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 2\r\n", b"SSH-2.0-x\r\n"])
    def test_what_is_not_http_is_a_failure(self, content: bytes) -> None:
        with server(says(content)) as (url, _):
            assert not call(url, headers={}, body=b"").worked

    def test_nobody_there_is_a_failure(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        outcome = call(f"http://127.0.0.1:{port}/", headers={}, body=b"")
        assert outcome.flaw.startswith("No connection")

    def test_certificate_of_nobody_we_trust_is_a_failure(self) -> None:
        with server(says(b"HTTP/1.1 200 OK\r\n\r\n")) as (url, _):
            outcome = call(url.replace("http:", "https:"), headers={}, body=b"")
        assert outcome.flaw.startswith("No trusted connection")


def test_name_that_points_inside_by_the_time_of_the_call_is_not_called() -> None:
    """DNS rebinding: public when the webhook was made, loopback now."""
    hosts: list[str] = []
    answers = [["93.184.216.34"], ["127.0.0.1"]]

    def resolve(host: str, port: int) -> list[str]:
        hosts.append(host)
        return answers.pop(0)

    assert not isinstance(target_of("https://hooks.example/", resolve=resolve), Refused)
    outcome = call("https://hooks.example/", headers={}, body=b"", resolve=resolve)
    assert outcome == CallOutcome(None, PRIVATE)
    assert hosts == ["hooks.example"] * 2


def test_name_is_looked_up_once_for_a_call_and_that_address_is_connected_to(settings, monkeypatch) -> None:
    connected: list[Any] = []

    def connect(address: Any, timeout: float) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("scheduling.webhooks.calls.socket.create_connection", connect)
    hosts: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        hosts.append(host)
        return ["93.184.216.34"]

    call("https://hooks.example/", headers={}, body=b"", resolve=resolve)
    assert (hosts, connected) == (["hooks.example"], [("93.184.216.34", 443)])


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("inside")
def test_task_tells_a_real_receiver_what_was_committed() -> None:
    by = owner()
    with server(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as (url, came):
        with scope(by.tenant):
            issued = done(webhook_create(url=url, kinds=["job_started"], by=by, at=NOW))
        (number,) = tell(by.tenant, "job_started")
        webhooks_tick()
    head, _, body = came[0].partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert json.loads(body)["id"] == number
    assert is_ours(issued.secret, fields, body, at=timezone.now())
    (delivery,) = rows(WebhookDelivery)
    assert delivery.state == DeliveryState.DELIVERED


@pytest.mark.django_db(transaction=True)
def test_second_process_makes_no_round_while_one_is_at_it() -> None:
    by = owner()
    make(by)
    tell(by.tenant, "job_started")
    counts: list[int] = []

    def elsewhere(receiver: Receiver) -> None:
        try:
            counts.append(go(receiver))
        finally:
            connection.close()

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        for _ in range(2):
            thread = threading.Thread(target=elsewhere, args=(Receiver(),))
            thread.start()
            thread.join(timeout=PATIENCE)
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    assert counts == [0, 1]


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True))
def test_back_off_doubles_up_to_its_limit_and_jitter_takes_at_most_half(failures: int, draw: float) -> None:
    whole = min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)
    assert backoff(failures, 0.0) == whole
    assert whole / 2 <= backoff(failures, draw) <= whole
    assert LONGEST_QUIET < LONGEST_PAUSE
