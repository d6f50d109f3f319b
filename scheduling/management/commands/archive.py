"""manage.py archive --before DATE [--pool P] [--folder F] [--apply]: old intervals into signed bundles, by days."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduling.audit.archiving import ARCHIVE_LOCK, ArchiveFailed, archive_day, archive_days, archive_name, may_archive
from scheduling.common import alone
from scheduling.management.base import WRONG_INPUT, day_of
from scheduling.models import Pool
from tenants.access import Access, Refused, access_of_system
from tenants.ledger.management.base import DatabaseCommand


class Command(DatabaseCommand):
    help = (
        "Say which old intervals could leave the database, and with --apply write them into signed bundles, one for"
        " each day, read these back, and drop the inputs and answers that they have. Digests and the chain stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--before", type=day_of, required=True, metavar="DATE", help="of UTC")
        parser.add_argument("--pool", default="", help="only this pool (its short name)")
        parser.add_argument("--folder", type=Path, metavar="FOLDER", help="default: archives in BOURSE_VAR")
        parser.add_argument("--apply", action="store_true", help="do it; with DATABASE_OWNER_URL")

    def handle(self, *args: Any, **options: Any) -> None:
        pools = list(Pool.objects.filter(**({"slug": options["pool"]} if options["pool"] else {})).order_by("pk"))
        if options["pool"] and not pools:
            raise CommandError(f"there is no pool {options['pool']}", returncode=WRONG_INPUT)
        if not options["apply"]:
            for pool in pools:
                self._pool(pool, options["before"], None)
            return
        if not may_archive():
            raise CommandError("Only the owning role drops anything: give DATABASE_OWNER_URL.", returncode=WRONG_INPUT)
        folder = options["folder"] or settings.VAR_DIR / "archives"
        with alone(ARCHIVE_LOCK) as ours:
            if not ours:
                raise CommandError("Another process is archiving at this moment.")
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                for pool in pools:
                    self._pool(pool, options["before"], folder)
            except OSError as error:
                raise CommandError(f"{folder}: {error.strerror}", returncode=WRONG_INPUT) from error
            except ArchiveFailed as error:
                raise CommandError(str(error)) from error

    def _pool(self, pool: Pool, before: date, folder: Path | None) -> None:
        """Archive the pool's days before the date in the folder. Without a folder, print what would be archived."""
        days = archive_days(pool=pool, before=before, at=timezone.now())
        if isinstance(days, Refused):
            raise CommandError(days.sentence, returncode=WRONG_INPUT)
        if not days:
            self.stdout.write(f"{pool.slug}: nothing from before {before.isoformat()} is left to archive")
        by: Access = access_of_system("manage.py archive")
        for day in days:
            name = archive_name(pool, day.day)
            if day.obstacle:
                self.stdout.write(f"{pool.slug}: {day.day.isoformat()} and what is later stays: {day.obstacle}")
                return
            counted = f"intervals {day.first} to {day.last}, {day.bytes:,} bytes"
            if folder is None:
                self.stdout.write(f"{name}: {counted} would go")
                continue
            row = archive_day(pool=pool, day=day, folder=folder, by=by, at=timezone.now())
            self.stdout.write(f"{folder / name}: {counted} archived  sha256 {row.digest}")
