"""The stream of events: in order, from where the client stopped, and only as long as the caller may listen."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.test import AsyncClient, Client
from django.utils import timezone

from bourse_client.stream import Place
from scheduling.feed.api import hub, stream
from scheduling.feed.api.events import MOST_STREAMS
from scheduling.feed.events import event, events_append
from tenants.access import NOBODY
from tenants.api.authentication import person_name
from tenants.models import ApiToken, Tenant, User
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.selectors import access_again, access_of
from tenants.sessions import login_of
from tests.api.builders import ALL_SCOPES, Program, problem, program_of
from tests.patience import PATIENCE
from tests.tenants.builders import NOW, PASSWORD, client_of, make_member, make_tenant, session_of


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant("lumen")


def tell(tenant: Tenant | None, *kinds: str) -> list[int]:
    events = [event(kind, pool_id=None, tenant_id=tenant.pk if tenant else None, at=NOW) for kind in kinds]
    events_append(events)
    return [row.pk for row in events]


Until = Callable[[str], Awaitable[str]]


def listening(caller: Program | Client, do: Callable[[Until], Awaitable[Any]], **headers: str) -> Any:
    """Opens the stream, with a token or with a session; `do` gets a function that reads until a text has come."""

    async def run() -> Any:
        sent_headers, client = {"Accept": "text/event-stream"}, AsyncClient()
        if isinstance(caller, Program):
            sent_headers["Authorization"] = f"Bearer {caller.secret}"
        else:
            client.cookies = caller.cookies.copy()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await client.get("/api/v1/tenants/lumen/events/stream/", headers=sent_headers | named)
        assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
        pieces: AsyncIterator[bytes] = response.streaming_content
        text_so_far = ""

        async def until(text: str) -> str:
            nonlocal text_so_far
            async with asyncio.timeout(PATIENCE):  # for all of it: a stream without news has comments for ever
                while text not in text_so_far:
                    text_so_far += (await anext(pieces)).decode()
            return text_so_far

        try:
            await until("retry: 2000")
            return await do(until)
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]
            await asyncio.sleep(0)

    return async_to_sync(run)()


def ids(text: str) -> list[int]:
    """Those of events: the first id of a stream says only where it begins."""
    return [int(number) for number in re.findall(r"^id: (\d+)\nevent: ", text, re.MULTILINE)]


def test_event_comes_at_once_without_waiting_for_the_next_look(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(stream, "LOOK_SECONDS", 2 * PATIENCE)
    other = make_tenant("castor")
    caller = program_of(OWNER, tenant)
    tell(tenant, "job_submitted")

    async def do(until: Until) -> tuple[str, list[int]]:
        while not any(place.groups for place in hub.hub()._places.values()):
            await asyncio.sleep(0.01)
        events = await database_sync_to_async(tell)(tenant, "job_started")
        await database_sync_to_async(tell)(other, "job_started")
        events += await database_sync_to_async(tell)(tenant, "job_finished")
        return await until("event: job_finished"), events

    events_text, events = listening(caller, do)
    assert ids(events_text) == events  # neither what was before, nor another tenant's
    data = next(line for line in events_text.splitlines() if line.startswith("data: "))
    assert json.loads(data.removeprefix("data: "))["kind"] == "job_started"
    assert not +hub.open_streams


def test_client_that_comes_back_gets_what_it_missed(tenant: Tenant) -> None:
    caller = program_of(OWNER, tenant)
    events = tell(tenant, "job_submitted", "job_awarded", "job_started")

    async def do(until: Until) -> str:
        return await until("event: job_started")

    assert ids(listening(caller, do, Last_Event_ID=str(events[0]))) == events[1:]


def test_client_whose_stream_breaks_before_its_first_event_misses_none(tenant: Tenant) -> None:
    caller = program_of(OWNER, tenant)
    tell(tenant, "job_submitted")

    async def nothing(until: Until) -> str:
        return await until("\n\n")

    place = Place()
    assert not [*filter(None, place.messages(listening(caller, nothing).encode().splitlines(keepends=True)))]
    missed = tell(tenant, "job_awarded", "job_started")

    async def do(until: Until) -> str:
        return await until("event: job_started")

    assert ids(listening(caller, do, Last_Event_ID=place.last)) == missed


def test_role_without_jobs_hears_of_none(tenant: Tenant) -> None:
    caller = program_of(BILLING, tenant)
    before, _, low = tell(tenant, "budget_changed", "job_started", "low_balance")

    async def do(until: Until) -> str:
        return await until("event: low_balance")

    assert ids(listening(caller, do, Last_Event_ID=str(before))) == [low]


@pytest.mark.parametrize(
    ("role", "scopes", "kinds"),
    [
        (VIEWER, ALL_SCOPES, []),
        (SUBMITTER, ALL_SCOPES, []),
        (OWNER, ["tenant:read"], []),
        (BILLING, ALL_SCOPES, ["budget_changed", "credits_withdrawn"]),
        (AUDITOR, ALL_SCOPES, ["budget_changed", "credits_withdrawn"]),
    ],
)
def test_whoever_may_not_see_the_money_reads_of_no_budget_and_no_withdrawal(
    tenant: Tenant, role: str, scopes: Sequence[str], kinds: list[str]
) -> None:
    owner, operator = program_of(OWNER, tenant), program_of(OPERATOR, tenant)
    caller = program_of(role, tenant, scopes)
    assert owner.post("tenants/lumen/budgets/", {"period": "month", "hard_limit": "500"}).status_code < 300
    for action, amount in (("grant", "1000"), ("withdraw", "100")):
        body = {"amount": amount, "key": "k1", "reason": "Earnings of February."}
        assert operator.post(f"tenants/lumen/credits/{action}/", body).status_code < 300
    assert (caller.get("tenants/lumen/budgets/").status_code == 200) == bool(kinds)
    assert [event["kind"] for event in caller.get("tenants/lumen/events/").json()["results"]] == kinds


def test_stream_closes_when_the_token_is_revoked(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(stream, "RIGHTS_ASKED", timedelta(0))
    monkeypatch.setattr(stream, "LOOK_SECONDS", 0.05)
    caller = program_of(VIEWER, tenant)
    assert caller.token is not None
    rows = ApiToken.objects.filter(pk=caller.token.pk)

    async def do(until: Until) -> str:
        await database_sync_to_async(rows.update)(revoked_at=NOW)
        return await until("event: closed")

    assert "event: closed" in listening(caller, do)


def log_out(client: Client) -> None:
    client.post("/accounts/logout/")


def change_password(client: Client) -> None:
    """As people do it. The browser stays logged in, with another session."""
    new = "another good password 1"
    fields = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    assert client.post("/accounts/password/change/", fields).status_code == 302
    assert client.get("/api/v1/tenants/lumen/events/").status_code == 200


def get_a_new_password(client: Client) -> None:
    """As by a mail that was opened elsewhere. The session keeps its row until it is used."""
    user = User.objects.get(pk=client.session[SESSION_KEY])
    user.set_password("another good password 1")
    user.save()


def expire(client: Client) -> None:
    Session.objects.filter(session_key=client.session.session_key).update(expire_date=NOW)


@pytest.mark.parametrize("ending", [log_out, change_password, get_a_new_password, expire])
def test_stream_closes_when_the_session_ends(tenant: Tenant, monkeypatch, ending: Callable[[Client], None]) -> None:
    monkeypatch.setattr(stream, "RIGHTS_ASKED", timedelta(0))
    monkeypatch.setattr(stream, "LOOK_SECONDS", 0.05)
    user = make_member(tenant, OWNER).user
    here, elsewhere = client_of(user), client_of(user)

    async def do(until: Until) -> tuple[str, str]:
        await database_sync_to_async(elsewhere.logout)()  # another session of the same person
        await database_sync_to_async(tell)(tenant, "job_started")
        before = await until("event: job_started")
        await database_sync_to_async(ending)(here)
        await database_sync_to_async(tell)(tenant, "job_finished")
        return before, await until("event: closed")

    before, rest = listening(here, do)
    assert "event: closed" not in before
    assert "event: job_finished" not in rest


def test_rights_are_asked_again_and_again_of_a_session_that_lasts(tenant: Tenant) -> None:
    user = make_member(tenant, OWNER).user
    access = replace(access_of(user, tenant), login=login_of(session_of(user)))
    again = access_again(access_again(access, timezone.now()), timezone.now())
    assert again == access
    assert access_again(replace(access, login=None), timezone.now()) == NOBODY


def test_silence_is_broken_by_comments(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(stream, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(stream, "BEAT_SECONDS", 0.1)

    async def do(until: Until) -> str:
        return await until(": still here")

    assert ids(listening(program_of(VIEWER, tenant), do)) == []


def test_one_person_opens_only_so_many(tenant: Tenant, monkeypatch) -> None:
    caller = program_of(VIEWER, tenant)
    assert caller.token is not None
    monkeypatch.setitem(hub.open_streams, person_name(caller.token.user), MOST_STREAMS)
    problem(caller.get("tenants/lumen/events/stream/"), 429, "too_many_streams")


def test_head_of_the_stream_ends_at_once_and_opens_none(tenant: Tenant) -> None:
    program = program_of(OWNER, tenant)

    async def head() -> tuple[int, str, bool]:
        headers = {"Authorization": f"Bearer {program.secret}"}
        answer = await AsyncClient().head("/api/v1/tenants/lumen/events/stream/", headers=headers)
        return answer.status_code, answer["Content-Type"], answer.streaming

    assert async_to_sync(head)() == (200, "text/event-stream", False)
    assert not any(hub.open_streams.values())


def test_feed_goes_on_where_the_last_page_ended(tenant: Tenant) -> None:
    caller = program_of(OWNER, tenant)
    events = tell(tenant, "job_submitted", "job_started", "job_finished")
    public = tell(None, "slot_settled")
    feed = "tenants/lumen/events/"
    first = caller.get(f"{feed}?limit=2").json()["results"]
    rest = caller.get(f"{feed}?after={first[-1]['id']}").json()
    assert [row["id"] for row in (*first, *rest["results"])] == events + public
    assert rest["results"][-1]["public"]
    assert caller.get(f"{feed}?after={public[0]}").json()["results"] == []
    assert len(caller.get(f"{feed}?format=csv").getvalue().splitlines()) == 5
