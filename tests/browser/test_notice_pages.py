"""The pages of notices at twice their size, with a chat address in each of its states: nothing wrong for axe-core in
either theme, and no page slides sideways."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.feed.events import event, events_append
from scheduling.feed.kinds import EventKind
from scheduling.models import ChatAddress
from scheduling.notices.collecting import notices_collect
from scheduling.webhooks.chats import chat_set
from tenants.models import Tenant, User
from tenants.roles import OWNER
from tests.browser.conftest import Visitor
from tests.browser.test_every_page import slides
from tests.notices.test_notices import member
from tests.tenants.builders import done, make_tenant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.wide]

Act = Callable[..., Any]
PATHS = ("/notices/", "/notices/choices/", "/notices/guide/")
WIDTHS = (320, 390, 720, 1440)
TWICE = {"width": 720, "height": 450}  # what a window of 1440 by 900 shows at 200 %
FLAW = "The answer was 404. Only 200 to 299 count as taken."


def owner_with_notices() -> tuple[Tenant, User]:
    """An owner with a notice of each kind that money makes, and of a server."""
    tenant = make_tenant("lumen", "Lumen")
    person, at = member(tenant, OWNER), timezone.now()
    budget = {"period": "month", "spent": 85_000_000, "limit": 100_000_000, "member": None}
    low = {"available": 120_000_000, "slots_left": 3, "per_slot": 60_000, "slot_seconds": 10}
    lost = {"server": "s04", "awards": 3, "refunded": 12_500_000}
    news: list[tuple[EventKind, int | None, dict[str, Any]]] = [
        (EventKind.LOW_BALANCE, tenant.pk, low),
        (EventKind.BUDGET_REACHED, tenant.pk, budget | {"percent": 80, "hard": True}),
        (EventKind.BUDGET_PASSED, tenant.pk, budget),
        (EventKind.SERVER_LOST, None, lost),
    ]
    events_append([event(kind, pool_id=None, tenant_id=owner, at=at, data=data) for kind, owner, data in news])
    notices_collect(at=at)
    return tenant, person


def chat_on(person: User) -> None:
    done(
        chat_set(
            person=person, url="https://93.184.216.34/services/a-secret-of-some-length", form="text", at=timezone.now()
        )
    )
    ChatAddress.objects.update(said_at=timezone.now())


def chat_fails(person: User) -> None:
    at = timezone.now()
    ChatAddress.objects.update(failures=3, failing_since=at, flaw=FLAW)


def chat_off(person: User) -> None:
    at = timezone.now()
    long_ago = at - timedelta(days=3)
    ChatAddress.objects.update(active=False, switched_off_at=at, failures=90, failing_since=long_ago, flaw=FLAW)


def test_pages_of_notices_are_for_everybody_at_twice_their_size(visit: Act, act: Act) -> None:
    _, person = act(owner_with_notices)
    one = visit(person)
    wrong = flaws_in(one, "none", PATHS)
    for state, change in (("on", chat_on), ("fails", chat_fails), ("off", chat_off)):
        act(change, person)
        wrong += flaws_in(one, state, ("/notices/choices/",))
    assert wrong == []


def flaws_in(one: Visitor, state: str, paths: tuple[str, ...]) -> list[str]:
    wrong = []
    for path in paths:
        for scheme in ("light", "dark"):
            one.page.emulate_media(color_scheme=scheme)
            one.page.set_viewport_size(TWICE)
            assert one.open(path).status == 200
            wrong += [f"{path} {state} {scheme}: {line}" for line in one.axe()]
        wrong += [f"{path} {state}: {line}" for width in WIDTHS for line in slides(one, width)]
    return wrong
