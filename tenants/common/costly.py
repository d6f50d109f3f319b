"""Limit the costly calls of each tenant, such as quotes, verifications and jobs in bulk: a few may run at a time.

They are counted in Redis, so that all web processes count together. Each place has an end of its own, so that a killed
process does not hold one for good.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

PATIENCE_SECONDS = 0.5
WAIT_SECONDS = 1  # after this a place may be free: most of these calls take less
UNDER_WAY = "Your tenant has jobs in bulk, quotes, questions or verifications under way already. Ask again in a moment."
# A sorted set of places by their ends. Places that have ended are removed; then one is added, if there is room.
TAKE = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
"""
log = logging.getLogger(__name__)


@contextmanager
def costly_place(party: str, *, at: float) -> Iterator[bool]:
    """Take a place for one more call of this party, and yield whether there is one. The end of the block returns it.

    `at` is seconds since 1970. If Redis does not answer there is a place, as for calls in `tenants.api.limits`.
    """
    key, member, longest = f"bourse:costly:{party}", str(uuid.uuid4()), 2 * settings.REQUEST_SECONDS
    try:
        has_place = bool(_take()(keys=[key], args=[at, at + longest, settings.COSTLY_AT_ONCE, member, longest]))
    except RedisError:
        log.warning("costly calls are not counted: Redis does not answer")
        yield True
        return
    try:
        yield has_place
    finally:
        if has_place:
            try:
                counters().zrem(key, member)
            except RedisError:
                log.warning("a place of a costly call is not given back: Redis does not answer. It ends by itself")


@cache
def counters() -> Redis:
    return Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS)


@cache
def _take() -> Callable[..., Any]:
    return counters().register_script(TAKE)
