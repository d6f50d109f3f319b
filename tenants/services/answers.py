"""Stored answers of requests with an `Idempotency-Key`, so that a retry after a lost reply does not act twice.

Call `answer_reserve` and `answer_keep` in one transaction, before and after what the request does. So a crash leaves
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
    """The right to answer under a key, which this transaction has until it ends."""


@dataclass(frozen=True)
class Reply:
    """The answer that is stored under a key."""

    status: int
    body: str
    location: str


def answer_reserve(*, user: User, key: str, request_digest: str) -> Reply | Reservation | Refused:
    """Return the answer that is stored under this key, or the right to store one, or a refusal."""
    if not connection.in_atomic_block:
        raise RuntimeError("a key is reserved in the transaction of what the request does")
    with connection.cursor() as cursor:
        # This does not wait for a lock. The lock is held until the commit, so its next holder sees the stored answer.
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
    """Store an answer. Of two answers made at the same time, the first is kept. That happens only to operations
    that may run twice."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenants_keptanswer (user_id, key, request_digest, status, body, location, created_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [user.pk, key, request_digest, status, body, location, at],
        )


def answers_expire(*, at: datetime) -> int:
    """Delete answers that are older than `KEPT_FOR`, and return their number."""
    return KeptAnswer.objects.filter(created_at__lt=at - KEPT_FOR)._raw_delete(using=connection.alias)


def _lock_number(user: User, key: str) -> int:
    """Return the number of the lock of a key: 64 bits, signed. If two keys collide, one request must be tried again."""
    digest = hashlib.sha256(f"kept answer of {user.pk}: {key}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
