"""The socket of a tenant's page. It says what moved, never what it is now: see scheduling.notify."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from scheduling import notify, selectors
from scheduling.selectors.events import PAGE, TOLD_AT_ONCE, event_news, feed_cursor
from tenants.entrypoints import TenantConsumer
from tenants.roles import Permission
from tenants.scoping import scope

BATCH_SECONDS = 0.05  # one boundary tells several things; they go out as one message
BEAT_SECONDS = 4.0  # a page that hears nothing for ten seconds says that it is late


class MarketConsumer(TenantConsumer, AsyncJsonWebsocketConsumer):  # type: ignore[misc]
    """ws/t/<slug>/?after=CURSOR. Each message: the topics that moved, and the cursor to come back with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._groups: list[str] = []
        self._topics: set[str] = set()
        self._told = False
        self._cursor = 0
        self._batch: asyncio.Task[None] | None = None
        self._beat: asyncio.Task[None] | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        """News of a boundary comes to hundreds of sockets at once and touches no database: it goes past the thread in
        which all others would first look after old connections. Whoever was not asked lately is asked as ever."""
        if message["type"] == "news" and self._asked_lately():
            await self.news(message)
        else:
            await super().dispatch(message)

    def _asked_lately(self) -> bool:
        asked = self._checked_at
        return self.access.tenant is not None and asked is not None and time.monotonic() - asked < self.recheck_seconds

    async def connect(self) -> None:
        """Groups first, then the past: what happens between the two is told twice rather than not at all."""
        tenant = self.access.tenant
        assert tenant is not None  # noqa: S101  the mix-in lets nobody else through
        pools = await database_sync_to_async(selectors.pool_list)()
        self._groups = [notify.tenant_group(tenant.pk), *(notify.pool_group(pool.pk) for pool in pools)]
        for group in self._groups:
            await self.channel_layer.group_add(group, self.channel_name)
        await self.accept()
        topics, told, self._cursor = await database_sync_to_async(self._missed)()
        await self._tell(topics, told)
        self._beat = asyncio.create_task(self._beats())

    async def disconnect(self, code: int) -> None:
        for task in (self._batch, self._beat):
            if task is not None:
                task.cancel()
        for group in self._groups:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """Pages have nothing to say here."""

    async def news(self, message: dict[str, Any]) -> None:
        self._topics |= set(message["topics"])
        self._told = self._told or message["told"]
        self._cursor = max(self._cursor, message["cursor"])
        if self._batch is None:
            self._batch = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(BATCH_SECONDS)
        topics, told, self._topics, self._told, self._batch = self._topics, self._told, set(), False, None
        await self._tell(topics, told)

    async def _tell(self, topics: set[str], told: bool) -> None:
        """Who may not see jobs is not even told that one moved."""
        if not self.access.allows(Permission.JOBS_VIEW):
            topics = {topic for topic in topics if not topic.startswith("job")}
        await self.send_json({"topics": sorted(topics), "told": told, "cursor": self._cursor})

    async def _beats(self) -> None:
        """A sign of life now and then; and who may listen is asked beside the messages, not before one of them, each
        socket at its own time: at a boundary hundreds would ask at once."""
        since = random.random() * self.recheck_seconds / 2  # noqa: S311  spreads the load, guards nothing
        while True:
            await asyncio.sleep(min(BEAT_SECONDS, self.recheck_seconds / 4))
            since += min(BEAT_SECONDS, self.recheck_seconds / 4)
            if since >= self.recheck_seconds / 2:
                since = 0.0
                self._checked_at = None
                if not await self._may_listen():
                    await self.close(code=4404)
                    return
            await self._tell(set(), False)

    def _missed(self) -> tuple[set[str], bool, int]:
        """Topics that moved since the page was made, and the cursor as of now."""
        assert self.access.tenant is not None  # noqa: S101
        cursor = feed_cursor()
        after = self._after()
        if after is None:
            return set(), False, cursor
        with scope(self.access.tenant):
            events = event_news(by=self.access, after=after)
        if len(events) == PAGE:
            return set(notify.EVERYBODY), True, cursor
        topics = {topic for event in events for topic in notify.topics_of(event)}
        # Slots begin without an event.
        return topics | {notify.SLOT}, any(event.kind in TOLD_AT_ONCE for event in events), cursor

    def _after(self) -> int | None:
        given = parse_qs(self.scope["query_string"].decode("ascii", "replace")).get("after", [""])[0]
        return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
