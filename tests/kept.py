"""Worlds of tests with `transaction=True`: other processes look at them, so they must be committed each time.

The rows of such a world are kept when it was built for the first time, and put back for each further test that begins
with it, with the numbers that they had, and with the numbers that come next: a test may have begun to count anew
meanwhile. What a process remembers of them besides must not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db import connection, transaction

from tests.database import as_superuser, run, tables_of_tests, without_triggers


@dataclass(frozen=True)
class KeptWorld:
    """`rows` maps a table to its rows, as PostgreSQL copies them; `numbers` maps a sequence to its last number."""

    rows: Mapping[str, bytes]
    numbers: Mapping[str, int]


_worlds: dict[str, KeptWorld] = {}


def built_or_put_back(name: str, build: Callable[[], object]) -> None:
    """Build a world in the empty database, or put back what was built there under this name."""
    if name in _worlds:
        _put_back(_worlds[name])
    else:
        build()
        _worlds[name] = KeptWorld(_rows(), _numbers())


def _rows() -> dict[str, bytes]:
    rows_by_table = {}
    with as_superuser(), connection.cursor() as cursor:
        for table in tables_of_tests():
            with cursor.copy(f'COPY "{table}" TO STDOUT') as copy:
                rows_by_table[table] = b"".join(map(bytes, copy))
    return {table: rows for table, rows in rows_by_table.items() if rows}


def _numbers() -> dict[str, int]:
    with as_superuser():
        sequences = run("SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()")
    return {name: last for name, last in sequences if last is not None}


def _put_back(world: KeptWorld) -> None:
    with transaction.atomic(), without_triggers(), connection.cursor() as cursor:
        for table, rows in world.rows.items():
            with cursor.copy(f'COPY "{table}" FROM STDIN') as copy:
                copy.write(rows)
        for sequence, last in world.numbers.items():
            cursor.execute("SELECT setval(%s::regclass, %s)", [f'"{sequence}"', last])
