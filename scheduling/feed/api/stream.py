"""The course of one stream of server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from channels.db import database_sync_to_async
from django.utils import timezone

from scheduling.common import event_document
from scheduling.feed.api.hub import hub, open_streams
from scheduling.feed.read_events import PAGE, event_feed
from tenants.access import Access
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.selectors import access_again

LOOK_SECONDS = 5.0  # without news for so long, a stream reads the feed by itself
BEAT_SECONDS = 15.0
TOGETHER_SECONDS = 0.05  # one boundary sends several pieces of news, which are read together
LIFE_SECONDS = 1_800.0
RIGHTS_ASKED = timedelta(seconds=10)
RETRY_MILLISECONDS = 2_000
BEAT = b": still here\n\n"
CLOSED = b"event: closed\ndata: {}\n\n"


@dataclass
class StreamReader:
    """Where one stream stands in the feed, and what its caller may see."""

    access: Access
    cursor: int
    asked_at: datetime = field(default_factory=timezone.now)

    def read(self) -> list[bytes] | None:
        """What came since the last time, a page at most; None where the caller may no longer listen."""
        now = timezone.now()
        if now - self.asked_at >= RIGHTS_ASKED:
            self.access, self.asked_at = access_again(self.access, now), now
        if self.access.tenant is None or not self.access.allows(Permission.TENANT_VIEW):
            return None
        with scope(self.access.tenant):
            feed = event_feed(by=self.access, after=self.cursor)
        self.cursor = feed.cursor
        return [_piece(event_document(event, event.pool)) for event in feed.events]


def pieces_now(reader: StreamReader) -> Iterator[bytes]:
    """Yield what the feed has now, where the server cannot wait. The client connects again for what follows."""
    yield _beginning(reader.cursor)
    while pieces := reader.read():
        yield b"".join(pieces)


async def stream(reader: StreamReader, groups: Sequence[str], caller: str) -> AsyncIterator[bytes]:
    assert reader.access.tenant is not None  # noqa: S101  the gate has made sure
    loop = asyncio.get_running_loop()
    ends, beat_at = loop.time() + LIFE_SECONDS, loop.time()
    open_streams[caller] += 1
    try:
        async with hub().listening(reader.access.tenant.pk, groups) as woken:
            yield _beginning(reader.cursor)
            while loop.time() < ends:
                woken.clear()
                pieces = await database_sync_to_async(reader.read)()
                if pieces is None:
                    yield CLOSED
                    return
                if not pieces and loop.time() - beat_at >= BEAT_SECONDS:
                    pieces = [BEAT]
                if pieces:
                    beat_at = loop.time()
                    yield b"".join(pieces)
                if len(pieces) < PAGE:
                    await _woken(woken)
    finally:
        open_streams[caller] -= 1


async def _woken(woken: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(woken.wait(), LOOK_SECONDS)
        await asyncio.sleep(TOGETHER_SECONDS)
    except TimeoutError:
        pass


def _beginning(cursor: int) -> bytes:
    """Return how a stream begins. Its id is of no event: it says where the stream begins, so that a client whose
    stream breaks before the first event comes back there and not at the now of then."""
    return f"retry: {RETRY_MILLISECONDS}\nid: {cursor}\n\n".encode()


def _piece(document: dict[str, object]) -> bytes:
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return f"id: {document['id']}\nevent: {document['kind']}\ndata: {data}\n\n".encode()
