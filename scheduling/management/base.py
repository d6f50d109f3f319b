"""What the commands on files share: no database, no checks of one, and a flaw in a file is one line."""

from __future__ import annotations

import errno
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.core.scenario import BadScenario
from scheduling.lab.files import reason

WRONG_INPUT = 2
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what writing a table fails with; files say their own
INTERRUPTED = 130


class FileCommand(BaseCommand):
    """A command that turns files into files. Bad input ends it with status 2 and one line on standard error."""

    requires_system_checks: list[str] = []
    requires_migrations_checks = False
    _called_from_command_line: bool  # Django's own flag, unknown to its stubs

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            answer = super().execute(*args, **options)
            sys.stdout.flush()  # what cannot be written is told below
            return answer
        except BadScenario as error:
            return self.refuse([str(error)])
        except OSError as error:
            if error.errno not in (*UNWRITTEN, errno.EPIPE) or not self._called_from_command_line:
                raise
            # What is left of the output is not tried again as the process ends.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open until the process ends
            if error.errno == errno.EPIPE:
                sys.exit(0)  # whoever read has read enough, such as `head`
            return self.refuse([f"the output cannot be written ({reason(error)})"])
        except KeyboardInterrupt:
            if not self._called_from_command_line:
                raise
            sys.exit(INTERRUPTED)

    def refuse(self, flaws: list[str]) -> str | None:
        """End with one line for each flaw. A program that called the command gets them as an exception."""
        if not self._called_from_command_line:
            raise CommandError("\n".join(flaws), returncode=WRONG_INPUT)
        for flaw in flaws:
            self.stderr.write(flaw)
        sys.exit(WRONG_INPUT)


def add_set_option(parser: CommandParser, help_text: str) -> None:
    """`--set KEY=VALUE`, as often as needed."""
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE", help=help_text)


def add_processes_option(parser: CommandParser) -> None:
    """`--processes N`: how many runs at a time."""
    parser.add_argument("--processes", type=int, metavar="N", help="runs at a time (default: all processors)")


def processes_of(options: Mapping[str, Any]) -> int:
    """What `--processes` says, or all processors."""
    processes = cores() if options["processes"] is None else int(options["processes"])
    if processes < 1:
        raise BadScenario("--processes", f"must be 1 or more, not {processes}")
    return processes


def moment_of(text: str) -> datetime:
    """Of ISO 8601; in UTC where it names no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError("takes a time like 2026-01-31 or 2026-01-31T12:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def day_of(text: str) -> date:
    """Of ISO 8601."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError("takes a day like 2026-01-31") from error


def several(count: int, word: str) -> str:
    """Return a count with its word, such as "1 job" or "2 jobs"."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
