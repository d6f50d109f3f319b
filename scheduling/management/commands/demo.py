"""`manage.py demo`: five tenants, a market, an elastic pool and a person for every role, for a first look."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduling.services import demo, demo_content
from tenants.access import Refused


class Command(BaseCommand):
    help = "Load the demonstration into an empty database (only where DEBUG is on) and print its log-ins."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reset", action="store_true", help="first remove everything from a demo's database")
        parser.add_argument(
            "--at",
            type=_moment,
            default=None,
            metavar="TIME",
            help="load as if it were this time, such as 2026-03-02T12:00 (UTC); same time, same rows",
        )

    def handle(self, *args: Any, reset: bool, at: datetime | None, **options: Any) -> None:
        if reset:
            _or_error(demo.demo_wipe())
            call_command("migrate", interactive=False, verbosity=0)
        loaded = _or_error(demo.demo_load(at=at or timezone.now()))
        self.stdout.write("The demo was loaded already." if loaded.already else "The demo is loaded.")
        self.stdout.write(log_ins())


def log_ins() -> str:
    """The people of the demo as a table, with the one password they share."""
    names = {tenant.slug: tenant.name for tenant in demo_content.TENANTS}
    rows = [("log in as", "name", "may")]
    for person in demo_content.PEOPLE:
        roles = [f"{role} of {names[slug]}" for slug, role in person.roles.items()]
        rows.append((person.email, person.name, ", ".join(roles) or f"{person.staff} over all tenants"))
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"  {email:<{first}}  {name:<{second}}  {may}" for email, name, may in rows]
    return "\n".join([*lines, f"  The password of all of them, of this demo only: {demo_content.PASSWORD}"])


def _or_error(outcome: Any) -> Any:
    if isinstance(outcome, Refused):
        raise CommandError(outcome.sentence)
    return outcome


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
