"""From version 1.0.0 to today's, with a market at work: nothing is lost, and nobody waits long."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations

from marketplace.embedded.state import OWNER
from tests.database import as_superuser, run
from tests.marketplace.test_backup import another_database, installation, manage, nothing_stays
from tests.patience import PATIENCE

pytestmark = [pytest.mark.wide, pytest.mark.django_db(transaction=True)]
__all__ = ["nothing_stays"]  # a fixture

OLD = "before"  # the database that is made once for all workers

STABLE_COLUMNS = {  # of these no row and no value may be lost or changed
    "ledger_entry": "transaction_id, line, account_id, amount",
    "ledger_balance": "account_id, stripe, amount, entry_count",
    "scheduling_interval": "pool_id, number, slot, digest, view, plan",
    "scheduling_instantanswer": "pool_id, number, digest",
    "scheduling_award": 'id, job_id, start, "end", paid, state, charges',
    "scheduling_trainingjob": "id, state, spec",
    "scheduling_event": "id, kind, subject, data",
    "scheduling_feedseal": "number, digest",
    "scheduling_cell": "tenant_id, server_id, resource_id, units",
    "tenants_auditentry": "sequence, hash",
    "tenants_membership": "tenant_id, user_id, role",
}
# What processes of the version before go on doing while the tables change, each in a transaction of its own.
OLD_WORK = (
    "UPDATE scheduling_pulse SET alive_at = alive_at",
    "UPDATE scheduling_laneclock SET settled_slot = settled_slot",
    "SELECT id, state, paid, charges FROM scheduling_award",
    "UPDATE scheduling_award SET state = state WHERE id = (SELECT max(id) FROM scheduling_award)",
    "SELECT id, value, allocation FROM scheduling_jobfloor",
    "SELECT number, digest FROM scheduling_interval",
    "SELECT id, tenant_id, user_id, role FROM tenants_membership",
)


def upgrading(environment: Mapping[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "tests.marketplace.upgrading", *words]
    done = subprocess.run(
        command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commanded(environment: Mapping[str, str], *words: str) -> str:
    done = manage(environment, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(environment: Mapping[str, str], sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(environment["DATABASE_OWNER_URL"]) as there:
        return there.execute(sql).fetchall()


def rows_of(environment: Mapping[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: rows(environment, f"SELECT {columns} FROM {table} ORDER BY {columns.split(', ')[0]}, 2")  # noqa: S608
        for table, columns in STABLE_COLUMNS.items()
    }


def old_state_make(var: Path, database: str) -> None:
    """A market at work in tables as they were. Today's services make it, with nothing that the version before did not
    have, and the way back of the migrations takes the tables to that state."""
    from tests.conftest import MIGRATED

    with as_superuser():
        run(f"CREATE DATABASE {database} OWNER {OWNER} TEMPLATE {MIGRATED}")
    there = installation(var, database, secrets.token_urlsafe(50))
    upgrading(there, "make")
    upgrading(there, "back")
    columns = rows(there, "SELECT column_name FROM information_schema.columns WHERE table_name = 'scheduling_interval'")
    assert ("base_id",) not in columns


@pytest.fixture
def there(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of processes at a copy of the old state."""
    from tests.conftest import made_once

    made_once(OLD, partial(old_state_make, tmp_path / "there"))
    with another_database(like=OLD) as database:
        yield installation(tmp_path / "there", database, secrets.token_urlsafe(50))


