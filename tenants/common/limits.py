"""Locks of what is limited over all. Where a person or a tenant is limited, their row is locked for the count; here
there is no such row."""

from __future__ import annotations

from enum import IntEnum

from django.db import connection

_LOCK = 7203  # the first key of locks of the database; 7201 and 7202 are the ledger's


class LimitOverAll(IntEnum):
    """What is limited over all, and the second key of its lock."""

    QUESTIONS = 1
    STUDIES = 2
    SECRETS = 3
    PROGRAMS_OF_OPERATOR = 4
    CLAIM_MAPPINGS = 5


def limit_lock(limit: LimitOverAll) -> None:
    """Wait until nobody else is between the count and the end of what they add; others wait until this transaction
    ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCK, limit))
