"""Worlds of tests with `transaction=True`: other processes look at them, so they must be committed each time.

The rows of such a world are kept when it was built for the first time, and put back for each further test that begins
with it, with the numbers that they had. What a process remembers of them besides must not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db import connection, transaction

from tests.database import as_superuser, tables_of_tests, without_triggers

_worlds: dict[str, Mapping[str, bytes]] = {}  # name -> table -> its rows, as PostgreSQL copies them


def built_or_put_back(name: str, build: Callable[[], object]) -> None:
    """Build a world in the empty database, or put back what was built there under this name."""
    if name in _worlds:
        _put_back(_worlds[name])
    else:
        build()
        _worlds[name] = _rows()


def _rows() -> dict[str, bytes]:
    rows_by_table = {}
    with as_superuser(), connection.cursor() as cursor:
        for table in tables_of_tests():
            with cursor.copy(f'COPY "{table}" TO STDOUT') as copy:
                rows_by_table[table] = b"".join(map(bytes, copy))
    return {table: rows for table, rows in rows_by_table.items() if rows}


def _put_back(world: Mapping[str, bytes]) -> None:
    with transaction.atomic(), without_triggers(), connection.cursor() as cursor:
        for table, rows in world.items():
            with cursor.copy(f'COPY "{table}" FROM STDIN') as copy:
                copy.write(rows)
