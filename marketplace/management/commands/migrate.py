"""`manage.py migrate`: Django's, by the role that owns the tables; then the serving role gets its rights to them.

A database of another version that cannot be migrated is refused, also where another command calls this one, and Django
leaves out the checks.
"""

from __future__ import annotations

from typing import Any

from django.core.management import CommandError
from django.core.management.commands import migrate

from marketplace.checks import no_database_of_a_newer_version, no_database_stopped_among_removed_steps
from marketplace.rights import rights_give, serving_role
from tenants.ownership import as_owner, has_owner


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        role = serving_role()
        with as_owner():
            for check in (no_database_stopped_among_removed_steps, no_database_of_a_newer_version):
                for problem in check(["default"]):
                    raise CommandError(problem.msg)
            super().handle(*args, **options)
            if has_owner():
                rights_give(role)
