"""Wake the open streams of this process when a tenant has news. For each tenant with open streams one channel listens
to what `notify` tells, and wakes them all; a stream that hears nothing looks by itself after a few seconds, so a lost
message costs only those."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

AGAIN_SECONDS = 5.0  # until a broker that did not answer is tried again


@dataclass
class _TenantStreams:
    """The streams of one tenant."""

    groups: Sequence[str]
    waiting: set[asyncio.Event] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class Hub:
    """Of one event loop."""

    def __init__(self) -> None:
        self._places: dict[int, _TenantStreams] = {}

    @asynccontextmanager
    async def listening(self, tenant_id: int, groups: Sequence[str]) -> AsyncIterator[asyncio.Event]:
        """The event is set whenever something moved; whoever waits clears it."""
        place = self._places.setdefault(tenant_id, _TenantStreams(groups))
        woken = asyncio.Event()
        place.waiting.add(woken)
        if place.task is None:
            place.task = asyncio.create_task(_listen(place))
        try:
            yield woken
        finally:
            place.waiting.discard(woken)
            if not place.waiting and self._places.get(tenant_id) is place:
                del self._places[tenant_id]
                place.task.cancel()


async def _listen(place: _TenantStreams) -> None:
    layer = get_channel_layer()
    while layer is not None:
        try:
            channel = await layer.new_channel()
            try:
                for group in place.groups:
                    await layer.group_add(group, channel)
                while True:
                    await layer.receive(channel)
                    for woken in place.waiting:
                        woken.set()
            finally:
                for group in place.groups:
                    await layer.group_discard(group, channel)
        except (RedisError, OSError):
            await asyncio.sleep(AGAIN_SECONDS)


# The number of open streams of each caller in this process. Each stream holds a thread.
open_streams: Counter[str] = Counter()
_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
