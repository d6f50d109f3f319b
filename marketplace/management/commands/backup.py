"""`manage.py backup FOLDER`: the whole installation as of one moment, while it works."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import CommandError
from django.utils import timezone

from marketplace.upkeep.backup import BackupFailed, backup_make, lacks
from tenants.ledger.management.base import DatabaseCommand


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
        for sentence in lacks(manifest):
            self.stderr.write(sentence)
        self.stdout.write("SECRET_KEY is not in it: keep it elsewhere. Without it stored secrets are lost.")
