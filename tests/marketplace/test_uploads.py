"""Long bodies are read into a file, for who has a ticket, a few at once; every other body keeps its bound."""

from __future__ import annotations

import asyncio
import io
import time
from collections import Counter
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import path

from marketplace.web.handler import OneThreadHandler
from tenants.access import Access
from tenants.api.bodies import MOST_BYTES
from tenants.models import Tenant, User
from tenants.requests.uploads import MOST_BYTES as MOST_UPLOAD
from tenants.requests.uploads import MOST_OF_TENANT, Sender, Uploads, sender_of, ticket_for

PIECE = b"x" * (1 << 16)


def count_bytes(request: HttpRequest) -> HttpResponse:
    """How much came."""
    return HttpResponse(str(sum(map(len, iter(lambda: request.read(1 << 16), b"")))))


urlpatterns = [path("taken", count_bytes)]


@pytest.fixture
def handler(settings: Any) -> OneThreadHandler:
    settings.ROOT_URLCONF, settings.ALLOWED_HOSTS, settings.MIDDLEWARE = __name__, ["*"], []
    return OneThreadHandler()


def ticket(tenant: int = 3, person: int = 14) -> str:
    return ticket_for(Access(user=User(pk=person), tenant=Tenant(pk=tenant), roles=frozenset()))


def scope_with(upload: str, method: str = "POST", *, length: bool = True) -> dict[str, Any]:
    headers = [(b"content-length", b"1")] if length else []
    query = f"upload={upload}".encode()
    return {"type": "http", "method": method, "path": "/taken", "headers": headers, "query_string": query}


async def upload(handler: OneThreadHandler, scope: dict[str, Any], pieces: int) -> tuple[int, bytes]:
    call = ApplicationCommunicator(handler, scope)
    for _ in range(pieces):
        await call.send_input({"type": "http.request", "body": PIECE, "more_body": True})
    await call.send_input({"type": "http.request", "body": b"", "more_body": False})
    begun = await call.receive_output(10)
    body = (await call.receive_output(10)).get("body", b"")
    await call.wait()
    return begun["status"], body


def test_long_body_is_read_for_who_has_a_ticket_and_up_to_its_own_bound(handler: OneThreadHandler) -> None:
    pieces = MOST_UPLOAD // len(PIECE)
    status, body = async_to_sync(upload)(handler, scope_with(ticket()), pieces)
    assert (status, body) == (200, str(MOST_UPLOAD).encode())
    assert async_to_sync(upload)(handler, scope_with(ticket()), pieces + 1)[0] == 413
    assert async_to_sync(upload)(handler, scope_with(ticket()), 1)[0] == 200  # its place is free again


