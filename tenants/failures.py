"""What of an exception lies outside: the database, Redis or a disk does not answer, or there was no time.

Nobody can say what of a request was done when its database is lost: the answer to a commit may be what was lost. So no
sentence here says it. Whoever sends a change again with the same Idempotency-Key gets it done once.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from redis import exceptions as redis

from tenants.patience import DeadlinePassed

AGAIN = "Send it again later; what changes something, with the same Idempotency-Key."


@dataclass(frozen=True)
class Unavailable:
    """Why a request could not be answered now; `seconds` later it may be."""

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

# By SQLSTATE, the first beginning that fits. https://www.postgresql.org/docs/current/errcodes-appendix.html
BY_STATE = {
    "40001": BUSY,  # serialization_failure
    "40P01": BUSY,  # deadlock_detected: writers that met crosswise; the database ended one of them, whole
    "55P03": BUSY,  # lock_not_available, also after lock_timeout
    "57014": DEADLINE,  # query_canceled, also after statement_timeout
    "25P03": DEADLINE,  # idle_in_transaction_session_timeout
    "53100": STORAGE_FULL,  # disk_full
    "53": DATABASE,  # no memory, no connection left
    "57P": DATABASE,  # shut down, starting, recovering
    "08": DATABASE,  # the connection
    "25006": DATABASE,  # read_only_sql_transaction: a standby
}
OF_DATABASE = (psycopg.OperationalError, psycopg.InterfaceError)  # without a state: no connection
OF_BROKER = (redis.ConnectionError, redis.TimeoutError, redis.OutOfMemoryError, redis.ReadOnlyError)
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def unavailable_of(error: BaseException | None) -> Unavailable | None:
    """None: it is our own fault, and nobody knows whether it will be better later."""
    return next((unavailable for cause in _causes(error) if (unavailable := _one(cause)) is not None), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """What was raised, and what it was raised from: Django's errors are raised from the driver's."""
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
