"""What the commands on the database share."""

from __future__ import annotations

from django.core.management.base import BaseCommand


class DatabaseCommand(BaseCommand):
    """A command that reads or changes what is stored, and serves no page.

    Django's checks are left out: for them every page and every address is loaded, which takes longer than most of these
    commands. They are made before a product serves (`migrate`, `up`), and `doctor` says what they find.
    """

    requires_system_checks: list[str] = []
