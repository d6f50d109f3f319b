"""manage.py verify_ledger: audit the whole book; exit 1 and name the culprit when anything is wrong."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from tenants.ledger.audit import verify
from tenants.ledger.management.base import DatabaseCommand
from tenants.ledger.management.heads import head_argument

_WIDTH = 30


class Command(DatabaseCommand):
    help = "Audit the whole book: entries, digests, cached balances, seals, and the rules in the database."

    def add_arguments(self, parser: CommandParser) -> None:
        head_argument(parser, "a head of the seals")

    def handle(self, *args: Any, **options: Any) -> None:
        audit = verify(known_heads=options["heads"], progress=self._progress)
        count = len(audit.findings)
        verdict = "the book is in order" if audit.is_clean else f"{count} finding{'s' * (count != 1)}"
        seals = f"{audit.sealed} sealed" + (f", head {audit.head}" if audit.head else "")
        self.stdout.write(f"{verdict}: {audit.transactions} transactions, {audit.entries} entries, {seals}")
        for finding in audit.findings:
            self.stderr.write(str(finding))
        if not audit.is_clean:
            sys.exit(1)

    def _progress(self, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        bar = "#" * (_WIDTH * done // total)
        sys.stderr.write(f"\r[{bar:<{_WIDTH}}] {100 * done // total:3d} %" + ("\n" if done == total else ""))
        sys.stderr.flush()
