"""Django's PostgreSQL, with a pool that gives out the connection that was returned last.

Other pools give out the one that waited longest. But a connection remembers what it did before: the tables, the
functions and their statements. If they took turns, each of twenty would have to learn all of it, and everybody's first
calls would wait for that: 30 ms each in the instant lane.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg import Connection
from psycopg_pool import ConnectionPool


class NewestFirst(ConnectionPool[Connection[Any]]):
    """Idle connections are kept in the order of their return; the one idle longest is closed when there are
    too many."""

    def _get_ready_connection(self, timeout: float | None) -> Connection[Any] | None:
        self._pool.rotate(1)  # the pool takes from the front, under its lock
        return super()._get_ready_connection(timeout)

    @classmethod
    def check_if_told(cls, connection: Connection[Any]) -> None:
        """Raise an error if the server has ended a connection that was idle, as its restart does. It says so, and
        closes its side: only where there is something to read, a round trip says what (0185)."""
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
            cls.check_connection(connection)

    def reconnect_failed(self) -> None:
        """Try again at once if somebody waits. The pool has given up one connection (`reconnect_timeout`). By itself it
        would try again only at the next request, and those who already wait would get nothing. Without giving up, it
        would double its pauses, and stay away as long again as the database was."""
        super().reconnect_failed()
        with self._lock:
            if self._waiting:
                self._maybe_grow_pool()


class DatabaseWrapper(base.DatabaseWrapper):
    _connection_pools: dict[str, ConnectionPool[Connection[Any]]]  # those of the process, by alias
    _configure_connection: Callable[[Connection[Any]], None]

    @property
    def pool(self) -> ConnectionPool[Connection[Any]] | None:
        options = self.settings_dict["OPTIONS"].get("pool")
        if options and self.alias not in (NO_DB_ALIAS, *self._connection_pools):
            ours = NewestFirst(
                kwargs=self.get_connection_params() | {"autocommit": True},
                open=False,  # the first request opens it
                configure=self._configure_connection,
                check=NewestFirst.check_if_told,
                **options,
            )
            self._connection_pools.setdefault(self.alias, ours)
        pool: ConnectionPool[Connection[Any]] | None = super().pool
        return pool
