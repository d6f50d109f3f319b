"""How long anything may take: a request, a statement of the database, and waiting for a lock there.

A request has a deadline. Python cannot end a thread from outside, so whoever works for a request looks at its clock
again and again: before each statement (`deadline`), and in long computations by `in_time`. What has not been committed
by then is rolled back. How long one statement may take is the database's own limit, by the kind of process that asks.

Where many work in one process, whoever can wait lets the others go before it in the middle of its work too: at the same
places, as far as it holds nothing there that others wait for (`give_way`).
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

ENDINGS = ("ROLLBACK", "RELEASE")  # statements that finish what was begun


class DeadlinePassed(Exception):
    """The time for a request is over. Its transaction is rolled back."""


@dataclass(frozen=True)
class Patience:
    """Seconds of one kind of process; 0: without end. `idle`: how long its transaction may stay open while it asks
    nothing, as it does when it computes; then the database gives up the connection and what it had locked."""

    statement: int
    lock: int
    idle: int = 0

    @property
    def options(self) -> str:
        """As PostgreSQL's clients send them when they connect; empty where there is no limit at all."""
        limits = {
            "statement_timeout": self.statement,
            "lock_timeout": self.lock,
            "idle_in_transaction_session_timeout": self.idle,
        }
        return " ".join(f"-c {name}={seconds}s" for name, seconds in limits.items() if seconds)


def process_is(kind: str) -> None:
    """Connections that this process opens from now on have the limits of this kind: a key of `settings.PATIENCE`.

    Options of the operator's own, in DATABASE_URL, stand behind ours, where PostgreSQL lets them go before.
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
    """From `ends` on, as the clock has it, no statement is sent: `DeadlinePassed` is raised in its place."""
    token = _current.set(_Deadline(ends, clock))
    try:
        with connection.execute_wrapper(_before_a_statement):
            yield
    finally:
        _current.reset(token)


def in_time() -> None:
    """Belongs into every loop that may take seconds without a statement. Where there is no deadline it does nothing."""
    current = _current.get()
    if current is not None and current.clock() >= current.ends:
        raise DeadlinePassed


_thread = threading.local()


@contextmanager
def giving_way(pause: Callable[[], None]) -> Iterator[None]:
    """What this thread works at meanwhile calls `pause` in its middle, again and again."""
    _thread.pause = pause
    try:
        yield
    finally:
        del _thread.pause


def give_way() -> None:
    """`in_time`, and where it is the others' turn this waits. It belongs into long computations, at places that hold
    neither a lock nor a transaction, so that nobody waits for who waits here."""
    pause = getattr(_thread, "pause", None)
    if pause is not None:
        pause()
    in_time()


def _before_a_statement(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
    if not str(sql).startswith(ENDINGS):
        look = in_time if context["connection"].in_atomic_block else give_way
        look()
    return execute(sql, params, many, context)
