"""Read what a program of people's own reports of itself: every number by its name, over all runs of its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.jobs.read_run import home_of, moment_of, number_of, records, thinned
from scheduling.models import Run

MOST_SERIES = 12  # numbers that are drawn; of others only the newest value is shown
COUNTERS = ("step", "epoch", "of")  # they say how far it is, and make no curve


@dataclass(frozen=True)
class NumberPoint:
    """A value, and when it was read."""

    at: datetime
    value: float


@dataclass(frozen=True)
class Series:
    """One number over time. Where several processes report it, these are the values of the first."""

    name: str
    points: tuple[NumberPoint, ...]

    @property
    def last(self) -> float:
        """Return the newest value."""
        return self.points[-1].value


@dataclass(frozen=True)
class NumbersView:
    """The numbers of a program. `done` of `of` counts `unit`s: steps, or epochs where it reports no steps. `address` is
    where it can be watched, as the program says itself."""

    series: tuple[Series, ...]
    others: tuple[tuple[str, float], ...]
    done: float | None
    of: float | None
    unit: str
    bad_lines: int
    address: str

    @property
    def share(self) -> float:
        """Return the share of the work that is done, in per cent."""
        if self.done is None or not self.of or self.of <= 0:
            return 0.0
        return min(max(100.0 * self.done / self.of, 0.0), 100.0)


def numbers_view(runs: Sequence[Run]) -> NumbersView | None:
    """Return the numbers of a job's runs, which come newest first. Return None if its program has reported nothing yet,
    or is built in."""
    progress = next((run.progress for run in runs if "numbers" in run.progress), None)
    if progress is None:
        return None
    numbers: Mapping[str, float] = progress["numbers"]
    series = [each for each in series_of(runs) if each.name not in COUNTERS]
    series.sort(key=lambda each: (each.name != "loss", each.name))
    names = {each.name for each in series[:MOST_SERIES]}
    unit = next((name for name in ("step", "epoch") if name in numbers), "")
    return NumbersView(
        series=tuple(series[:MOST_SERIES]),
        others=tuple((name, value) for name, value in sorted(numbers.items()) if name not in {*COUNTERS, *names}),
        done=numbers.get(unit),
        of=numbers.get("of"),
        unit=unit,
        bad_lines=progress.get("bad_lines", 0),
        address=progress.get("url", ""),
    )


def series_of(runs: Sequence[Run]) -> list[Series]:
    """Return every number that was reported, by name, with the points of all runs in the order of time."""
    series: dict[str, dict[tuple[str, int], list[NumberPoint]]] = {}
    for run in sorted(runs, key=lambda each: each.pk):
        for row in records().progress(home_of(run), run.key):
            for name, point in _points(row):
                rank = row.get("rank")
                process = "" if row.get("role") == "worker" else str(row.get("role")), rank if type(rank) is int else 0
                series.setdefault(name, {}).setdefault(process, []).append(point)
    return [Series(name, thinned(processes[min(processes)])) for name, processes in series.items()]


def _points(row: Mapping[str, Any]) -> list[tuple[str, NumberPoint]]:
    if row["event"] != "numbers" or not isinstance(row.get("numbers"), Mapping):
        return []
    try:
        at = moment_of(row["at"])
        return [(str(name), NumberPoint(at, number_of(value))) for name, value in row["numbers"].items()]
    except (KeyError, TypeError, ValueError, OverflowError):
        return []
