"""`manage.py lab STUDY.yaml --output DIR`: decide a cluster's past again under other rules, and report to whom it
would have been worth what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from scheduling.lab.files import folder_make, save
from scheduling.lab.histories.history import History
from scheduling.lab.parallel import each
from scheduling.lab.progress import ProgressLine
from scheduling.lab.studies.figures import figures_of
from scheduling.lab.studies.replays import ReplayTask, replay_make, replay_read, rules_check
from scheduling.lab.studies.report import answer_line, counts_line, report
from scheduling.lab.studies.study import history_read, study_read
from scheduling.management.base import FileCommand, add_processes_option, processes_of, several

FEW_LINES = 20


class Command(FileCommand):
    help = (
        "Decide the log of a cluster again: everybody alone, shared, with a market; say in hours and credits who would "
        "have won and lost, and how surely. Stopped, it goes on where it was."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", type=Path, metavar="STUDY.yaml")
        parser.add_argument(
            "--output", type=Path, required=True, metavar="DIR", help="report.html, figures.csv and finished replays"
        )
        add_processes_option(parser)

    def handle(self, **options: Any) -> None:
        processes = processes_of(options)
        study = study_read(options["study"])
        history = history_read(study, options["study"].parent)
        self._read(history)
        rules_check(history, study)
        replays = options["output"] / "replays"
        folder_make(replays)
        tasks = {
            (rule.name, worth): ReplayTask(
                history, study, rule, worth, replays / f"{study.replay_digest(rule, worth)}.npz"
            )
            for rule in study.rules
            for worth in study.worths_of(rule)
        }
        missing = {task.path: task for task in tasks.values() if not task.path.exists()}  # tasks may share a replay
        whole = several(len(tasks), "replay")
        self.stdout.write(f"{len(missing)} of {whole} to make; whoever stops it keeps those that are done")
        self.stdout.flush()
        with ProgressLine("replaying", "replays") as progress:
            each(replay_make, list(missing.values()), processes, progress)
        figures = figures_of(study, history, {name: replay_read(task.path) for name, task in tasks.items()})
        save(options["output"] / "figures.csv", figures.csv())
        save(options["output"] / "report.html", report(study, history, figures))
        self.stdout.write(answer_line(study, history, figures))
        if counts := counts_line(study, figures):
            self.stdout.write(counts)
        them = "it" if len(tasks) == 1 else "them"
        self.stdout.write(f"{options['output'] / 'report.html'}: {whole}, {len(missing)} of {them} made now")

    def _read(self, history: History) -> None:
        """Print what was read, and the first FEW_LINES lines that could not be read."""
        self.stdout.write(
            f"{several(len(history.jobs), 'job')} of {several(len(history.owners), 'owner')} in {history.days:,} days, "
            f"{several(history.units, 'unit')} on {several(len(history.machines), 'machine')}"
        )
        for note in (*history.notes, *(f"left out: {why} ({n:,})" for why, n in (history.left_out or {}).items())):
            self.stdout.write(f"  note: {note}")
        for bad in history.bad[:FEW_LINES]:
            self.stdout.write(f"  line {bad.number} {bad.why}")
        if len(history.bad) > FEW_LINES:
            self.stdout.write(f"  and {several(len(history.bad) - FEW_LINES, 'more line')} that cannot be read")
