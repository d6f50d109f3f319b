"""Recompute the chain of the history, and compare with it who may do what. Exit with 1 and name what somebody changed
unnoticed."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from tenants import history, rights_audit
from tenants.ledger.management.base import DatabaseCommand
from tenants.ledger.management.heads import head_argument


class Command(DatabaseCommand):
    help = (
        "Check that no entry of the history was changed, removed or slipped in, that it still only grows, and that"
        " people and tokens may do what it says."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        head_argument(parser, "the hash of an entry")

    def handle(self, *args: Any, **options: Any) -> None:
        verdict = history.verify(known_heads=options["heads"])
        findings = rights_audit.verify()
        if isinstance(verdict, history.VerifiedHistory):
            self.stdout.write(f"{verdict.entries} entries, unbroken; the last is {verdict.hash}")
        else:
            findings = [*verdict.findings, *findings]
        for finding in findings:
            self.stderr.write(str(finding))
        if findings:
            sys.exit(1)
