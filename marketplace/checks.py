"""System checks that query the database: `manage.py check --database default`, and every `manage.py migrate`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from marketplace.upkeep.rights import rights_compare, serving_role
from marketplace.version import VERSION

LACKING = ("42P01", "42703")  # undefined_table, undefined_column
FORBIDDEN = "42501"  # insufficient_privilege
FIRST_STEP = "0001_initial"
# App -> the last of the steps that 0001 now contains. None between them is left.
LAST_REMOVED = {"scheduling": "0058_learner", "ledger": "0004_day_sheets"}


@register(Tags.database)
def no_database_stopped_among_removed_steps(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Report a database of an early version that lacks some of the steps that 0001 now contains: it cannot
    be migrated."""
    if not databases or "django_migrations" not in connection.introspection.table_names():
        return []
    applied = MigrationRecorder(connection).applied_migrations().keys()
    return [
        Error(
            f"The database has early steps of {app} and not its step {last}, which this version does not have any more."
            " Bring it there with version 1.0.0, or with the one that this asks for; then come back.",
            id="marketplace.E001",
        )
        for app, last in LAST_REMOVED.items()
        if (app, last) not in applied and any(of == app and FIRST_STEP < name < last for of, name in applied)
    ]


@register(Tags.database)
def no_database_of_a_newer_version(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Report a database that a newer version has migrated. Processes of this version go on beside it, as in an upgrade;
    nobody knows the way back."""
    if not databases or "django_migrations" not in connection.introspection.table_names():
        return []
    beyond = steps_beyond(MigrationRecorder(connection).applied_migrations())
    return [Error(beyond_sentence("The database", beyond), id="marketplace.E002")] if beyond else []


def steps_beyond(applied: Iterable[tuple[str, str]]) -> list[str]:
    """Return those of the steps (app, name) that come after the last one that this version has of the app."""
    last: dict[str, str] = {}
    for app, name in MigrationLoader(None, ignore_no_migrations=True).disk_migrations:
        last[app] = max(last.get(app, ""), name)
    return sorted(f"{app} {name}" for app, name in applied if app in last and name > last[app])


def lacks_step(error: BaseException) -> bool:
    """Return whether a query failed because the database lacks a step of this version. Where no step is to come, the
    same error is a fault of ours."""
    return _state_of(error) in LACKING and bool(steps_to_come())


def lacks_right(error: BaseException) -> bool:
    return _state_of(error) == FORBIDDEN


def _state_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error of Django's, which has the driver's as its cause."""
    return error.__cause__.sqlstate if isinstance(error.__cause__, psycopg.Error) else None


def steps_to_come() -> list[str]:
    """Return the steps of this version (app and name) that the database has not, in their order."""
    executor = MigrationExecutor(connection)
    return [f"{step.app_label} {step.name}" for step, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def beyond_sentence(what: str, steps: Sequence[str]) -> str:
    more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
    return (
        f"{what} is of a newer version than {VERSION}: it has step {steps[0]}{more}, which this version does not know."
        " Install that version, or restore a backup from before the upgrade."
    )


@register(Tags.database)
def serving_role_has_its_rights(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn about rights that are wrong. Before and during a migration by the owning role, which creates the tables and
    gives the rights, it says nothing."""
    if not databases or "django_migrations" not in connection.introspection.table_names():
        return []
    role = serving_role()
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        if cursor.fetchone() != (role,):
            return []
    return [Warning(sentence, id="marketplace.W001") for sentence in rights_compare(role).sentences]
