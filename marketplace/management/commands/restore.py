"""`manage.py restore FOLDER`: a backup into a database without tables, with everything verified after it."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, call_command

from marketplace.upkeep.backup import MANIFEST, BackupFailed, backup_restore

VERIFICATIONS = ("verify_ledger", "verify_intervals", "verify_history")


class Command(BaseCommand):
    help = "Restores a backup into an empty database, brings its tables up to date, gives the rights, and verifies it."
    requires_system_checks: list[str] = []  # there are no tables yet

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = backup_restore(options["folder"])
        except BackupFailed as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Restored what version {manifest['version']} had at {manifest['made_at']}.")
        self.stdout.write("New jobs and events have numbers far beyond: those of after the backup are known outside.")
        call_command("migrate", verbosity=0)
        if missing := [*manifest.get("unreadable", ()), *manifest.get("too_deep", ())]:
            what = "file or folder of programs is" if len(missing) == 1 else "files or folders of programs are"
            self.stderr.write(f"{len(missing)} {what} not in this backup, or not as a whole: {MANIFEST} has the names.")
        if failed := [name for name in VERIFICATIONS if not self._verifies(name)]:
            raise CommandError(
                f"It is restored, and {' and '.join(failed)} {'has' if len(failed) == 1 else 'have'} findings, which"
                " stand above. The backup is as it was written, so they are older than it. Start nothing yet: see"
                ' whether the installation that it was made of has the same ones ("Proving the book" in'
                " docs/operations.md), and go on if you know their cause; or else restore an earlier backup into a new"
                " database, with no files of programs."
            )

    def _verifies(self, verification: str) -> bool:
        try:
            call_command(verification, stdout=self.stdout, stderr=self.stderr)
        except SystemExit as end:  # what it has found stands on standard error
            return not end.code
        return True
