"""Make sure that only one process does some work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

AUDIT_LOCK = 0x626F757273650002  # a lock of the database: "bourse", 2. All computations for audits take turns under it


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
