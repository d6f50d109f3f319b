"""Recompute the chain of the history. Exit 1 and name the entry if somebody changed it behind our back."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenants import history


class Command(BaseCommand):
    help = "Check that no entry of the history was changed, removed or slipped in."

    def handle(self, *args: Any, **options: Any) -> None:
        found = history.verify()
        if isinstance(found, history.Broken):
            raise CommandError(f"entry {found.sequence}: {found.what}", returncode=1)
        self.stdout.write(f"{found.entries} entries, unbroken; the last is {found.hash}")
