"""`manage.py compare`: the same scenario under several policies, as a table, as CSV and as plots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from django.core.management.base import CommandParser

from scheduling.core.scenario import BadScenario
from scheduling.lab.comparison import Figures, Trial, VariantColumn, csv_text, every_policy, plan, title, trial_run
from scheduling.lab.files import folder_make, save
from scheduling.lab.parallel import each
from scheduling.lab.plots import pictures
from scheduling.lab.progress import ProgressLine
from scheduling.lab.running import check_name
from scheduling.lab.settings import Setting, Variant, setting, variants
from scheduling.lab.tables import table
from scheduling.management.base import FileCommand, add_set_option, cores

EVERY = "all"
MOST_SEEDS = 1000
MOST_COLUMNS = 5  # the most policies that fit side by side on a screen
HEADER_WIDTH = 12  # letters, after which a figure's name is wrapped onto the next line


class Command(FileCommand):
    help = (
        "Run one scenario under several policies and compare what comes of it. With --seeds, scenarios made by "
        "`scenario synthetic` are drawn again with the next seeds, and policies that draw use the next ones of theirs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("scenario", type=Path, metavar="SCENARIO.json")
        parser.add_argument(
            "--policies",
            required=True,
            metavar="A,B,...",
            help="names, or variants: astraea[mode=guarantee,theta.worker=2]; the file's own policy keeps its fields; "
            "all: every policy that the scenario can do with",
        )
        parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of what depends on a seed")
        add_set_option(parser, "a field for one policy (astraea.theta.worker=2) or for all (policy.seed=3)")
        parser.add_argument("--output", type=Path, metavar="DIR", help="write CSV files and plots (PNG, SVG) there")

    def handle(self, **options: Any) -> None:
        everything = options["policies"] == EVERY
        compared, left_out = every_policy(options["scenario"]) if everything else (variants(options["policies"]), [])
        for variant in compared:
            check_name(variant.name, "--policies")
        if not 1 <= options["seeds"] <= MOST_SEEDS:
            raise BadScenario("--seeds", f"must be 1 to {MOST_SEEDS:,}, not {options['seeds']}")
        trials = plan(options["scenario"], compared, _changes(options["changes"], compared), options["seeds"])
        if options["output"] is not None:
            folder_make(options["output"])
        with ProgressLine("comparing", "runs") as progress:
            runs = each(trial_run, trials, cores(), progress)
        columns = _columns(trials, runs)
        measures = list(dict.fromkeys(measure for figures in runs for measure in figures))
        heading = f"{options['scenario'].name}: {_runs(trials)}"
        if options["output"] is not None:
            _write(options["output"], heading, trials, runs, columns, measures)
        self.stdout.write(f"{heading}\n\n{_table(columns, measures)}")
        for reason in left_out:
            self.stdout.write(f"left out: {reason}")


def _changes(texts: Iterable[str], compared: Sequence[Variant]) -> Mapping[str, list[Setting]]:
    """Return the settings by the policy that they change; those under the name `policy` change every policy."""
    names = {"policy", *(variant.name for variant in compared)}
    changes: defaultdict[str, list[Setting]] = defaultdict(list)
    for text in texts:
        (policy, *path), value = setting(text)
        if policy not in names or not path:
            raise BadScenario(f"--set {text}", f"must begin with one of {', '.join(sorted(names))} and name a field")
        changes[policy].append((tuple(path), value))
    return changes


def _columns(trials: Sequence[Trial], results: Sequence[Figures]) -> list[VariantColumn]:
    """Return a column for each variant, with the figures of its trials, which are neighbours in `trials`."""
    pairs = groupby(zip(trials, results, strict=True), lambda pair: pair[0].variant.label)
    return [VariantColumn(label, [figures for _, figures in group]) for label, group in pairs]


def _runs(trials: Sequence[Trial]) -> str:
    steps = 1 + max(trial.step for trial in trials)
    if steps == 1:
        return "one run each"
    what = "scenarios drawn" if trials[0].redrawn else "runs of whatever draws,"
    return f"{steps} {what} with consecutive seeds, mean ± standard deviation"


def _table(columns: Sequence[VariantColumn], measures: Sequence[str]) -> str:
    """Return a table with a row for each figure and a column for each policy, as figures have long names. If there are
    more than MOST_COLUMNS policies, each policy has a row instead."""
    if len(columns) > MOST_COLUMNS:
        rows = [[column.label, *(column.text(measure) for measure in measures)] for column in columns]
        return table(["", *(fill(title(measure), HEADER_WIDTH) for measure in measures)], rows, figures_after=1)
    rows = [[title(measure), *(column.text(measure) for column in columns)] for measure in measures]
    return table(["", *(column.label for column in columns)], rows, figures_after=1)


def _write(
    folder: Path,
    heading: str,
    trials: Sequence[Trial],
    figures: Sequence[Figures],
    columns: Sequence[VariantColumn],
    measures: Sequence[str],
) -> None:
    files: dict[str, str | bytes] = {
        "compare.csv": _compare_csv(columns, measures),
        "runs.csv": _runs_csv(trials, figures, measures),
        **{f"compare.{form}": content for form, content in pictures(heading, columns, measures).items()},
    }
    for name, content in files.items():
        save(folder / name, content)


def _compare_csv(columns: Sequence[VariantColumn], measures: Sequence[str]) -> str:
    header = ["policy", "runs", *(f"{_key(m)}{suffix}" for m in measures for suffix in ("", "_spread"))]
    rows = [
        [column.label, len(column.runs), *(n for m in measures for n in (column.mean(m), column.spread(m)))]
        for column in columns
    ]
    return csv_text(header, rows)


def _runs_csv(trials: Sequence[Trial], results: Sequence[Figures], measures: Sequence[str]) -> str:
    rows = [
        [trial.variant.label, trial.step, *(figures.get(measure) for measure in measures)]
        for trial, figures in zip(trials, results, strict=True)
    ]
    return csv_text(["policy", "seed_step", *map(_key, measures)], rows)


def _key(measure: str) -> str:
    return measure.replace(" ", "_")
