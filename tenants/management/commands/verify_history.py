"""Recompute the chain of the history. Exit with 1 and name the entry if somebody changed it unnoticed."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from tenants import history
from tenants.ledger.management.base import DatabaseCommand
from tenants.ledger.management.heads import head_argument


class Command(DatabaseCommand):
    help = "Check that no entry of the history was changed, removed or slipped in, and that it still only grows."

    def add_arguments(self, parser: ArgumentParser) -> None:
        head_argument(parser, "the hash of an entry")

    def handle(self, *args: Any, **options: Any) -> None:
        verdict = history.verify(known_heads=options["heads"])
        if isinstance(verdict, history.VerifiedHistory):
            self.stdout.write(f"{verdict.entries} entries, unbroken; the last is {verdict.hash}")
            return
        for finding in verdict.findings:
            self.stderr.write(str(finding))
        sys.exit(1)
