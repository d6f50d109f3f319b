"""manage.py verify_charge JOB: what a job pays, recomputed from the stored interval and looked up in the book."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from scheduling.audit.verification import charge_verify
from scheduling.management.base import WRONG_INPUT, several
from scheduling.market.reads import slots_words
from scheduling.models import Award
from tenants.access import Refused
from tenants.ledger.amounts import exported
from tenants.ledger.management.base import DatabaseCommand


class Command(DatabaseCommand):
    help = "Recompute one job's charge from its stored interval, and look for each part of it in the book."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", type=int, help="the job's number")

    def handle(self, *args: Any, **options: Any) -> None:
        verified = charge_verify(job_id=options["job"])
        if isinstance(verified, Refused):
            raise CommandError(verified.sentence, returncode=WRONG_INPUT)
        job = verified.job
        self.stdout.write(f"job {job.pk} ({job.state}): {several(len(verified.awards), 'award')}")
        for award in verified.awards:
            self.stdout.write(_line(award))
        for finding in verified.findings:
            self.stderr.write(str(finding))
        if verified.findings:
            sys.exit(1)
        self.stdout.write("every amount is as the interval decided it, and in the book")


def _line(award: Award) -> str:
    """Return, for example, `  award 7, interval 3: slots 12 to 19, done, pays 1.250000, of it returned 0.000000`."""
    decided = f"interval {award.interval.number}" if award.interval else "answered at once"
    paid, returned = exported(award.paid), exported(award.returned)
    slots = slots_words(award.start, award.end)
    return f"  award {award.pk}, {decided}: {slots}, {award.state}, pays {paid}, of it returned {returned}"
