"""`manage.py restore FOLDER`: a backup into a database without tables, with everything verified after it."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, call_command

from marketplace.backup import BackupFailed, backup_restore

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
        for verification in VERIFICATIONS:
            call_command(verification, stdout=self.stdout)
