"""`manage.py retention`: what is older than the installation keeps it, and with --apply away with it."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.utils import timezone

from scheduling.app.retention import archives_lines, retention_apply, retention_preview
from tenants.ledger.management.base import DatabaseCommand

DAYS = (
    "RETENTION_DELIVERIES_DAYS",
    "RETENTION_NOTICES_READ_DAYS",
    "RETENTION_NOTICES_UNREAD_DAYS",
    "RETENTION_REPORTS_DAYS",
    "RETENTION_RUN_FILES_DAYS",
    "RETENTION_ARCHIVES_DAYS",
)


class Command(DatabaseCommand):
    help = "Says what is older than this installation keeps it. Nothing is removed without --apply."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--apply", action="store_true", help="remove it now, as the worker does every hour")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in DAYS:
            days = getattr(settings, name)
            self.stdout.write(f"{name}: {f'{days} days' if days else 'for good'}")
        counts = retention_apply(clock=timezone.now) if options["apply"] else retention_preview(at=timezone.now())
        if counts is None:
            raise CommandError("A worker is at it at this moment. Look again in a minute.")
        for line in archives_lines():
            self.stdout.write(line)
        for name, count in counts.items():
            self.stdout.write(f"{name.replace('_', ' ')}: {count:,}{' removed' if options['apply'] else ' would go'}")
