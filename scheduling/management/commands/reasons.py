"""`manage.py reasons`: every reason of a job and every refusal, with its words and what would help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from scheduling.management.base import FileCommand
from scheduling.management.reasons import reasons_page


class Command(FileCommand):
    help = "Print the guide's page of reasons and refusals, or write it to a file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path, metavar="FILE.md", help="where to write the page")

    def handle(self, **options: Any) -> None:
        if options["file"] is None:
            self.stdout.write(reasons_page(), ending="")
        else:
            options["file"].write_text(reasons_page(), encoding="utf-8")
