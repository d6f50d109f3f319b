"""How often a token and its person may call: counted in Redis in windows of a minute, in one round trip."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from redis.exceptions import RedisError

from tenants.common.costly import counters

WINDOW_SECONDS = 60
# KEYS are those of the counters, ARGV the seconds after which they expire. It returns the calls of each counter, with
# this one.
COUNT = """
local calls = {}
for place, key in ipairs(KEYS) do
    calls[place] = redis.call('INCR', key)
    if calls[place] == 1 then redis.call('EXPIRE', key, ARGV[1]) end
end
return calls
"""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Allowance:
    limit: int
    remaining: int  # below 0 if there were too many calls
    reset_seconds: int

    @property
    def headers(self) -> dict[str, str]:
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(self.remaining, 0)),
            "RateLimit-Reset": str(self.reset_seconds),
        }


def allowance(limits: Mapping[str, int], *, at: float) -> Allowance | None:
    """Count one call under each name, and return what is left under the name that has least. `limits` maps each name to
    the calls that it allows in a window, and `at` is in seconds since 1970. Return None if Redis does not answer: a
    market that stands still would be worse than one that is called too often."""
    window = int(at // WINDOW_SECONDS)
    try:
        keys = [f"bourse:calls:{name}:{window}" for name in limits]
        calls = counters().eval(COUNT, len(keys), *keys, 2 * WINDOW_SECONDS)
    except RedisError:
        log.warning("calls are not counted: Redis does not answer")
        return None
    remainders = {name: (limit - int(count), limit) for (name, limit), count in zip(limits.items(), calls, strict=True)}
    remaining, limit = min(remainders.values())
    return Allowance(limit, remaining, max(1, int((window + 1) * WINDOW_SECONDS - at)))
