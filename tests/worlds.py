"""Worlds that the tests of a file share. They are built once, in a transaction around all tests that is never
committed.

Each test works in a savepoint of its own, so it finds the database as it was built, whatever others did to it. Where
tests change what was built in memory too, each gets a copy of it. A test names the fixture, or another one that uses
it, among its arguments: only then is the world built around the test and not in it. A test in such a file that needs
another world names `nothing_built`. This is not for files with tests of `transaction=True`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker

World = TypeVar("World")


def built_once(build: Callable[[], World]) -> Callable[[DjangoDbBlocker, None], Iterator[World]]:
    """Return a fixture that builds the world once for one file of tests."""

    @pytest.fixture(scope="module")
    def fixture(django_db_blocker: DjangoDbBlocker, django_db_setup: None) -> Iterator[World]:
        around = transaction.atomic()
        with django_db_blocker.unblock():
            around.__enter__()
        try:
            with django_db_blocker.unblock():
                world = build()
                connection.check_constraints()  # deferred constraints, as no commit will check them
            yield world
        finally:
            with django_db_blocker.unblock():
                transaction.set_rollback(True)
                around.__exit__(None, None, None)

    return fixture
