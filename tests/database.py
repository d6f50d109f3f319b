"""Changes that a test makes to the database, and that the product may not make. The tests' connection is a superuser's,
who works as the role that serves until a test decides otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.db import connection, transaction
from django.db.models import Model
from psycopg.pq import TransactionStatus

from marketplace.embedded.state import DATABASE, ROLE

FILLED_BY_MIGRATE = {"django_content_type", "auth_permission"}


def serving_addresses() -> dict[str, str]:
    """Return the addresses of the test database for a process that may do no more there than the product: serve."""
    from tests.conftest import STATE

    url = STATE.database_url.replace(f"/{DATABASE}?", f"/{connection.settings_dict['NAME']}?")
    return {"DATABASE_URL": url, "DATABASE_OWNER_URL": ""}


@contextmanager
def undone() -> Iterator[None]:
    """Whatever happens inside has not happened afterwards, so one history serves many changes of it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def as_superuser() -> Iterator[None]:
    """Work as the superuser, to do what somebody could do who controls the whole database."""
    run("SET ROLE NONE")
    try:
        yield
    finally:
        # After an error in a transaction, the rollback resets the role.
        if connection.connection.info.transaction_status != TransactionStatus.INERROR:
            run(f"SET ROLE {ROLE}")


@contextmanager
def without_triggers() -> Iterator[None]:
    """Turn the book's rules and the foreign keys off, within a transaction."""
    with as_superuser():
        run("SET LOCAL session_replication_role = replica")
        yield
        run("SET LOCAL session_replication_role = origin")


def overwrite(row: Model) -> None:
    """Save a row with a change that the product itself never makes."""
    with as_superuser():
        row.save()


def overrule(sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """Execute one statement as a superuser, to whom the database's own rules still apply."""
    with as_superuser():
        return run(sql, parameters)


def run(sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


@cache
def tables_of_tests() -> tuple[str, ...]:
    """Return the tables that are empty before a test."""
    tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False))
    return tuple(sorted(tables - FILLED_BY_MIGRATE))
