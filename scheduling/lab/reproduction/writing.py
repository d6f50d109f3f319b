"""Writing the results of a repeated figure: every run and the means as CSV, and its verdicts in words."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.lab.comparison import csv_text
from scheduling.lab.reproduction.engine import Repeated
from scheduling.lab.reproduction.judging import ClaimVerdict
from scheduling.lab.reproduction.measuring import MEASURES
from scheduling.lab.tables import table


def runs_csv(repeated: Repeated) -> str:
    """Return a row for each run."""
    figure = repeated.figure
    rows = [
        [
            figure.name,
            figure.lines[point.line].label,
            repeated.scale.values[point.value],
            point.seed,
            *(figures[measure] for measure in figure.measures),
        ]
        for point, figures in zip(repeated.points, repeated.figures, strict=True)
    ]
    return csv_text(["figure", "line", figure.swept, "seed", *figure.measures], rows)


def means_csv(repeated: Repeated) -> str:
    """Return a row for each point of each curve: the mean over the seeds and its standard deviation."""
    figure = repeated.figure
    rows: list[Sequence[object]] = []
    for place, line in enumerate(figure.lines):
        for value, x in enumerate(repeated.scale.values):
            column = repeated.column(place, value)
            numbers = [n for m in figure.measures for n in (column.mean(m), column.spread(m))]
            rows.append([figure.name, line.label, x, repeated.scale.seeds, *numbers])
    header = [name for measure in figure.measures for name in (measure, f"{measure}_spread")]
    return csv_text(["figure", "line", figure.swept, "seeds", *header], rows)


def verdicts_csv(repeated: Repeated, verdicts: Sequence[ClaimVerdict]) -> str:
    """Return a row for each claim."""
    rows = [
        [
            repeated.figure.name,
            verdict.outcome,
            verdict.claim.words,
            verdict.claim.number,
            verdict.ours,
            verdict.spread,
            verdict.claim.unless,
        ]
        for verdict in verdicts
    ]
    return csv_text(["figure", "outcome", "claim", "paper", "ours", "spread", "unless"], rows)


def report(repeated: Repeated, verdicts: Sequence[ClaimVerdict]) -> str:
    """Return the text for the screen: a table for each measure, the verdict on each claim, and one line on the
    whole."""
    figure = repeated.figure
    parts = [f"{figure.name}: {figure.paper}. {figure.title}."]
    if figure.note:
        parts.append(figure.note)
    for measure in figure.measures:
        rows = [
            [line.label, *(repeated.column(place, value).text(measure) for value in range(len(repeated.scale.values)))]
            for place, line in enumerate(figure.lines)
        ]
        headers = [f"{MEASURES[measure].title}, by {figure.axis}", *(f"{value:,g}" for value in repeated.scale.values)]
        parts.append(table(headers, rows, figures_after=1))
    parts += [f"  {verdict.line}" for verdict in verdicts]
    broken = repeated.broken()
    parts += [f"  broken: {line}" for line in broken]
    if figure.checks and not broken:
        parts.append(f"  checked in every run: {'; '.join(dict.fromkeys(check.words for check in figure.checks))}")
    return "\n".join([*parts, summary(repeated, verdicts)])


def summary(repeated: Repeated, verdicts: Sequence[ClaimVerdict]) -> str:
    """Return the line that says how many claims came out."""
    held = sum(verdict.came_out for verdict in verdicts)
    return f"{repeated.figure.name}: {held} of {len(verdicts)} claims came out ({repeated.scale.seeds} seeds)."
