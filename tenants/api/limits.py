"""How often a token, or a person's session, may call: counted in Redis in windows of a minute, in one round trip."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

WINDOW_SECONDS = 60
PATIENCE_SECONDS = 0.5
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Allowance:
    limit: int
    remaining: int  # below 0: too many
    reset_seconds: int

    @property
    def headers(self) -> dict[str, str]:
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(self.remaining, 0)),
            "RateLimit-Reset": str(self.reset_seconds),
        }


def allowance(caller: str, *, at: float) -> Allowance | None:
    """Counts one call. None where Redis does not answer: a market that stands still would be worse than one that
    is asked too often. `at`: seconds since 1970."""
    window = int(at // WINDOW_SECONDS)
    key = f"bourse:calls:{caller}:{window}"
    try:
        with _redis().pipeline(transaction=False) as pipeline:
            pipeline.incr(key)
            pipeline.expire(key, 2 * WINDOW_SECONDS)
            calls, _ = pipeline.execute()
    except RedisError:
        log.warning("calls are not counted: Redis does not answer")
        return None
    limit = settings.API_CALLS_PER_MINUTE
    return Allowance(limit, limit - int(calls), max(1, int((window + 1) * WINDOW_SECONDS - at)))


@cache
def _redis() -> Redis:
    return Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS)