@pytest.mark.parametrize(
    "scope",
    [
        scope_with(""),
        scope_with("nonsense"),
        scope_with(signing.dumps([3, 14], salt="another")),
        {**scope_with(""), "query_string": b"%ff=%ff&upload=%ff"},
    ],
    ids=["none", "nonsense", "of another use", "no text"],
)
def test_body_without_a_ticket_keeps_its_bound(handler: OneThreadHandler, scope: dict[str, Any]) -> None:
    assert async_to_sync(upload)(handler, scope, MOST_BYTES // len(PIECE))[0] == 200
    assert async_to_sync(upload)(handler, scope, MOST_BYTES // len(PIECE) + 1)[0] == 413


def test_ticket_is_for_posts_that_say_their_length_and_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    good = ticket()
    assert sender_of(scope_with(good)) == Sender(3, 14)
    assert sender_of(scope_with(good, "PUT")) is None
    assert sender_of(scope_with(good, length=False)) is None
    assert ticket_for(Access(user=None, tenant=None, roles=frozenset())) == ""
    later = time.time() + 3_700
    monkeypatch.setattr("django.core.signing.time.time", lambda: later)
    assert sender_of(scope_with(good)) is None


def test_long_body_is_a_file_and_no_memory(handler: OneThreadHandler) -> None:
    async def body(sender: Sender | None) -> Any:
        pieces = [{"type": "http.request", "body": PIECE, "more_body": True}, {"type": "http.request"}]

        async def receive() -> dict[str, Any]:
            return pieces.pop(0)

        return await handler.read_body(receive, sender)

    with asyncio.run(body(Sender(3, 14))) as file:
        assert isinstance(file.fileno(), int)
    with asyncio.run(body(None)) as memory:
        assert isinstance(memory, io.BytesIO)


def test_a_tenant_and_a_person_have_a_few_at_once(handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketplace.web.handler.UPLOAD_WAIT_SECONDS", 0.0)

    async def talk() -> list[int]:
        first = ApplicationCommunicator(handler, scope_with(ticket()))
        await first.send_input({"type": "http.request", "body": PIECE, "more_body": True})
        await asyncio.sleep(0)  # it is being read
        statuses = [(await upload(handler, scope_with(ticket()), 1))[0]]  # of the same person
        statuses.append((await upload(handler, scope_with(ticket(person=15)), 1))[0])  # the tenant's second
        await first.send_input({"type": "http.disconnect"})
        await first.wait()
        return [*statuses, (await upload(handler, scope_with(ticket()), 1))[0]]

    assert async_to_sync(talk)() == [429, 200, 200]
    places = Uploads()
    assert [places.begin(Sender(3, person)) for person in range(MOST_OF_TENANT + 1)] == [True, True, False]
    assert [places.begin(Sender(tenant, 10 + tenant)) for tenant in (4, 5, 6)] == [True, True, False]  # of all
    places.end(Sender(3, 0))
    assert places.begin(Sender(6, 16))


def test_who_presses_the_button_twice_waits_for_the_first_one(handler: OneThreadHandler) -> None:
    """The second one has its answer when the first one is through, and not a refusal; a fourth is too many."""

    async def talk() -> list[int]:
        first = ApplicationCommunicator(handler, scope_with(ticket()))
        await first.send_input({"type": "http.request", "body": PIECE, "more_body": True})
        await asyncio.sleep(0)  # it is being read
        second, third = (asyncio.create_task(upload(handler, scope_with(ticket()), 1)) for _ in range(2))
        await asyncio.sleep(0)  # they wait
        fourth = (await upload(handler, scope_with(ticket()), 1))[0]
        assert not second.done()
        await first.send_input({"type": "http.request", "body": b"", "more_body": False})
        statuses = [(await first.receive_output(10))["status"], (await second)[0], (await third)[0]]
        await first.receive_output(10)
        await first.wait()
        return [*statuses, fourth]

    assert async_to_sync(talk)() == [200, 200, 200, 429]
    assert not handler._uploads._waiting


def test_who_waits_in_vain_is_told_so_and_leaves_no_trace(
    handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marketplace.web.handler.UPLOAD_WAIT_SECONDS", 0.01)
    assert handler._uploads.begin(Sender(3, 14))
    status, body = async_to_sync(upload)(handler, scope_with(ticket()), 1)
    assert (status, b"Files are being sent already" in body) == (429, True)
    assert (handler._uploads._waiting, handler._uploads._wakes) == (Counter(), set())


def test_a_ticket_says_how_much_it_is_good_for(handler: OneThreadHandler) -> None:
    by = Access(user=User(pk=14), tenant=None, roles=frozenset())
    large = ticket_for(by, MOST_UPLOAD + len(PIECE))
    assert sender_of(scope_with(large)) == Sender(0, 14, MOST_UPLOAD + len(PIECE))
    pieces = MOST_UPLOAD // len(PIECE) + 1
    assert async_to_sync(upload)(handler, scope_with(large), pieces)[0] == 200
    assert async_to_sync(upload)(handler, scope_with(large), pieces + 1)[0] == 413


def test_people_read_a_page_that_says_what_to_do(handler: OneThreadHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, good = MOST_BYTES // len(PIECE) + 1, ticket()
    _, page = async_to_sync(upload)(handler, scope_with(""), pieces)
    assert b"more than the 1 MiB that are taken here" in page
    assert b"Go back: what you typed still stands in the form." in page
    assert b"more than the 21 MiB" in async_to_sync(upload)(handler, scope_with(good), MOST_UPLOAD // len(PIECE) + 1)[1]
    later = time.time() + 3_700
    monkeypatch.setattr("django.core.signing.time.time", lambda: later)
    _, page = async_to_sync(upload)(handler, scope_with(good), pieces)
    assert b"for an hour after the form was opened" in page
