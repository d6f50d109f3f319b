"""Recognise exceptions with a cause outside: the database, Redis or a disk does not answer, or the time is over.

When the database is lost, nobody knows how much of a request was done: the lost message may be the answer to a commit.
So no sentence here says it. A client that sends a change again with the same Idempotency-Key gets it done once.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from redis import exceptions as redis

from tenants.common.patience import DeadlinePassed

AGAIN = "Send it again later; what changes something, with the same Idempotency-Key."


@dataclass(frozen=True)
class Unavailable:
    """Why a request could not be answered now, and the number of `seconds` after which it may be."""

    code: str
    seconds: int
    what: str  # a plain sentence

    @property
    def detail(self) -> str:
        return f"{self.what} {AGAIN}"


BUSY = Unavailable("busy", 1, "Others were changing the same.")
DEADLINE = Unavailable("deadline_passed", 5, "This took longer than a request may.")
STORAGE_FULL = Unavailable("storage_full", 60, "The disk of the database is full.")
DATABASE = Unavailable("database_unavailable", 5, "The database does not answer, or has just begun again.")
BROKER = Unavailable("broker_unavailable", 5, "Redis does not answer, or has no room.")

# Codes by SQLSTATE; the first beginning that fits counts.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
BY_STATE = {
    "40001": BUSY,  # serialization_failure
    "40P01": BUSY,  # deadlock_detected: writers waited for each other, and the database rolled one back
    "55P03": BUSY,  # lock_not_available, also after lock_timeout
    "57014": DEADLINE,  # query_canceled, also after statement_timeout
    "25P03": DEADLINE,  # idle_in_transaction_session_timeout
    "53100": STORAGE_FULL,  # disk_full
    "53": DATABASE,  # insufficient_resources: no memory, no connection left
    "57P": DATABASE,  # it shuts down, starts or recovers
    "08": DATABASE,  # the connection
    "25006": DATABASE,  # read_only_sql_transaction: a standby
}
OF_DATABASE = (psycopg.OperationalError, psycopg.InterfaceError)  # without an SQLSTATE there is no connection
OF_BROKER = (redis.ConnectionError, redis.TimeoutError, redis.OutOfMemoryError, redis.ReadOnlyError)
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def unavailable_of(error: BaseException | None) -> Unavailable | None:
    """Return why the request cannot be answered now, or None where the fault is our own and may not go away."""
    return next((unavailable for cause in _causes(error) if (unavailable := _one(cause)) is not None), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception and its causes: Django raises its errors from the driver's."""
    ids = set[int]()
    while error is not None and id(error) not in ids:
        ids.add(id(error))
        yield error
        error = error.__cause__


def _one(error: BaseException) -> Unavailable | None:
    if isinstance(error, DeadlinePassed):
        return DEADLINE
    if isinstance(error, psycopg.Error):
        if (state := error.sqlstate) is not None:
            return next(
                (unavailable for beginning, unavailable in BY_STATE.items() if state.startswith(beginning)), None
            )
        return DATABASE if isinstance(error, OF_DATABASE) else None
    if isinstance(error, OF_BROKER):
        return BROKER
    return STORAGE_FULL if isinstance(error, OSError) and error.errno in NO_SPACE else None
