"""`manage.py doctor`: looks at a running installation from inside, and says what to do."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management import BaseCommand, CommandError
from django.utils import timezone

from marketplace.upkeep.doctor import BROKEN, examine
from marketplace.upkeep.forecast import Growth, forecast

LEAST_SHOWN = 2**20  # bytes in a year; a table that grows by less is only in the sum of all


class Command(BaseCommand):
    help = "Says in one line each what is well, and what to do where something is not. Status 1: something is broken."
    requires_system_checks: list[str] = []  # the findings include them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="for programs")
        parser.add_argument("--forecast", action="store_true", help="the size of a year, from what the last days added")

    def handle(self, *args: Any, **options: Any) -> None:
        at = timezone.now()
        if options["forecast"]:
            try:
                growths = forecast(at)
            except OSError as error:
                raise CommandError(
                    f"{error.filename} cannot be looked at: {error.strerror}. Run it as root, or under the account of"
                    " the services."
                ) from error
            self._forecast(growths, options["json"])
            return
        findings = examine(at)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(one) for one in findings], indent=2))
        else:
            for one in findings:
                self.stdout.write(
                    f"{one.state:8} {one.name:11} {one.sentence}" + (f" {one.advice}" if one.advice else "")
                )
        if any(one.state == BROKEN for one in findings):
            raise SystemExit(1)

    def _forecast(self, growths: list[Growth], as_json: bool) -> None:
        if as_json:
            figures = [
                asdict(one)
                | {
                    "rows_a_day": one.rows_a_day,
                    "bytes_a_day": one.bytes_a_day,
                    "bytes_in_a_year": one.bytes_in_a_year,
                }
                for one in growths
            ]
            self.stdout.write(json.dumps(figures, indent=2))
            return
        rows = [one for one in growths if one.bytes_in_a_year >= LEAST_SHOWN]
        self.stdout.write(f"{'':32}{'rows':>14}{'now':>12}{'rows a day':>14}{'a day':>12}{'in a year':>12}")
        for one in rows:
            self.stdout.write(
                f"{one.name:32}{one.rows:>14,}{_size(one.bytes):>12}{one.rows_a_day:>14,.0f}"
                f"{_size(one.bytes_a_day):>12}{'+' + _size(one.bytes_in_a_year):>12}"
            )
        now, year = sum(one.bytes for one in growths), sum(one.bytes_in_a_year for one in growths)
        self.stdout.write(f"All {len(growths)} together: {_size(now)} now, {_size(now + year)} in a year.")


def _size(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
