"""`manage.py backup FOLDER`: the whole installation as of one moment, while it works."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import CommandError
from django.utils import timezone

from marketplace.backup import BackupFailed, backup_make
from tenants.ledger.management.base import DatabaseCommand

NAMED = 3  # files in the sentence about those that are not in it; the manifest has them all


class Command(DatabaseCommand):
    help = "Writes the database, the files of programs and a list with digests into a new folder. Nothing has to stop."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = backup_make(options["folder"], timezone.now())
        except BackupFailed as error:
            raise CommandError(str(error)) from error
        for name, digest in manifest["files"].items():
            self.stdout.write(f"{options['folder'] / name}  sha256 {digest}")
        if unreadable := manifest["unreadable"]:
            named = ", ".join(unreadable[:NAMED]) + (", ..." if len(unreadable) > NAMED else "")
            what = "file or folder of programs is" if len(unreadable) == 1 else "files or folders of programs are"
            self.stderr.write(
                f"{len(unreadable)} {what} not in it, as this account may not read them: {named}."
                " Make the backup as root."
            )
        self.stdout.write("SECRET_KEY is not in it: keep it elsewhere. Without it stored secrets are lost.")
