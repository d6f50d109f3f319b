"""The sockets of pages. A message names what changed, never its new value: see scheduling.feed.notify."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from scheduling.feed import notify
from scheduling.feed.kinds import NOTICES, SLOT, WITH_MESSAGE
from scheduling.feed.read_events import PAGE, event_news, feed_cursor
from scheduling.models import Pool
from tenants.access import Access
from tenants.models import Tenant
from tenants.requests.entrypoints import StaffConsumer, TenantConsumer
from tenants.roles import Permission
from tenants.scoping import scope

NO_TEXT, ABNORMAL_END, NO_JSON = 1003, 1006, 4400  # codes of a close: the last is our own, the others are RFC 6455's
BATCH_SECONDS = 0.05  # one boundary sends several pieces of news; they go out as one message
BEAT_SECONDS = 4.0  # a page that receives nothing for ten seconds says that it is late

log = logging.getLogger(__name__)


@lru_cache(maxsize=256)
def _text(topics: tuple[str, ...], is_urgent: bool, cursor: int) -> str:
    """Return the text of a message. Nearly all of thousands of pages get the same one, so it is written once."""
    return json.dumps({"topics": topics, "told": is_urgent, "cursor": cursor})


class PageConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]
    """The socket of a page, at ?after=CURSOR. Each message has the topics that changed, and the cursor for the next
    connection.

    It is mixed with a consumer that says who may listen; `_groups_now` and `_topics_after` say to what."""

    access: Access
    recheck_seconds: float
    _checked_at: float | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._groups: list[str] = []
        self._topics: set[str] = set()
        self._is_urgent = False
        self._cursor = 0
        self._batch: asyncio.Task[None] | None = None
        self._beat: asyncio.Task[None] | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Handle a message. News of a boundary comes to hundreds of sockets at once and needs no database, so it skips
        the thread in which Channels would first close old database connections. If the reader's access was not checked
        lately, the message takes the usual way, with a check."""
        if message["type"] == "news" and self._asked_lately():
            await self.news(message)
        else:
            await super().dispatch(message)

    def _asked_lately(self) -> bool:
        checked_at = self._checked_at
        return (
            self.access.user is not None
            and checked_at is not None
            and time.monotonic() - checked_at < self.recheck_seconds
        )

    async def connect(self) -> None:
        """Join the groups first, then read what was missed: news between the two comes twice rather than never."""
        self._groups = await database_sync_to_async(self._groups_now)()
        for group in self._groups:
            await self.channel_layer.group_add(group, self.channel_name)
        try:
            await self.accept()
            topics, is_urgent, self._cursor = await database_sync_to_async(self._missed)()
            await self._tell(topics, is_urgent)
        except Exception:  # a reader who has left meanwhile gets nothing more
            await self.disconnect(ABNORMAL_END)
            raise
        self._beat = asyncio.create_task(self._beats())

    async def disconnect(self, code: int) -> None:
        for task in (self._batch, self._beat):
            if task is not None:
                task.cancel()
        for group in self._groups:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Ignore what a page sends, and close the socket after bytes or what is not JSON, as no page sends them."""
        if text_data is None:
            await self._end(NO_TEXT, "a frame of bytes")
            return
        try:
            json.loads(text_data)
        except (ValueError, RecursionError):
            await self._end(NO_JSON, "a frame that is no JSON")

    async def _end(self, code: int, why: str) -> None:
        log.info("a socket was closed with %s after %s", code, why)
        await self.close(code=code)

    async def news(self, message: dict[str, Any]) -> None:
        self._topics |= set(message["topics"])
        self._is_urgent = self._is_urgent or message["told"]
        self._cursor = max(self._cursor, message["cursor"])
        if self._batch is None:
            self._batch = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(BATCH_SECONDS)
        topics, is_urgent, self._topics, self._is_urgent, self._batch = (
            self._topics,
            self._is_urgent,
            set(),
            False,
            None,
        )
        await self._tell(topics, is_urgent)

    async def _tell(self, topics: set[str], is_urgent: bool) -> None:
        """Send a message. A reader who may not see jobs does not even get the topics of jobs."""
        if not self.access.allows(Permission.JOBS_VIEW):
            topics = {topic for topic in topics if not topic.startswith("job")}
        await self.send(text_data=_text(tuple(sorted(topics)), is_urgent, self._cursor))

    async def _beats(self) -> None:
        """Send a sign of life now and then, and check whether the reader may still listen. The check runs beside the
        messages and not before one, each socket at its own time: at a boundary hundreds would check at once."""
        since = random.random() * self.recheck_seconds / 2  # noqa: S311  spreads the load, guards nothing
        while True:
            await asyncio.sleep(min(BEAT_SECONDS, self.recheck_seconds / 4))
            since += min(BEAT_SECONDS, self.recheck_seconds / 4)
            if since >= self.recheck_seconds / 2:
                since = 0.0
                if not await self._may_still_listen():
                    await self.close(code=4404)
                    return
            await self._tell(set(), False)

    def _missed(self) -> tuple[set[str], bool, int]:
        """Return the topics that changed since the page was made, whether they are urgent, and the cursor of now."""
        cursor = feed_cursor()
        after = self._after()
        return (set(), False, cursor) if after is None else (*self._topics_after(after, cursor), cursor)

    def _after(self) -> int | None:
        cursor = parse_qs(self.scope["query_string"].decode("ascii", "replace")).get("after", [""])[0]
        return int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 19 else None


class MarketConsumer(TenantConsumer, PageConsumer):
    """The socket at ws/t/<slug>/: changes in one tenant, and in all pools."""

    def _groups_now(self) -> list[str]:
        tenant = self.access.tenant
        assert tenant is not None  # noqa: S101  the mix-in lets nobody else through
        return [notify.tenant_group(tenant.pk), *_of_person(self.access), *map(notify.pool_group, _pools())]

    def _topics_after(self, after: int, cursor: int) -> tuple[set[str], bool]:
        assert self.access.tenant is not None  # noqa: S101
        with scope(self.access.tenant):
            events = event_news(by=self.access, after=after)
        if len(events) == PAGE:
            return set(notify.EVERYBODY), True
        topics = {topic for event in events for topic in notify.topics_of(event)}
        # Slots begin without an event, and notices are made from events a moment later.
        return topics | {SLOT, *[NOTICES] * bool(events)}, any(event.kind in WITH_MESSAGE for event in events)


class OverviewConsumer(StaffConsumer, PageConsumer):
    """The socket at ws/overview/: all changes. New tenants and pools are included after the next connection."""

    def _groups_now(self) -> list[str]:
        tenants = Tenant.objects.values_list("pk", flat=True)
        return [*map(notify.tenant_group, tenants), *_of_person(self.access), *map(notify.pool_group, _pools())]

    def _topics_after(self, after: int, cursor: int) -> tuple[set[str], bool]:
        """Return all topics if anything happened: a page over everything is renewed whole."""
        return (set(notify.EVERYBODY) if cursor > after else {SLOT}), False


def _of_person(access: Access) -> list[str]:
    return [notify.person_group(access.user.pk)] if access.user else []


def _pools() -> list[int]:
    return list(Pool.objects.values_list("pk", flat=True))
