"""How long anything may take: a request, a statement of the database, and waiting for a lock there.

A request has a deadline. Python cannot end a thread from outside, so the code that works for a request checks its clock
again and again: before each statement (`deadline`), and in long computations by `in_time`. What is not committed by
then is rolled back. How long one statement may take is the database's own limit, by the kind of process that sends it.

Where many threads work in one process, one that can wait also lets the others go first in the middle of its work: at
the same places, as long as it holds nothing there for which others wait (`give_way`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections

ENDINGS = ("ROLLBACK", "RELEASE")  # statements that end a transaction or a savepoint


class DeadlinePassed(Exception):
    """The time of a request is over. Its transaction is rolled back."""


@dataclass(frozen=True)
class Patience:
    """Limits of one kind of process in seconds; 0 means none. `idle` is how long its transaction may stay open without
    a statement, while it computes; then the database closes the connection and releases its locks."""

    statement: int
    lock: int
    idle: int = 0

    @property
    def options(self) -> str:
        """Return the limits as PostgreSQL's clients send them when they connect; empty if there are none."""
        limits = {
            "statement_timeout": self.statement,
            "lock_timeout": self.lock,
            "idle_in_transaction_session_timeout": self.idle,
        }
        return " ".join(f"-c {name}={seconds}s" for name, seconds in limits.items() if seconds)


def process_is(kind: str) -> None:
    """Set the limits of the connections that this process opens from now on. `kind` is a key of `settings.PATIENCE`.

    The operator's own options in DATABASE_URL come after ours, and PostgreSQL lets them override ours.
    """
    patience: Patience = settings.PATIENCE[kind]
    if options := f"{patience.options} {settings.DATABASE_OPTIONS}".strip():
        connections.settings[DEFAULT_DB_ALIAS]["OPTIONS"]["options"] = options


@dataclass(frozen=True)
class _Deadline:
    ends: float
    clock: Callable[[], float]


_current: ContextVar[_Deadline | None] = ContextVar("request_deadline", default=None)


@contextmanager
def deadline(ends: float, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Refuse every statement from `ends` on, by this clock, with `DeadlinePassed`."""
    token = _current.set(_Deadline(ends, clock))
    try:
        with connection.execute_wrapper(_before_a_statement):
            yield
    finally:
        _current.reset(token)


def in_time() -> None:
    """Raise `DeadlinePassed` once the deadline is over. Call it in every loop that may take seconds without a
    statement. Where there is no deadline it does nothing."""
    current = _current.get()
    if current is not None and current.clock() >= current.ends:
        raise DeadlinePassed


_thread = threading.local()


@contextmanager
def giving_way(pause: Callable[[], None]) -> Iterator[None]:
    """Make `give_way` call `pause` in this thread, again and again in the middle of its work."""
    _thread.pause = pause
    try:
        yield
    finally:
        del _thread.pause


def give_way() -> None:
    """Wait while it is the turn of others, and check `in_time`. Call it in long computations, at places that hold
    neither a lock nor a transaction, so that nobody waits for a thread that waits here."""
    pause = getattr(_thread, "pause", None)
    if pause is not None:
        pause()
    in_time()


def _before_a_statement(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
    if not str(sql).startswith(ENDINGS):
        look = in_time if context["connection"].in_atomic_block else give_way
        look()
    return execute(sql, params, many, context)
