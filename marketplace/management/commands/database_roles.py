"""`manage.py database_roles`: the SQL for two roles in a PostgreSQL of your own, or its second half done."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from marketplace.upkeep.rights import rights_compare, rights_give, schema, serving_role, statements
from tenants.common.ownership import as_owner, has_owner
from tenants.ledger.management.base import DatabaseCommand

ONCE = """\
-- Once, as a superuser, at the database {database}. Choose the passwords. What is there already stays as it is.
CREATE ROLE {owner} LOGIN PASSWORD '...';  -- for DATABASE_OWNER_URL: of `manage.py migrate` alone
CREATE ROLE {role} LOGIN PASSWORD '...';   -- for DATABASE_URL: of everything else
ALTER DATABASE {database} OWNER TO {owner};
ALTER SCHEMA {schema} OWNER TO {owner};
REASSIGN OWNED BY {role} TO {owner};       -- where {role} has owned the tables until now
ALTER ROLE {role} NOSUPERUSER NOCREATEDB NOCREATEROLE;

-- As {owner}, after every migration. `manage.py migrate` does it where DATABASE_OWNER_URL is set."""


class Command(DatabaseCommand):
    help = "Print the SQL that gives the product a role which can do no more than it needs, and one that migrates."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--apply", action="store_true", help="give the serving role its rights, as the owning one")

    def handle(self, *args: Any, apply: bool, **options: Any) -> None:
        role = serving_role()
        if apply:
            self._apply(role)
            return
        owner = settings.DATABASE_OWNER["USER"] if settings.DATABASE_OWNER else f"{role}_owner"
        names = {"role": role, "owner": owner, "database": connection.settings_dict["NAME"], "schema": schema()}
        quoted = {name: connection.ops.quote_name(value) for name, value in names.items()}
        self.stdout.write(ONCE.format(**quoted))
        self.stdout.write("\n".join(f"{statement};" for statement in statements(role)))

    def _apply(self, role: str) -> None:
        if not has_owner():
            raise CommandError("DATABASE_OWNER_URL is not set: the rights are given by the role that owns the tables.")
        with as_owner():
            done = rights_give(role)
        differences = rights_compare(role)
        if sentences := list(differences.sentences):
            raise CommandError("\n".join(sentences))
        self.stdout.write(f"{role} {'now has' if done else 'already had'} the rights that it needs, and no others.")
