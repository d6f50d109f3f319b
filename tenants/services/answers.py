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
from tenants.repeated import RepeatedRead

KEPT_FOR = timedelta(days=7)
MISMATCH = Refused("idempotency_mismatch", "This Idempotency-Key was used for another request. Take a new one.")
IN_PROGRESS = Refused(
    "idempotency_in_progress", "A request with this Idempotency-Key is still running. Ask again in a moment."
)


@dataclass(frozen=True)
class Reserved:
    """The key is ours until the transaction ends."""


def answer_reserve(*, user: User, key: str, request_digest: str) -> KeptAnswer | Reserved | Refused:
    """The answer kept under this key; or the right to make one; or why neither."""
    if not connection.in_atomic_block:
        raise RuntimeError("a key is reserved in the transaction of what the request does")
    with connection.cursor() as cursor:
        # Waits for nobody. Taken until commit, so whoever gets it next sees what was kept.
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_lock_number(user, key)])
        (ours,) = cursor.fetchone()
    if not ours:
        return IN_PROGRESS
    answer = next(iter(_of_key(user_id=user.pk, key=key)), None)
    if answer is None:
        return Reserved()
    return answer if answer.request_digest == request_digest else MISMATCH


_of_key = RepeatedRead(
    lambda user_id, key: KeptAnswer.objects.filter(user=user_id, key=key).order_by(),
    scoped=False,
    user_id=-1,
    key="a key",
)


def answer_keep(
    *, user: User, key: str, request_digest: str, status: int, body: str, location: str, at: datetime
) -> None:
    """Of two that were made at once, which only what may be done twice allows, the first is kept."""
    answer = KeptAnswer(
        user=user,
        key=key,
        request_digest=request_digest,
        status=status,
        body=body,
        location=location,
        created_at=at,
    )
    KeptAnswer.objects.bulk_create([answer], ignore_conflicts=True)


def answers_expire(*, at: datetime) -> int:
    """Forget what is older than a week; the number of rows."""
    return KeptAnswer.objects.filter(created_at__lt=at - KEPT_FOR)._raw_delete(using=connection.alias)


def _lock_number(user: User, key: str) -> int:
    """64 bits, signed. Two keys that fall together cost one of them a second try."""
    digest = hashlib.sha256(f"kept answer of {user.pk}: {key}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
