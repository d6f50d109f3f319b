"""Close blocks of transactions under a chained digest (a seal), so that a later change of a row can be detected.

Call it from the clock (once a minute is plenty). It delays no writer for longer than `patience_ms`. A seal also notes
where the other chains end, the history's and those of the pools; so its digest, noted elsewhere, fixes these as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection, transaction
from psycopg import errors

BLOCK = 10_000
_WRITERS, _SEALERS = (7201, 1), (7201, 2)  # advisory locks; the first one is also in migrations/sql/rules.sql


@dataclass(frozen=True)
class ChainHead:
    """The end of a chain: the number of its links, and the digest of the last one in hexadecimal."""

    height: int
    digest: str


@dataclass(frozen=True)
class NotedHead:
    """The end of a chain when a seal was made."""

    seal: int
    head: ChainHead


@dataclass(frozen=True)
class LastSeal:
    number: int
    at: datetime
    digest: str  # hexadecimal
    end: int  # the number of the last sealed transaction


@dataclass(frozen=True)
class Sealed:
    blocks: int
    transactions: int
    head: str  # hexadecimal; keep it outside the database: it fixes everything before it


@dataclass(frozen=True)
class SealBusy:
    """A refusal: some transaction has been writing the book for longer than others may be made to wait. Try again
    later."""

    patience_ms: int


def seal(*, at: datetime, heads: Mapping[str, ChainHead] | None = None, patience_ms: int = 100) -> Sealed | SealBusy:
    """Close every block that can be closed. The last one may be short. `heads` are the ends of the other chains by
    their names; if they moved and nothing was posted, a block without transactions is closed for them alone."""
    noted = json.dumps({name: [one.height, one.digest] for name, one in heads.items()}) if heads else None
    with transaction.atomic():
        _execute("SELECT pg_advisory_xact_lock(%s, %s)", _SEALERS)
        end = _boundary(patience_ms)
        if end is None:
            return SealBusy(patience_ms)
        blocks = transactions = 0
        while (members := _close_block(at, end, noted)) is not None:
            blocks, transactions = blocks + 1, transactions + members
        return Sealed(blocks, transactions, head())


def head() -> str:
    """Return the digest of the newest seal in hexadecimal, or an empty text before the first."""
    newest = newest_seal()
    return newest.digest if newest else ""


def newest_seal() -> LastSeal | None:
    columns = "number, sealed_at, encode(digest, 'hex'), last_transaction_id"
    row = _execute(f"SELECT {columns} FROM ledger_seal ORDER BY number DESC LIMIT 1", ())  # noqa: S608
    return LastSeal(*row) if row else None


def noted_heads(chain: str) -> list[NotedHead]:
    """Return the ends of that chain that seals note, each end once, with the first seal that notes it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT min(number), (heads -> %(chain)s ->> 0)::bigint, heads -> %(chain)s ->> 1"
            "  FROM ledger_seal WHERE jsonb_exists(heads, %(chain)s) GROUP BY 2, 3 ORDER BY 1",
            {"chain": chain},
        )
        return [NotedHead(number, ChainHead(height, digest)) for number, height, digest in cursor.fetchall()]


def _boundary(patience_ms: int) -> int | None:
    """Return an id up to which nothing will be written any more, or None when writers hold the lock for too long."""
    try:
        with transaction.atomic():  # a savepoint, since giving up must not spoil the caller's transaction
            _execute("SELECT set_config('lock_timeout', %s, true)", (str(patience_ms),))
            _execute("SELECT pg_advisory_xact_lock(%s, %s)", _WRITERS)
            # Read it only now: a statement's snapshot is older than the locks for which it waits.
            row = _execute("SELECT coalesce(max(id), 0) FROM ledger_transaction", ())
            transaction.set_rollback(True)  # to the savepoint, which releases the lock at once
    except OperationalError as error:
        if isinstance(error.__cause__, errors.LockNotAvailable):
            return None
        raise
    return int(row[0]) if row else None


def _close_block(at: datetime, end: int, heads: str | None) -> int | None:
    """Close a block and return how many transactions it holds. Return None if none is left up to `end`, and the heads
    are as they were last noted."""
    row = _execute(
        """
        WITH previous AS (
            SELECT number, last_transaction_id, heads, digest FROM ledger_seal ORDER BY number DESC LIMIT 1
        ), block AS (
            SELECT id, digest FROM ledger_transaction
             WHERE id > coalesce((SELECT last_transaction_id FROM previous), 0) AND id <= %s ORDER BY id LIMIT %s
        ), sealed AS (
            SELECT coalesce((SELECT number FROM previous), 0) + 1 AS number, %s::jsonb AS heads,
                   coalesce(max(id), (SELECT last_transaction_id FROM previous), 0) AS last, count(*) AS size,
                   coalesce(string_agg(int8send(id) || digest, ''::bytea ORDER BY id), '') AS members
              FROM block
        )
        INSERT INTO ledger_seal (number, last_transaction_id, sealed_at, members, heads, digest)
        SELECT number, last, %s, members, heads,
               ledger_seal_digest((SELECT digest FROM previous), number, %s, members, heads)
          FROM sealed WHERE size > 0 OR heads <> coalesce((SELECT heads FROM previous), '{}')
        RETURNING length(members) / 40
        """,
        (end, BLOCK, heads, at, at),
    )
    return int(row[0]) if row else None


def _execute(sql: str, parameters: tuple[Any, ...]) -> tuple[Any, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()


def last_seal() -> tuple[LastSeal | None, int]:
    """Return the newest seal, and how many transactions came after it: those can still be removed without a trace."""
    newest = newest_seal()
    row = _execute("SELECT count(*) FROM ledger_transaction WHERE id > %s", (newest.end if newest else 0,))
    return newest, int(row[0]) if row else 0
