"""Worlds that the tests of a file share: built once, in a transaction around all of them that is never kept.

Each test works in a savepoint of its own, so it finds the database as it was built, whatever others did to it. Where
tests change what was built in memory too, each is given a copy of it. A test names the fixture, or another one that
does, among its arguments: only then is the world built around the test and not in it. A test in such a file that wants
another world asks for `nothing_built`. Not for files with tests of `transaction=True`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker

World = TypeVar("World")


def built_once(build: Callable[[], World]) -> Callable[[DjangoDbBlocker, None], Iterator[World]]:
    """A fixture for one file of tests."""

    @pytest.fixture(scope="module")
    def fixture(django_db_blocker: DjangoDbBlocker, django_db_setup: None) -> Iterator[World]:
        around = transaction.atomic()
        with django_db_blocker.unblock():
            around.__enter__()
        try:
            with django_db_blocker.unblock():
                world = build()
                connection.check_constraints()  # what waits for a commit that never comes
            yield world
        finally:
            with django_db_blocker.unblock():
                transaction.set_rollback(True)
                around.__exit__(None, None, None)

    return fixture
