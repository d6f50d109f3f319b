"""Read many tables as of one moment while the market runs on, and make sure that only one process does some work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

AUDIT_LOCK = 0x626F757273650002  # a lock of the database: "bourse", 2. All computations for audits take turns under it


@contextmanager
def one_moment() -> Iterator[None]:
    """Open a read-only transaction that sees the database as of one moment. Inside a transaction that is open already,
    that transaction decides what is visible."""
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


@contextmanager
def alone(lock: int) -> Iterator[bool]:
    """Try to take this lock of the database, and yield whether no other process holds it. The database frees the lock
    when the process ends, also after a crash."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock])
        (ours,) = cursor.fetchone()
    try:
        yield bool(ours)
    finally:
        if ours:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [lock])
