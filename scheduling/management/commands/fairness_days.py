"""manage.py fairness_days: verify the sums of fairness by day, or add them up anew from the intervals' figures."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from scheduling.audit.verification import days_verify
from scheduling.fairness.days import days_rebuild
from scheduling.management.base import WRONG_INPUT
from scheduling.models import Pool
from tenants.ledger.management.base import DatabaseCommand


class Command(DatabaseCommand):
    help = "Compare the sums of fairness by day with the intervals' figures; --rebuild writes them anew."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", default="", help="only this pool (its short name)")
        parser.add_argument("--rebuild", action="store_true", help="add them up again and keep that")

    def handle(self, *args: Any, **options: Any) -> None:
        pools = Pool.objects.order_by("pk")
        chosen_pools = list(pools.filter(slug=options["pool"]) if options["pool"] else pools)
        if options["pool"] and not chosen_pools:
            raise CommandError(f"there is no pool {options['pool']}", returncode=WRONG_INPUT)
        if options["rebuild"]:
            for pool in chosen_pools:
                self.stdout.write(f"{pool.slug}: {days_rebuild(pool_id=pool.pk)} days")
            return
        findings = days_verify(pool_ids=[pool.pk for pool in chosen_pools])
        for finding in findings:
            self.stderr.write(str(finding))
        if findings:
            sys.exit(1)
        self.stdout.write("the sums by day are those of the intervals")
