"""manage.py audit_bundle --pool P --from DATE --to DATE --out FILE.zip: a period to take away, signed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduling.audit.bundle import OPEN, ForeignSecret, bundle_write, signing_seed
from scheduling.management.base import WRONG_INPUT, moment_of
from scheduling.models import Pool
from tenants.access import Refused
from tenants.common.stored_secrets import UnreadableSecret
from tenants.ledger.management.base import DatabaseCommand

KEY_LOST = (
    "Put the one of before into SECRET_KEY_FALLBACKS; where it is lost, `manage.py keys --new-bundle-key --reason WHY`"
    " makes another key for bundles."
)


class Command(DatabaseCommand):
    help = "Write everything that is needed to recompute a period, signed, with the program that recomputes it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's short name")
        parser.add_argument("--from", dest="start", type=moment_of, required=True, metavar="TIME", help="ISO 8601, UTC")
        parser.add_argument("--to", dest="end", type=moment_of, required=True, metavar="TIME", help="not included")
        parser.add_argument("--out", type=Path, required=True, metavar="FILE.zip")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = Pool.objects.filter(slug=options["pool"]).first()
        if pool is None:
            raise CommandError(f"there is no pool {options['pool']}", returncode=WRONG_INPUT)
        partial = options["out"].with_name(options["out"].name + ".part")
        try:
            with partial.open("wb") as file:
                outcome = bundle_write(
                    pool=pool,
                    start=options["start"],
                    end=options["end"],
                    seed=signing_seed(at=timezone.now()),
                    file=file,
                )
            if isinstance(outcome, Refused):
                raise CommandError(outcome.sentence, returncode=WRONG_INPUT)
            partial.replace(options["out"])
        except OSError as error:
            raise CommandError(f"{options['out']}: {error.strerror}", returncode=WRONG_INPUT) from error
        except (UnreadableSecret, ForeignSecret) as error:
            raise CommandError(f"{error} {KEY_LOST}") from error
        finally:
            with suppress(OSError):  # it was never made, in a folder that may not be entered
                partial.unlink(missing_ok=True)
        decided = f"{outcome.intervals} intervals, {outcome.answers} answers, {outcome.awards} awards"
        self.stdout.write(f"{options['out']}: {decided}, {outcome.events} events, {outcome.transactions} transactions")
        self.stdout.write(f"public key {outcome.public_key}")
        if outcome.is_open:
            self.stdout.write(OPEN)
