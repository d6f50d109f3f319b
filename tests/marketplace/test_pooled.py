"""The pool of connections of a web process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from psycopg import Connection, OperationalError

from marketplace.pooled.base import DatabaseWrapper, NewestFirst


@pytest.fixture
def wrapper(django_db_setup: None) -> Iterator[DatabaseWrapper]:
    settings: dict[str, Any] = connections["default"].settings_dict
    # No role is taken on: to say so, Django asks the pool for a second connection for each.
    options = settings["OPTIONS"] | {"pool": {"min_size": 2, "max_size": 3, "timeout": 10}, "assume_role": None}
    own_wrapper = DatabaseWrapper(settings | {"OPTIONS": options}, alias="pooled")
    yield own_wrapper
    own_wrapper.close_pool()


def test_connection_given_back_last_is_given_out_first(wrapper: DatabaseWrapper) -> None:
    pool = wrapper.pool
    assert isinstance(pool, NewestFirst)
    pool.open()
    first, second, third = (pool.getconn() for _ in range(3))
    for one in (second, third, first):
        pool.putconn(one)
    assert [pool.getconn() for _ in range(3)] == [first, third, second]
    for one in (first, second, third):
        pool.putconn(one)


def test_connections_that_a_restart_ended_while_they_were_idle_are_given_to_nobody(wrapper: DatabaseWrapper) -> None:
    pool = wrapper.pool
    assert isinstance(pool, NewestFirst)
    pool.open()
    held = [pool.getconn() for _ in range(3)]
    for one in held[1:]:
        held[0].execute("SELECT pg_terminate_backend(%s, 10000)", [one.info.backend_pid])  # as a restart does
    for one in held:
        pool.putconn(one)
    again = [pool.getconn() for _ in range(3)]
    assert [one.execute("SELECT 1").fetchone() for one in again] == [(1,)] * 3
    assert held[0] in again
    for one in again:
        pool.putconn(one)


def test_connection_that_has_nothing_to_say_is_not_asked(
    wrapper: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NewestFirst, "check_connection", lambda connection: pytest.fail("a round trip for nothing"))
    pool = wrapper.pool
    assert isinstance(pool, NewestFirst)
    pool.open()
    pool.putconn(pool.getconn())


def test_all_of_one_address_share_one_pool(wrapper: DatabaseWrapper) -> None:
    other = DatabaseWrapper(wrapper.settings_dict, alias="pooled")
    assert other.pool is wrapper.pool


def test_without_a_pool_there_is_none(django_db_setup: None) -> None:
    assert DatabaseWrapper(connections["default"].settings_dict, alias="pooled").pool is None


def test_who_waits_has_a_connection_as_soon_as_the_database_is_back(
    wrapper: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool of psycopg doubles its pauses: after six refusals it would look again when half a minute is over."""
    refusals = iter(range(6))
    connect = NewestFirst._connect

    def refused_at_first(self: NewestFirst, timeout: float | None = None) -> Connection[Any]:
        if next(refusals, None) is not None:
            raise OperationalError("the database is away")
        return connect(self, timeout)

    monkeypatch.setattr(NewestFirst, "_connect", refused_at_first)
    wrapper.settings_dict["OPTIONS"]["pool"] |= {"min_size": 0, "reconnect_timeout": 0.05}
    pool = wrapper.pool
    assert isinstance(pool, NewestFirst)
    pool.open()
    pool.putconn(pool.getconn(timeout=10))
    assert next(refusals, None) is None
