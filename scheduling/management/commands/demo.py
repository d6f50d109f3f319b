"""`manage.py demo`: five tenants, a market, an elastic pool and a person for every role, for a first look."""

from __future__ import annotations

import logging
import time
from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from scheduling.app.past import PastBroken, past_due, past_make, slot_of
from scheduling.common.steps import STEPS_LOG
from scheduling.demo import content as demo_content
from scheduling.demo import demo
from scheduling.lab.histories.made_up import LOG, made_up_month
from scheduling.lab.requests import study_create
from scheduling.management.base import moment_of
from scheduling.models import LabStudy
from tenants.access import Refused, access_of_system

MONTH, SEED = 30, 24


class Command(BaseCommand):
    help = "Load the demonstration into an empty database (only where DEBUG is on) and print its log-ins."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reset", action="store_true", help="first remove everything from a demo's database")
        parser.add_argument(
            "--at",
            type=moment_of,
            default=None,
            metavar="TIME",
            help="load as if it were this time, such as 2026-03-02T12:00 (UTC); same time, same rows",
        )

        parser.add_argument(
            "--past",
            type=int,
            default=0,
            metavar="DAYS",
            help="with so many days that have passed, in a pool with long slots; else everything begins now",
        )

    def handle(self, *args: Any, reset: bool, at: datetime | None, past: int, **options: Any) -> None:
        if reset:
            _or_error(demo.demo_wipe())
            call_command("migrate", interactive=False, verbosity=0)

        def now() -> datetime:
            return at or timezone.now()

        begun = now()
        since = slot_of(begun) - timedelta(days=past) if past else None
        loaded = _or_error(demo.demo_load(at=begun, since=since))
        self._past(begun)
        with transaction.atomic():
            begins = demo.demo_open(at=now()) or not (past or loaded.already)  # without a past, loading has opened it
            if begins:
                _or_error(_study(now()))
        self.stdout.write("The demo was loaded already." if loaded.already else "The demo is loaded.")
        self.stdout.write(log_ins())

    def _past(self, at: datetime) -> None:
        """Make the past of the demonstration if it is not made yet, also after a load that was interrupted."""
        if (pool := past_due()) is None:
            return
        days = (at - pool.epoch_at).days
        self.stdout.write(
            f"Making a past of {days} days by the market's own rules. This takes less than a minute, once ..."
        )
        steps, began = logging.getLogger(STEPS_LOG), time.monotonic()
        level = steps.level
        steps.setLevel(logging.WARNING)  # nobody reads a line for each step of a month
        try:
            past = past_make(at=at)
        except PastBroken as problem:
            raise CommandError(f"The past is not made to its end: {problem}. Try again.") from problem
        finally:
            steps.setLevel(level)
        if past is not None:
            self.stdout.write(
                f"{days} days of {pool.name} in {time.monotonic() - began:.0f} s: {past.slots:,} slots,"
                f" {past.jobs:,} jobs, {past.intervals:,} intervals, {past.awards:,} awards."
            )


def _study(at: datetime) -> LabStudy | Refused:
    """Create a study of a made-up month of the demo's tenants, up to yesterday. The worker finishes it in seconds."""
    owners = {tenant.slug: 1 for tenant in demo_content.TENANTS}
    document, log = made_up_month(owners, (at - timedelta(days=MONTH)).date(), MONTH, SEED)
    by = access_of_system("the demo")
    return study_create(document=document, files={LOG: log}, starts_at_once=True, is_shown=True, by=by, at=at)


def log_ins() -> str:
    """Return the people of the demo as a table, with the one password that they share."""
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
