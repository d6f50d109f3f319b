"""How often a secret may be tried: counted in Redis, with waits that grow.

A counter gives a few tries for free. The last of these closes it for a while, and so does each further one, each time
twice as long, up to a maximum. The counter is forgotten some time after the last try. A try uses several counters, such
as that of its address and that of the account: if one of them is closed, nothing is tried and nothing is counted, so
that tries at a closed counter do not close it further.

A try is counted before the secret is checked, by all of its counters in one step: a thousand tries at once get no
further than a thousand one after the other. A person who had the right secret gets the try back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

PATIENCE_SECONDS = 0.5
PREFIX = "bourse:tries:"
TAKE_BACK, FORGET, KEEP = "taken_back", "forgotten", "kept"  # what the right secret does to a counter

# KEYS are the counters. ARGV is now in milliseconds, and the pace of each counter. Returns milliseconds to wait, or 0.
_COUNT = """
local now, wait = tonumber(ARGV[1]), 0
for _, key in ipairs(KEYS) do
  wait = math.max(wait, tonumber(redis.call('HGET', key, 'closed_until') or '0') - now)
end
if wait > 0 then return wait end
for number, key in ipairs(KEYS) do
  local free, first, most, memory, window = unpack(ARGV, 5 * number - 3, 5 * number + 1)
  local count = redis.call('HINCRBY', key, 'count', 1)
  if count >= tonumber(free) then
    local closed = math.min(tonumber(most), tonumber(first) * 2 ^ (count - tonumber(free)))
    redis.call('HSET', key, 'closed_until', string.format('%.0f', now + 1000 * closed))
  end
  if count == 1 or window == '0' then redis.call('EXPIRE', key, memory) end
end
return 0
"""
# KEYS are the counters. The script takes back the try, and the wait that it began.
_TAKE_BACK = """
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    redis.call('HDEL', key, 'closed_until')
    if redis.call('HINCRBY', key, 'count', -1) <= 0 then redis.call('DEL', key) end
  end
end
"""


class CannotCount(Exception):
    """Redis does not answer. A try that cannot be counted is refused: otherwise guessing would be free meanwhile."""


@dataclass(frozen=True)
class Pace:
    """How fast tries are allowed. Times are seconds. `memory` runs from the last try, or for a `window`
    from the first."""

    free: int
    first: int
    most: int
    memory: int
    window: bool = False


@dataclass(frozen=True)
class TryCounter:
    name: str
    pace: Pace
    success: str = TAKE_BACK


def tries_count(counters: Sequence[TryCounter], *, at: float) -> int:
    """Count one try and return 0, or count nothing and return the seconds to wait. `at` is seconds since 1970."""
    arguments: list[int] = [int(at * 1_000)]
    for counter in counters:
        pace = counter.pace
        arguments += [pace.free, pace.first, pace.most, pace.memory, int(pace.window)]
    try:
        wait = _redis().eval(_COUNT, len(counters), *_keys(counter.name for counter in counters), *arguments)
    except RedisError as error:
        raise CannotCount from error
    return -(-int(wait) // 1_000)


def tries_succeed(counters: Sequence[TryCounter]) -> None:
    """Tell these counters that the secret of the try was right."""
    taken_back = [counter.name for counter in counters if counter.success == TAKE_BACK]
    try:
        if taken_back:
            _redis().eval(_TAKE_BACK, len(taken_back), *_keys(taken_back))
    except RedisError as error:
        raise CannotCount from error
    tries_forget(counter.name for counter in counters if counter.success == FORGET)


def tries_forget(names: Iterable[str]) -> None:
    try:
        if keys := _keys(names):
            _redis().delete(*keys)
    except RedisError as error:
        raise CannotCount from error


def remember(name: str, *, seconds: int) -> None:
    try:
        _redis().set(f"{PREFIX}known:{name}", 1, ex=seconds)
    except RedisError as error:
        raise CannotCount from error


def is_remembered(name: str) -> bool:
    try:
        return bool(_redis().exists(f"{PREFIX}known:{name}"))
    except RedisError as error:
        raise CannotCount from error


def _keys(names: Iterable[str]) -> list[str]:
    return [f"{PREFIX}{name}" for name in names]


@cache
def _redis() -> Redis:
    return Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS)
