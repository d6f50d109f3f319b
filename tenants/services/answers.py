"""Answers kept for requests that carry an `Idempotency-Key`: a lost reply and a retry do a thing once.

`answer_reserve` and `answer_keep` belong into one transaction, around what the request does. So a crash leaves
either the effect with its answer, or neither.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from tenants.access import Refused
from tenants.models import KeptAnswer, User

KEPT_FOR = timedelta(days=7)
MISMATCH = Refused("idempotency_mismatch", "This Idempotency-Key was used for another request. Take a new one.")
IN_PROGRESS = Refused(
    "idempotency_in_progress", "A request with this Idempotency-Key is still running. Ask again in a moment."
)


@dataclass(frozen=True)
class Reservation:
    """The key is ours until the transaction ends."""


@dataclass(frozen=True)
class Reply:
    """The answer that was given under this key."""

    status: int
    body: str
    location: str


def answer_reserve(*, user: User, key: str, request_digest: str) -> Reply | Reservation | Refused:
    """The answer kept under this key; or the right to make one; or why neither."""
    if not connection.in_atomic_block:
        raise RuntimeError("a key is reserved in the transaction of what the request does")
    with connection.cursor() as cursor:
        # Waits for nobody. Taken until commit, so whoever gets it next sees what was kept.
        cursor.execute("SELECT * FROM tenants_kept_answer(%s, %s, %s)", [user.pk, key, _lock_number(user, key)])
        ours, digest, status, body, location = cursor.fetchone()
    if not ours:
        return IN_PROGRESS
    if digest is None:
        return Reservation()
    return Reply(status, body, location) if digest == request_digest else MISMATCH


def answer_keep(
    *, user: User, key: str, request_digest: str, status: int, body: str, location: str, at: datetime
) -> None:
    """Of two that were made at once, which only what may be done twice allows, the first is kept."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenants_keptanswer (user_id, key, request_digest, status, body, location, created_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [user.pk, key, request_digest, status, body, location, at],
        )


def answers_expire(*, at: datetime) -> int:
    """Forget what is older than a week; the number of rows."""
    return KeptAnswer.objects.filter(created_at__lt=at - KEPT_FOR)._raw_delete(using=connection.alias)


def _lock_number(user: User, key: str) -> int:
    """64 bits, signed. Two keys that fall together cost one of them a second try."""
    digest = hashlib.sha256(f"kept answer of {user.pk}: {key}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
