"""The transport of news between processes: over Redis, one channel for each group.

Sockets and streams listen as in any layer of Channels, in an event loop. The sender is a thread that has just committed
and waits until the news is sent: it writes to Redis itself, over a connection that stays open. The layer's own method
goes through an event loop; where none runs it makes one, with a connection of its own, for every message.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer
from redis import Redis


class NewsLayer(RedisPubSubChannelLayer):  # type: ignore[misc]
    def __init__(self, *, hosts: list[dict[str, Any]], prefix: str) -> None:
        """`hosts` has one host, which all processes use."""
        super().__init__(hosts=hosts, prefix=prefix)
        (self._host,), self._prefix = hosts, prefix

    def groups_tell(self, messages: Mapping[str, Mapping[str, Any]]) -> None:
        """Send each group its message, all in one round trip. Call this from a thread. Raises `RedisError`."""
        with self._teller.pipeline(transaction=False) as journey:
            for group, message in messages.items():
                journey.publish(f"{self._prefix}__group__{group}", self.serialize(message))
            journey.execute()

    @cached_property
    def _teller(self) -> Redis:
        options = {name: value for name, value in self._host.items() if name != "address"}
        return Redis.from_url(self._host["address"], **options)
