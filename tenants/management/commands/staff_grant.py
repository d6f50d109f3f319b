"""Make a person operator or auditor from the machine's console. The first operator is made in this way."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction
from django.utils import timezone

from tenants import services
from tenants.access import Refused, access_of_system
from tenants.ledger.management.base import DatabaseCommand
from tenants.models import User
from tenants.roles import STAFF_ROLES


class Command(DatabaseCommand):
    help = "Give a person a role over all tenants. Without an account, one is made; its password is set by mail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument("role", choices=STAFF_ROLES)
        parser.add_argument("--name", default="", help="for a new account")
        parser.add_argument("--reason", required=True, help="stands in the history")

    @transaction.atomic
    def handle(self, *args: Any, email: str, role: str, name: str, reason: str, **options: Any) -> None:
        by, at = access_of_system("manage.py staff_grant"), timezone.now()
        person = User.objects.filter(email=email.strip().lower()).first()
        if person is None:
            person = _done(services.person_create(email=email, name=name, password=None, by=by, reason=reason, at=at))
            self.stdout.write(f'{email} has an account now: set its password under "Forgotten password".')
        _done(services.staff_grant(user=person, role=role, by=by, reason=reason, at=at))
        self.stdout.write(f"{email} is {role} now.")


def _done(outcome: Any) -> Any:
    if isinstance(outcome, Refused):
        raise CommandError(outcome.sentence)
    return outcome
