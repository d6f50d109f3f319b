"""The socket of the overview hears every tenant and pool, and lets nobody in but the staff."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.sessions.backends.base import SessionBase
from django.utils import timezone

from scheduling.feed import notify
from scheduling.feed.events import event, events_append
from scheduling.feed.socket import OverviewConsumer
from tenants.models import Tenant
from tenants.roles import AUDITOR, OWNER
from tenants.scoping import scope_disabled
from tests.patience import PATIENCE
from tests.tenants.builders import client_of, make_member, make_staff, make_tenant, session_of

pytestmark = pytest.mark.django_db(transaction=True)


def socket_of(session: SessionBase | None, query: bytes = b"") -> ApplicationCommunicator:
    handshake = {"type": "websocket", "path": "/ws/overview/", "query_string": query, "headers": [], "session": session}
    return ApplicationCommunicator(OverviewConsumer.as_asgi(), handshake)


async def message_from(socket: ApplicationCommunicator) -> dict[str, Any]:
    message = await socket.receive_output(timeout=PATIENCE)
    return json.loads(message["text"]) if message["type"] == "websocket.send" else message


async def connected(socket: ApplicationCommunicator) -> dict[str, Any]:
    await socket.send_input({"type": "websocket.connect"})
    return await message_from(socket)


def test_staff_hear_what_happens_to_any_tenant() -> None:
    lumen, auditor = make_tenant("lumen"), session_of(make_staff(AUDITOR).user)

    async def story() -> list[dict[str, Any]]:
        socket = socket_of(auditor)
        messages = [await connected(socket), await message_from(socket)]
        await sync_to_async(notify.tenant_tell)(lumen.pk, "money")
        messages.append(await message_from(socket))
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(timeout=PATIENCE)
        return messages

    accepted, first, news = async_to_sync(story)()
    assert accepted["type"] == "websocket.accept"
    assert (first["topics"], news["topics"]) == ([], ["money"])


def test_after_a_gap_everything_is_asked_for_again() -> None:
    lumen, auditor = make_tenant("lumen"), session_of(make_staff(AUDITOR).user)
    with scope_disabled("the test makes an event"):
        events_append([event("job_waiting", pool_id=None, tenant_id=lumen.pk, at=timezone.now(), subject="job:42")])

    async def story() -> dict[str, Any]:
        socket = socket_of(auditor, b"after=0")
        await connected(socket)
        first = await message_from(socket)
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(timeout=PATIENCE)
        return first

    assert set(async_to_sync(story)()["topics"]) == set(notify.EVERYBODY)


def test_whoever_logs_out_hears_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OverviewConsumer, "recheck_seconds", 0.2)
    client = client_of(make_staff(AUDITOR).user)
    session = client.session

    async def story() -> list[dict[str, Any]]:
        socket = socket_of(session)
        messages = [await connected(socket), await message_from(socket)]
        await sync_to_async(client.logout)()
        while messages[-1].get("type") != "websocket.close":
            messages.append(await message_from(socket))
        await socket.send_input({"type": "websocket.disconnect", "code": 4404})
        await socket.wait(timeout=PATIENCE)
        return messages

    messages = async_to_sync(story)()
    assert (messages[0]["type"], messages[-1]["code"]) == ("websocket.accept", 4404)


@pytest.mark.parametrize("who", ["owner", "nobody"])
def test_others_are_turned_away(who: str) -> None:
    tenant: Tenant = make_tenant("lumen")
    session = session_of(make_member(tenant, OWNER).user) if who == "owner" else None

    async def story() -> dict[str, Any]:
        return await connected(socket_of(session))

    closed = async_to_sync(story)()
    assert (closed["type"], closed["code"]) == ("websocket.close", 4404)
