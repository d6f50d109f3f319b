"""Webhooks in tests: who owns one, what is told, and a receiver in place of the world."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from scheduling.feed.events import event, events_append
from scheduling.models import Webhook
from scheduling.webhooks.calls import CallOutcome
from scheduling.webhooks.changes import webhook_create
from scheduling.webhooks.deliveries import Letter
from scheduling.webhooks.rounds import deliveries_round
from tenants.access import Access
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.tenants.builders import NOW, access, done, make_member, make_tenant

URL = "https://93.184.216.34/hook"
TOOK = CallOutcome(204, "")
BROKE = CallOutcome(500, "The answer was 500. Only 200 to 299 count as taken.")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def owner(slug: str = "lumen") -> Access:
    return access(make_member(make_tenant(slug), OWNER))


def tell(tenant: Tenant, *kinds: str, **data: Any) -> list[int]:
    events = [event(kind, pool_id=None, tenant_id=tenant.pk, at=NOW, data=data) for kind in kinds]
    events_append(events)
    return [row.pk for row in events]


def make(by: Access, *kinds: str) -> Webhook:
    with scope(by.tenant):
        return done(webhook_create(url=URL, kinds=kinds, by=by, at=NOW)).webhook


def again(row: Any) -> Any:
    with scope_disabled("the test looks at a row again"):
        return type(row).objects.get(pk=row.pk)


def rows(model: Any) -> list[Any]:
    with scope_disabled("the test looks at all"):
        return list(model.objects.order_by("pk"))


@contextmanager
def elsewhere() -> Iterator[BaseDatabaseWrapper]:
    """Another connection in a transaction of its own, for any thread. Whoever waits for what it has locked fails after
    a second."""
    other = connection.copy()
    other.inc_thread_sharing()
    try:
        other.set_autocommit(False)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1s'")
        yield other
    finally:
        other.close()
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")


def lock(other: BaseDatabaseWrapper, row: Model) -> None:
    """Lock the row, as a change of it does. It must be free."""
    with other.cursor() as cursor:
        table, key = row._meta.db_table, row._meta.pk.column
        cursor.execute(f"SELECT 1 FROM {table} WHERE {key} = %s FOR UPDATE NOWAIT", [row.pk])  # noqa: S608


class Receiver:
    """Takes letters in place of the world; answers as told."""

    def __init__(self, *answers: CallOutcome) -> None:
        self.letters: list[Letter] = []
        self._answers = list(answers)

    def __call__(self, letter: Letter) -> CallOutcome:
        self.letters.append(letter)
        return self._answers.pop(0) if self._answers else TOOK

    @property
    def events(self) -> list[int]:
        return [json.loads(letter.body)["id"] for letter in self.letters]


def is_ours(secret: str, headers: dict[str, str], body: bytes, at: datetime = NOW) -> bool:
    """By the receiver of the guide, who looks at the clock at that moment."""
    names: dict[str, Any] = {}
    page = Path(settings.BASE_DIR, "docs", "guide", "webhooks.md").read_text(encoding="utf-8")
    exec(page.split("```python\n")[1].split("```")[0], names)  # noqa: S102  our own page
    names["time"] = SimpleNamespace(time=at.timestamp)
    return names["is_ours"](secret, headers, body)


def go(receiver: Receiver, at: datetime = NOW) -> int:
    return deliveries_round(clock=lambda: at, draw=lambda: 0.0, post=receiver)