class AtWork(threading.Thread):
    """Somebody of the version before, until told to end. `flaws`: what was refused, or waited for ever."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address, self.over, self.rounds = address, threading.Event(), 0
        self.flaws: list[str] = []

    def run(self) -> None:
        with psycopg.connect(self.address, autocommit=True, prepare_threshold=None) as there:
            there.execute(f"SET lock_timeout = '{int(PATIENCE)}s'")  # how long is a matter of rows: see below
            while not self.over.is_set():
                for sql in OLD_WORK:
                    try:
                        there.execute(sql)
                    except psycopg.Error as error:
                        self.flaws.append(f"{sql}: {error}")
                self.rounds += 1


def test_upgrade_beside_a_market_at_work_loses_nothing(there: dict[str, str]) -> None:
    before = rows_of(there)
    assert all(before[table] for table in STABLE_COLUMNS if table not in ("tenants_membership",))
    assert {state for (state,) in rows(there, "SELECT state FROM scheduling_trainingjob")} >= {"running", "queued"}
    working = AtWork(there["DATABASE_URL"])
    working.start()
    try:
        commanded(there, "migrate", "--verbosity", "0")
    finally:
        working.over.set()
        working.join(PATIENCE)
    assert working.flaws == []
    assert working.rounds > 3
    assert rows_of(there) == before

    upgrading(there, "go-on", "40")
    slots = "SELECT count(*), max(number) FROM scheduling_interval"
    ((count, last),) = rows(there, slots)
    assert count == last > len(before["scheduling_interval"])
    clock = rows(there, "SELECT decided_slot, settled_slot FROM scheduling_laneclock WHERE lane = 'batch'")
    assert clock == [(40, 39)]
    assert rows(there, "SELECT count(*) FROM scheduling_trainingjob WHERE state IN ('queued', 'running')") == [(0,)]
    after = rows_of(there)
    assert [row[:4] for row in after["ledger_entry"][: len(before["ledger_entry"])]] == before["ledger_entry"]
    for command, words in (
        ("verify_ledger", "the book is in order"),
        ("verify_intervals", "the intervals are in order"),
        ("verify_history", "unbroken"),
    ):
        assert words in commanded(there, command)
    assert re.search(r"\d", commanded(there, "version"))


# Tables that grow to millions of rows, of those that the old state has: what an upgrade makes is empty.
# All others have as many as there are servers, tenants, people or programs.
GROWING = {
    *("ledger_entry", "ledger_transaction", "ledger_daytotal", "ledger_daysheet", "ledger_seal"),
    *("scheduling_event", "scheduling_feedseal", "scheduling_interval", "scheduling_instantanswer"),
    *("scheduling_answerframe", "scheduling_award", "scheduling_trainingjob", "scheduling_jobfloor"),
    *("scheduling_jobdescription", "scheduling_jobarray", "scheduling_startestimate", "scheduling_freedunits"),
    *("scheduling_calendarcell", "scheduling_pricetick", "scheduling_run", "scheduling_intervalfairness"),
    *("scheduling_tenantfairness", "scheduling_webhookdelivery", "scheduling_webhooktry", "tenants_auditentry"),
}
# Read large tables, and nobody waits for it meanwhile: their statements are looked at below.
BESIDE = (
    *("scheduling.0063_calendar_written", "scheduling.0065_cut_after_start", "scheduling.0068_pays_from_checked"),
    "scheduling.0071_calendar_on_capacity_checked",
)
# Rows that an index of few finds, and that nothing of today's makes.
FEW = ("WHERE state IN ('booked', 'running') AND cut_at <= start",)


def test_no_migration_reads_or_rewrites_a_large_table_under_a_lock(there: dict[str, str]) -> None:
    """Whatever time that takes grows with the rows. The counters of PostgreSQL say which tables a migration read."""
    document: dict[str, dict[str, list[str]]] = json.loads(upgrading(there, "scans"))
    assert len(document) >= 10
    slow = {
        name: {table: done for table, done in tables.items() if table in GROWING}
        for name, tables in document.items()
        if name not in BESIDE
    }
    assert {name: tables for name, tables in slow.items() if tables} == {}
    for name in BESIDE:
        assert {kind for table, done in document[name].items() if table in GROWING for kind in done} == {"scanned"}


@pytest.mark.parametrize("name", BESIDE)
def test_what_reads_large_tables_beside_others_takes_no_lock_that_they_wait_for(name: str) -> None:
    """By PostgreSQL's rules: an index that is built concurrently, and a validation, let others read and write. Each is
    committed by itself, so that no lock of another one is held meanwhile."""
    app, _, module = name.partition(".")
    migration = import_module(f"{app}.migrations.{module}").Migration
    assert migration.atomic is False
    for operation in database_operations(migration.operations):
        if isinstance(operation, migrations.RunSQL):
            sql = str(operation.sql)
            assert not re.search(r"CREATE (UNIQUE )?INDEX(?! CONCURRENTLY)|CHECK \(|VALIDATE", sql), sql
            assert not re.search(r"UPDATE \w+ SET", sql) or any(few in sql for few in FEW), sql
        else:
            assert isinstance(operation, migrations.AddField | AddConstraintNotValid | ValidateConstraint), operation


def database_operations(operations: Iterable[Any]) -> Iterator[Any]:
    for operation in operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            yield from database_operations(operation.database_operations)
        else:
            yield operation
