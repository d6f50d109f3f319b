"""`manage.py secret`: the operator's store of secrets, which programs name and nobody is shown."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduling.catalogue.secrets import secret_remove, secret_set, secrets_listed
from scheduling.lab.tables import table
from tenants.access import Access, Refused, access_of_system
from tenants.ledger.management.base import DatabaseCommand

BY: Access = access_of_system("secret")


class Command(DatabaseCommand):
    help = "Set and remove secrets that programs name. A value is read from the standard input, and never shown."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="names, for whom, since when")
        change = actions.add_parser("set", help="a secret, or its next value: one line of the standard input")
        whom = change.add_mutually_exclusive_group(required=True)
        whom.add_argument("--for", dest="tenants", metavar="SLUG,SLUG", help="whose jobs may have it")
        whom.add_argument("--all", dest="tenants", action="store_const", const=None, help="jobs of all tenants")
        removal = actions.add_parser("remove", help="jobs whose programs name it are not started any more")
        for action in (change, removal):
            action.add_argument("name")
            action.add_argument("--reason", required=True, help="why; it stands in the history")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        {"list": self._list, "set": self._set, "remove": self._remove}[action](options)

    def _list(self, options: dict[str, Any]) -> None:
        rows = [
            [row.name, "all" if row.tenants is None else ", ".join(row.tenants), f"{row.set_at:%Y-%m-%d %H:%M}"]
            for row in secrets_listed()
        ]
        self.stdout.write(table(["name", "for", "set (UTC)"], rows) if rows else "no secrets")

    def _set(self, options: dict[str, Any]) -> None:
        value = getpass.getpass("Value: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        tenants = None if options["tenants"] is None else options["tenants"].split(",")
        outcome = secret_set(
            name=options["name"], value=value, tenants=tenants, by=BY, at=timezone.now(), reason=options["reason"]
        )
        if isinstance(outcome, Refused):
            raise CommandError(outcome.sentence)
        self.stdout.write(f"{outcome.name} is set.")

    def _remove(self, options: dict[str, Any]) -> None:
        outcome = secret_remove(name=options["name"], by=BY, at=timezone.now(), reason=options["reason"])
        if isinstance(outcome, Refused):
            raise CommandError(outcome.sentence)
        self.stdout.write(f"{outcome.name} is removed.")
