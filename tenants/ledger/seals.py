"""Sealing: closing blocks of transactions under a chained digest, so that a later change of a row shows.

Call it from the clock (once a minute is plenty). It holds up no writer for longer than `patience`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection, transaction
from psycopg import errors

BLOCK = 10_000
_WRITERS, _SEALERS = (7201, 1), (7201, 2)  # advisory locks; the writers' one stands in migrations/sql/rules.sql


@dataclass(frozen=True)
class Sealed:
    blocks: int
    transactions: int
    head: str  # hexadecimal; keep it outside the database: it pins everything before it


@dataclass(frozen=True)
class SealBusy:
    """Refusal: some transaction has been writing the book for longer than we may make others wait. Try again later."""

    patience_ms: int


def seal(*, at: datetime, patience_ms: int = 100) -> Sealed | SealBusy:
    """Close every block that can be closed. The last one may be short."""
    with transaction.atomic():
        _execute("SELECT pg_advisory_xact_lock(%s, %s)", _SEALERS)
        end = _boundary(patience_ms)
        if end is None:
            return SealBusy(patience_ms)
        blocks = transactions = 0
        while members := _close_block(at, end):
            blocks, transactions = blocks + 1, transactions + members
        return Sealed(blocks, transactions, head())


def head() -> str:
    """Digest of the newest seal, in hexadecimal; empty before the first."""
    row = _execute("SELECT encode(digest, 'hex') FROM ledger_seal ORDER BY number DESC LIMIT 1", ())
    return str(row[0]) if row else ""


def _boundary(patience_ms: int) -> int | None:
    """An id at or below which nothing will ever be written any more; None when writers keep us out too long."""
    try:
        with transaction.atomic():  # a savepoint: giving up must not spoil the caller's transaction
            _execute("SELECT set_config('lock_timeout', %s, true)", (str(patience_ms),))
            _execute("SELECT pg_advisory_xact_lock(%s, %s)", _WRITERS)
            # Only now: a statement's snapshot is older than the locks it waits for.
            row = _execute("SELECT coalesce(max(id), 0) FROM ledger_transaction", ())
            transaction.set_rollback(True)  # to the savepoint, which gives the lock back at once
    except OperationalError as error:
        if isinstance(error.__cause__, errors.LockNotAvailable):
            return None
        raise
    return int(row[0]) if row else None


def _close_block(at: datetime, end: int) -> int:
    """Returns how many transactions it holds; 0 when nothing was left up to `end`."""
    row = _execute(
        """
        WITH previous AS (
            SELECT number, last_transaction_id, digest FROM ledger_seal ORDER BY number DESC LIMIT 1
        ), block AS (
            SELECT id, digest FROM ledger_transaction
             WHERE id > coalesce((SELECT last_transaction_id FROM previous), 0) AND id <= %s ORDER BY id LIMIT %s
        ), sealed AS (
            SELECT coalesce((SELECT number FROM previous), 0) + 1 AS number, max(id) AS last,
                   string_agg(int8send(id) || digest, ''::bytea ORDER BY id) AS members, count(*) AS size
              FROM block
        )
        INSERT INTO ledger_seal (number, last_transaction_id, sealed_at, members, digest)
        SELECT number, last, %s, members,
               ledger_seal_digest((SELECT digest FROM previous), number, %s, members)
          FROM sealed WHERE size > 0
        RETURNING length(members) / 40
        """,
        (end, BLOCK, at, at),
    )
    return int(row[0]) if row else 0


def _execute(sql: str, parameters: tuple[Any, ...]) -> tuple[Any, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()


@dataclass(frozen=True)
class LastSeal:
    number: int
    at: datetime


def last_seal() -> tuple[LastSeal | None, int]:
    """The newest seal, and how many transactions came after it: those can still be removed without a trace."""
    row = _execute("SELECT number, sealed_at, last_transaction_id FROM ledger_seal ORDER BY number DESC LIMIT 1", ())
    rest = _execute("SELECT count(*) FROM ledger_transaction WHERE id > %s", (row[2] if row else 0,))
    return (LastSeal(int(row[0]), row[1]) if row else None), int(rest[0]) if rest else 0
