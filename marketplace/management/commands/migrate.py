"""`manage.py migrate`: Django's, by the role that owns the tables; then the serving role gets its rights to them.

A database of another version that cannot be migrated is refused, also where another command calls this one, and Django
leaves out the checks.
"""

from __future__ import annotations

from typing import Any

from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import ProgrammingError
from django.db.migrations.exceptions import MigrationSchemaMissing

from marketplace.checks import lacks_right, no_database_of_a_newer_version, no_database_stopped_among_removed_steps
from marketplace.upkeep.rights import rights_give, serving_role
from tenants.common.ownership import as_owner, has_owner


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        role = serving_role()
        with as_owner():
            for check in (no_database_stopped_among_removed_steps, no_database_of_a_newer_version):
                for problem in check(["default"]):
                    raise CommandError(problem.msg)
            try:
                super().handle(*args, **options)
            except (MigrationSchemaMissing, ProgrammingError) as error:
                if any(lacks_right(one) for one in (error, error.__context__) if one):
                    raise CommandError(_forbidden(error)) from error
                raise
            if has_owner():
                rights_give(role)


def _forbidden(error: Exception) -> str:
    """Return what to do where the role with which is migrated may not change the tables."""
    reason = " ".join(str(error).partition("\nLINE ")[0].split())
    address = "DATABASE_OWNER_URL" if has_owner() else "DATABASE_URL"
    wanted = (
        "Let that role own the database and its tables"
        if has_owner()
        else "Set DATABASE_OWNER_URL to the address with the role that owns the tables"
    )
    return f'The role of {address} may not migrate: {reason}. {wanted}: "Two roles" in docs/operations.md.'
