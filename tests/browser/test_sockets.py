"""What a page's socket says and to whom, against a real web server. No browser is needed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connections
from django.urls import path
from django.utils import timezone
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from scheduling.feed import notify
from scheduling.feed.events import event, events_append
from scheduling.feed.read_events import feed_cursor
from scheduling.feed.socket import MarketConsumer
from scheduling.models import Event, Pool
from tenants.models import Membership, Tenant, User
from tenants.roles import BILLING, OWNER, VIEWER
from tenants.scoping import scope, scope_disabled
from tests.browser.conftest import PATIENCE, session_of
from tests.scheduling.markets import make_market, make_waiting
from tests.tenants.builders import make_member, make_person
from tests.tenants.builders import session_of as session_of_login
from tests.web import environment

pytestmark = pytest.mark.django_db(transaction=True)
SIGNS_OF_LIFE = 20  # more of them than any news takes


def members(*slugs: str, role: str = OWNER) -> tuple[Pool, list[tuple[Tenant, User]]]:
    pool, tenants = make_market(*slugs)
    return pool, [(tenant, make_member(tenant, role).user) for tenant in tenants]


def listen(web: str, tenant: Tenant, user: User | None, after: int | None = None) -> ClientConnection:
    query = "" if after is None else f"?after={after}"
    headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session_of(user)}"} if user else {}
    address = f"{web.replace('http', 'ws', 1)}/ws/t/{tenant.slug}/{query}"
    return connect(address, additional_headers=headers, origin=web)  # type: ignore[arg-type]


def hear(socket: ClientConnection) -> dict[str, Any]:
    return json.loads(socket.recv(timeout=PATIENCE))


def news(socket: ClientConnection) -> dict[str, Any]:
    """The next message that is more than a sign of life."""
    for _ in range(SIGNS_OF_LIFE):
        if (message := hear(socket))["topics"]:
            return message
    raise AssertionError("no news came")


def tell(tenant: Tenant | None, pool: Pool, kind: str = "job_waiting", job: int = 1, **data: Any) -> None:
    subject = f"job:{job}" if tenant else ""
    owner = tenant.pk if tenant else None
    with scope_disabled("the test makes events"):
        row = event(kind, pool_id=pool.pk, tenant_id=owner, at=timezone.now(), subject=subject, data=data)
        events_append([row])


def test_a_tenants_socket_hears_its_own_and_nothing_of_another(web: str) -> None:
    """Both have a job of the same name."""
    pool, ((lumen, mira), (castor, tomas)) = members("lumen", "castor")
    ours, theirs = make_waiting(pool, lumen), make_waiting(pool, castor)
    assert ours.name == theirs.name
    with listen(web, lumen, mira) as socket, listen(web, castor, tomas) as other:
        hear(socket), hear(other)
        tell(castor, pool, job=theirs.pk, name="secret-project")
        heard_there = news(other)
        tell(lumen, pool, job=ours.pk)
        heard_here = news(socket)
    assert f"job:{theirs.pk}" in heard_there["topics"]
    assert f"job:{ours.pk}" in heard_here["topics"]
    assert f"job:{theirs.pk}" not in heard_here["topics"]
    assert set(heard_here) == {"topics", "told", "cursor"}


def test_everybody_hears_what_is_public_and_of_which_pool(web: str) -> None:
    pool, ((lumen, mira), (castor, tomas)) = members("lumen", "castor")
    with listen(web, lumen, mira) as one, listen(web, castor, tomas) as two:
        hear(one), hear(two)
        tell(None, pool, "interval_closed", number=1)
        assert "prices" in news(one)["topics"]
        assert "prices" in news(two)["topics"]


def test_billing_is_not_told_that_a_job_moved(web: str) -> None:
    pool, ((lumen, clara),) = members("lumen", role=BILLING)
    with listen(web, lumen, clara) as socket:
        hear(socket)
        tell(lumen, pool, "job_awarded", paid=5)
        topics = news(socket)["topics"]
    assert "money" in topics
    assert not [topic for topic in topics if topic.startswith("job")]


@pytest.mark.parametrize("has_account", [True, False])
def test_stranger_gets_no_socket(web: str, has_account: bool) -> None:
    _, ((lumen, _),) = members("lumen")
    with pytest.raises(InvalidStatus) as refused:
        listen(web, lumen, make_person() if has_account else None)
    assert refused.value.response.status_code == 403


def test_whoever_comes_back_hears_what_they_missed(web: str) -> None:
    pool, ((lumen, mira), (castor, _)) = members("lumen", "castor")
    before = feed_cursor()
    tell(lumen, pool, job=7)
    tell(castor, pool, job=8)
    with listen(web, lumen, mira, after=before) as socket:
        first = hear(socket)
    assert "job:7" in first["topics"]
    assert "job:8" not in first["topics"]
    assert first["cursor"] == Event.objects.order_by("-pk").values_list("pk", flat=True)[0]
    with listen(web, lumen, mira, after=first["cursor"]) as socket:
        assert hear(socket)["topics"] == ["slot"]


@pytest.mark.wide
def test_socket_outlives_a_silence_longer_than_the_broker_is_asked_at_once(web: str) -> None:
    """Signs of life alone, for longer than one question to the broker lasts."""
    _, ((lumen, mira),) = members("lumen")
    with listen(web, lumen, mira) as socket:
        assert [hear(socket)["topics"] for _ in range(3)] == [[], [], []]


def test_an_event_of_another_process_reaches_the_page(web: str) -> None:
    pool, ((lumen, mira),) = members("lumen")
    script = (
        "import django; django.setup()\n"
        "from django.utils import timezone\n"
        "from scheduling.feed.events import event, events_append\n"
        "from tenants.scoping import scope_disabled\n"
        "with scope_disabled('the test makes an event'):\n"
        f"    events_append([event('job_waiting', pool_id={pool.pk}, tenant_id={lumen.pk}, at=timezone.now(),"
        " subject='job:42')])\n"
    )
    with listen(web, lumen, mira) as socket:
        hear(socket)
        subprocess.run([sys.executable, "-c", script], env=environment(), check=True, timeout=PATIENCE)
        assert "job:42" in news(socket)["topics"]


@pytest.mark.parametrize("what_ends", ["membership", "session"])
def test_socket_closes_when_the_membership_or_the_session_ends(act: Callable[..., Any], what_ends: str) -> None:
    class Impatient(MarketConsumer):
        recheck_seconds = 0.2

    _, ((lumen, mira),) = act(members, "lumen", role=VIEWER)
    session = act(session_of_login, mira)
    router = URLRouter([path("ws/t/<slug:tenant_slug>/", Impatient.as_asgi())])

    async def story() -> list[dict[str, Any]]:
        handshake = {
            "type": "websocket",
            "path": "/ws/t/lumen/",
            "query_string": b"",
            "headers": [],
            "session": session,
        }
        socket = ApplicationCommunicator(router, handshake)
        await socket.send_input({"type": "websocket.connect"})
        messages = [await socket.receive_output(timeout=PATIENCE), await socket.receive_output(timeout=PATIENCE)]
        await asyncio.to_thread(leave)
        while messages[-1]["type"] == "websocket.send":
            messages.append(await socket.receive_output(timeout=PATIENCE))
        await socket.send_input({"type": "websocket.disconnect", "code": 4404})
        await socket.wait(timeout=PATIENCE)
        return messages

    def leave() -> None:
        try:
            if what_ends == "session":
                Session.objects.get(session_key=session.session_key).delete()
            else:
                with scope(lumen):
                    Membership.objects.filter(user=mira).delete()
        finally:
            connections.close_all()

    messages = act(lambda: asyncio.run(story()))
    assert messages[0]["type"] == "websocket.accept"
    assert (messages[-1]["type"], messages[-1]["code"]) == ("websocket.close", 4404)


def test_a_broker_that_does_not_answer_undoes_nothing(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def no_layer(*_: object) -> None:
        raise ConnectionError("no broker")

    pool, ((lumen, _),) = members("lumen")
    monkeypatch.setattr(notify, "get_channel_layer", no_layer)
    tell(lumen, pool, job=9)
    with scope(lumen):
        assert Event.objects.filter(subject="job:9").exists()


def test_every_kind_of_event_moves_a_part() -> None:
    """A kind without topics would change nothing on an open page."""
    for kind in ("job_waiting", "job_finished", "server_lost", "slot_settled", "interval_closed", "pool_held"):
        owner = 1 if kind.startswith("job_") else None
        row = event(kind, pool_id=1, tenant_id=owner, at=timezone.now())
        assert notify.topics_of(row), kind
