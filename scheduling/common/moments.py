"""Reading many tables as they stood at one moment while the market goes on, and being the only one at some work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

AUDIT_LOCK = 0x626F757273650002  # of the database: "bourse", 2. Whatever is worked out for an audit takes turns


@contextmanager
def one_moment() -> Iterator[None]:
    """Reads only. Inside a transaction that is open already, that one decides what is seen."""
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


@contextmanager
def alone(lock: int) -> Iterator[bool]:
    """Whether no other process holds this lock of the database. It ends with the process, however that ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock])
        (ours,) = cursor.fetchone()
    try:
        yield bool(ours)
    finally:
        if ours:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [lock])
