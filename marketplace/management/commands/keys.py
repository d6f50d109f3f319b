"""`manage.py keys`: which keys are in use, stored secrets under today's SECRET_KEY, a new key for bundles."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.utils import timezone

from scheduling.app.secrets import secrets_carry
from scheduling.audit.bundle import signing_key_renew, signing_keys
from tenants.access import Refused, access_of_system
from tenants.ledger.management.base import DatabaseCommand


class Command(DatabaseCommand):
    help = "Says which keys sign bundles; brings stored secrets under today's SECRET_KEY; makes a new key for bundles."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--carry", action="store_true", help="store every secret under today's SECRET_KEY")
        parser.add_argument("--new-bundle-key", action="store_true", help="bundles are signed with a new key from now")
        parser.add_argument("--reason", default="", help="of a new key, for the history")

    def handle(self, *args: Any, **options: Any) -> None:
        at = timezone.now()
        if options["carry"]:
            self._carry()
        if options["new_bundle_key"]:
            outcome = signing_key_renew(by=access_of_system("keys"), reason=options["reason"], at=at)
            if isinstance(outcome, Refused):
                raise CommandError(outcome.sentence)
        signing = signing_keys()
        if not signing:
            self.stdout.write("Bundles: none was signed yet; the first one makes a key.")
        for key in signing:
            until = f"until {key.retired_at:%Y-%m-%d %H:%M}" if key.retired_at else "and signs now"
            self.stdout.write(f"Bundles: {key.public_key} since {key.made_at:%Y-%m-%d %H:%M} {until}")

    def _carry(self) -> None:
        carried_counts = secrets_carry(at=timezone.now())
        for name, one in carried_counts.items():
            self.stdout.write(
                f"{name.replace('_', ' ').capitalize()}: {one.carried} carried over, {one.already} were there already,"
                f" {one.unreadable} cannot be read."
            )
        if any(one.unreadable for one in carried_counts.values()):
            raise CommandError("Put the key under which they were stored into SECRET_KEY_FALLBACKS, and do it again.")
        if settings.SECRET_KEY_FALLBACKS:
            self.stdout.write("No stored secret needs SECRET_KEY_FALLBACKS any more; sessions do, for two weeks.")
