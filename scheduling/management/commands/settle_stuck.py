"""`manage.py settle_stuck`: credits that an older version left held for what is over; `--apply` pays the owners."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduling.market.settle.stuck import stuck_awards, stuck_settle
from tenants.access import Refused, access_of_system
from tenants.ledger.amounts import exported
from tenants.ledger.management.base import DatabaseCommand


class Command(DatabaseCommand):
    help = "List awards with credits held for slots that are past; with --apply pay whoever was not paid for them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--apply", action="store_true", help="pay for what was delivered, into the history")
        parser.add_argument("--reason", default="slots that were delivered and never settled", help="for the history")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["apply"]:
            answer = stuck_settle(by=access_of_system("settle_stuck"), reason=options["reason"], at=timezone.now())
            if isinstance(answer, Refused):
                raise CommandError(answer.sentence)
            self.stdout.write(f"{answer.awards} awards settled, {exported(answer.amount)} credits to the owners")
        for each in (stuck := stuck_awards()):
            self.stdout.write(str(each))
            if not each.explained:
                self.stdout.write("  its slots do not explain the difference: verify_intervals says what else is wrong")
        if not stuck:
            self.stdout.write("nothing is held for what is over")
        elif options["apply"]:
            sys.exit(1)
