"""What a test does to the database that the product may not: the tests' connection is a superuser's, who works as the
role that serves until it says otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.models import Model
from psycopg.pq import TransactionStatus

from marketplace.embedded.state import DATABASE, ROLE


def serving_addresses() -> dict[str, str]:
    """Of the test database, for a process that works there as the product does: no more than serving."""
    from tests.conftest import STATE

    url = STATE.database_url.replace(f"/{DATABASE}?", f"/{connection.settings_dict['NAME']}?")
    return {"DATABASE_URL": url, "DATABASE_OWNER_URL": ""}


@contextmanager
def as_superuser() -> Iterator[None]:
    """For whatever somebody could do who has the whole database in hand."""
    run("SET ROLE NONE")
    try:
        yield
    finally:
        # After an error in a transaction, rolling back does it.
        if connection.connection.info.transaction_status != TransactionStatus.INERROR:
            run(f"SET ROLE {ROLE}")


@contextmanager
def without_triggers() -> Iterator[None]:
    """Within a transaction: none of the book's rules and no foreign key is looked at."""
    with as_superuser():
        run("SET LOCAL session_replication_role = replica")
        yield
        run("SET LOCAL session_replication_role = origin")


def overwrite(row: Model) -> None:
    """Save a row of which the product never changes what the test has changed."""
    with as_superuser():
        row.save()


def overrule(sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """One statement as a superuser, to whom the database's own rules still apply."""
    with as_superuser():
        return run(sql, parameters)


def run(sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []
