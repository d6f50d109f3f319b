"""An upgrade from version 1.0.0 with ten million lines in the book: how long anybody waits for a migration.

A small market is made by the services at work, and then taken back to the tables of that time. Its rows are copied,
with other keys, until the large tables are large. While today's migrations run, two clients work on: one does what each
decision and settlement does to single rows, the other adds lines to the book.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from psycopg import sql

from marketplace.embedded import State
from marketplace.embedded.state import DATABASE, OWNER

NEEDS_DATABASE = True

ELSEWHERE = "upgraded"
ROWS = {
    "ledger_entry": 10_000_000,
    "ledger_transaction": 3_000_000,
    "scheduling_event": 2_000_000,
    "scheduling_award": 1_000_000,
    "scheduling_trainingjob": 1_000_000,
    "scheduling_jobfloor": 1_000_000,
    "scheduling_interval": 50_000,
    "tenants_auditentry": 200_000,
}
WORK = {
    "jobs and awards": (
        "UPDATE scheduling_award SET state = state WHERE id = (SELECT max(id) FROM scheduling_award)",
        "UPDATE scheduling_trainingjob SET state = state WHERE id = (SELECT max(id) FROM scheduling_trainingjob)",
        "SELECT id, value, allocation FROM scheduling_jobfloor ORDER BY id DESC LIMIT 50",
        "SELECT number, digest FROM scheduling_interval ORDER BY id DESC LIMIT 5",
        "UPDATE scheduling_laneclock SET settled_slot = settled_slot",
        "UPDATE scheduling_pulse SET alive_at = alive_at",
    ),
    "book and history": (
        "SELECT sum(amount) FROM ledger_entry WHERE transaction_id = (SELECT max(id) FROM ledger_transaction)",
        "SELECT account_id, amount FROM ledger_balance",
        "SELECT id, kind FROM scheduling_event ORDER BY id DESC LIMIT 100",
        "SELECT id, tenant_id, user_id, role FROM tenants_membership",
        "SELECT max(sequence) FROM tenants_auditentry",
    ),
}


def measure() -> Iterator[dict[str, Any]]:
    state = State(Path(os.environ["BOURSE_VAR"]).parent)
    with psycopg.connect(state.superuser_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {ELSEWHERE} OWNER {OWNER}")
    superuser = state.superuser_url.replace("/postgres?", f"/{ELSEWHERE}?")
    with tempfile.TemporaryDirectory(dir=state.folder) as var:
        urls = {
            "DATABASE_URL": state.database_url.replace(f"/{DATABASE}?", f"/{ELSEWHERE}?"),
            "DATABASE_OWNER_URL": state.owner_url.replace(f"/{DATABASE}?", f"/{ELSEWHERE}?"),
        }
        there = {**os.environ, **urls, "BOURSE_VAR": var}
        _run(there, "manage.py", "migrate", "--verbosity", "0")
        _run(there, "-m", "tests.marketplace.upgrading", "make")
        _run(there, "-m", "tests.marketplace.upgrading", "back")
        with psycopg.connect(superuser, autocommit=True) as connection:
            sizes = {table: _copied(connection, table, rows) for table, rows in ROWS.items()}
            connection.execute("VACUUM ANALYZE")
            gibibytes = connection.execute("SELECT pg_database_size(current_database())").fetchone()[0] / 2**30  # type: ignore[index]
        others = [AtWork(there["DATABASE_URL"], work) for work in WORK.values()]
        for other in others:
            other.start()
        started = time.perf_counter()
        try:
            _run(there, "manage.py", "migrate", "--verbosity", "0")
        finally:
            seconds = time.perf_counter() - started
            for other in others:
                other.over.set()
            for other in others:
                other.join()
    for other in others:
        if other.error is not None:
            raise other.error
    waits = {name: other.report() for name, other in zip(WORK, others, strict=True)}
    detail = {"rows": sizes, "gibibytes": round(gibibytes, 2), "load": round(os.getloadavg()[0], 2), "others": waits}
    longest = max(other.longest for other in others)
    yield _figure("longest wait of anybody beside an upgrade", 1e3 * longest, "ms", "<= 2000", **detail)
    yield _figure("all migrations since before version 1.0", seconds, "s", "-")


class AtWork(threading.Thread):
    """A client of the version before. It executes its statements, each in its own transaction, until it is ended."""

    def __init__(self, address: str, work: tuple[str, ...]) -> None:
        super().__init__()
        self.address, self.work, self.over = address, work, threading.Event()
        self.longest, self.slowest, self.statements = 0.0, "", 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # the thread that measures raises it
            self.error = error

    def _work(self) -> None:
        with psycopg.connect(self.address, autocommit=True, prepare_threshold=None) as connection:
            connection.execute("SET lock_timeout = 0")
            connection.execute("SET statement_timeout = 0")
            while not self.over.is_set():
                for statement in self.work:
                    started = time.perf_counter()
                    connection.execute(statement)
                    seconds = time.perf_counter() - started
                    self.statements += 1
                    if seconds > self.longest:
                        self.longest, self.slowest = seconds, statement

    def report(self) -> dict[str, Any]:
        return {"longest_ms": round(1e3 * self.longest, 1), "statement": self.slowest, "statements": self.statements}


def _copied(connection: psycopg.Connection[Any], table: str, rows: int) -> int:
    """Copy the table's rows, with other keys, until it has `rows` rows. No trigger and no foreign key checks them: they
    exist to be read by migrations."""
    total, values = _counted(connection, table), []
    keys = _keys(connection, table)
    for column, kind in _columns(connection, table):
        name = sql.Identifier(column)
        if column not in keys:
            values.append(name)
        elif kind == "uuid":
            values.append(sql.SQL("gen_random_uuid()"))
        elif kind in ("integer", "bigint", "smallint"):
            most = sql.SQL("(SELECT max({}) + 1 FROM {})").format(name, sql.Identifier(table))
            values.append(sql.SQL("{} + copy * {}").format(name, most))
        else:
            values.append(sql.SQL("md5({}::text || copy)").format(name))
    copies = -(-(rows - total) // total)
    columns = sql.SQL(", ").join(sql.Identifier(column) for column, _ in _columns(connection, table))
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(
            sql.SQL(
                "INSERT INTO {table} ({columns}) SELECT {values} FROM {table}, generate_series(1, {copies}) copy"
            ).format(
                table=sql.Identifier(table),
                columns=columns,
                values=sql.SQL(", ").join(values),
                copies=copies,
            )
        )
    return _counted(connection, table)


def _counted(connection: psycopg.Connection[Any], table: str) -> int:
    ((rows,),) = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchall()
    return int(rows)


def _columns(connection: psycopg.Connection[Any], table: str) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER'"
        " ORDER BY ordinal_position",
        [table],
    ).fetchall()


def _keys(connection: psycopg.Connection[Any], table: str) -> set[str]:
    """Return one column of each unique index, in which the copies differ: an integer one if there is, best a bigint."""
    indexes = connection.execute(
        "SELECT array_agg(attname::text ORDER BY array_position(ARRAY[20, 23]::oid[], atttypid), attnum DESC)"
        " FROM pg_index"
        " JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)"
        " WHERE indisunique AND indrelid = to_regclass(%s) GROUP BY indexrelid",
        [table],
    ).fetchall()
    return {columns[0] for (columns,) in indexes}


def _run(environment: dict[str, str], *words: str) -> None:
    subprocess.run(
        [sys.executable, *words], env=environment, cwd=settings.BASE_DIR, check=True, stdout=subprocess.DEVNULL
    )


def _figure(name: str, value: float, unit: str, target: str, **detail: Any) -> dict[str, Any]:
    return {"name": name, "value": round(value, 2), "unit": unit, "target": target, "detail": detail}
