"""`manage.py reproduce`: repeat published comparisons, and say in numbers what came out and what did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from scheduling.core.scenario import BadScenario
from scheduling.lab.files import folder_make, save
from scheduling.lab.progress import ProgressLine
from scheduling.lab.reproduction.catalogue import FIGURES, OMITTED, selection
from scheduling.lab.reproduction.describing import SCALES, Figure
from scheduling.lab.reproduction.engine import repeat
from scheduling.lab.reproduction.pictures import pictures_of
from scheduling.lab.reproduction.writing import means_csv, report, runs_csv, summary, verdicts_csv
from scheduling.lab.tables import table
from scheduling.management.base import FileCommand, add_processes_option, processes_of


class Command(FileCommand):
    help = (
        "Repeat comparisons that the papers published: `reproduce astraea-4a`, `reproduce oasis` for all of a paper, "
        "`reproduce all`. Says for every claim, in numbers, whether direction and size came out."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="a figure, a paper, or all")
        parser.add_argument(
            "--list", action="store_true", help="the figures there are, and those that are not repeated"
        )
        parser.add_argument(
            "--scale", choices=SCALES, default="full", help="full takes minutes a figure, small seconds (default full)"
        )
        parser.add_argument("--output", type=Path, metavar="DIR", help="write CSV files and plots (PNG, SVG) there")
        add_processes_option(parser)

    def handle(self, **options: Any) -> None:
        if options["list"]:
            there = table(["name", "paper", "what"], [[f.name, f.paper, f.title] for f in FIGURES.values()])
            rest = table(["not repeated", "paper", "why"], [[o.name, o.paper, o.reason] for o in OMITTED])
            self.stdout.write(f"{there}\n\n{rest}")
            return
        if not options["names"]:
            raise BadScenario("NAME", "name a figure, a paper, or all; `reproduce --list` has them")
        processes = processes_of(options)
        figures = selection(options["names"])
        if options["output"] is not None:
            folder_make(options["output"])
        lines = [self._one(figure, options["scale"], processes, options["output"]) for figure in figures]
        if len(lines) > 1:
            self.stdout.write("\n".join(lines))

    def _one(self, figure: Figure, scale: str, processes: int, folder: Path | None) -> str:
        """Repeat one figure, report it and write its files. Return one line about the whole."""
        with ProgressLine(figure.name, "runs") as progress:
            repeated = repeat(figure, scale, processes, progress)
        verdicts = repeated.verdicts()
        if folder is not None:
            files: dict[str, str | bytes] = {
                "runs.csv": runs_csv(repeated),
                "means.csv": means_csv(repeated),
                "verdicts.csv": verdicts_csv(repeated, verdicts),
                **pictures_of(repeated),
            }
            for name, content in files.items():
                separator = "-" if "." in name else "."
                save(folder / f"{figure.name}{separator}{name}", content)
        self.stdout.write(f"{report(repeated, verdicts)}\n")
        if broken := repeated.broken():
            raise CommandError(f"{figure.name}: {'; '.join(broken)}")
        return summary(repeated, verdicts)
