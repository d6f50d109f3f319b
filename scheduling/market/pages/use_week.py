"""Compute how busy units are by weekday and hour, as the mean of some weeks. Hours are those of the reader's zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from scheduling.market.pages.use_picture import SHADES
from scheduling.market.reads.use import UseColumn, hour_of

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS = 24
ROW, FOOT = 19, 22  # pixels
LABELLED = 6  # every sixth hour has a label below
QUARTER = timedelta(minutes=15)  # all zones differ from UTC by multiples of this


@dataclass(frozen=True)
class WeekCell:
    """One hour of one weekday. `percent` is None if nothing was counted in it."""

    weekday: int
    hour: int
    percent: int | None

    @property
    def x(self) -> str:
        return f"{100 * self.hour / HOURS:.3f}"

    @property
    def shade(self) -> str:
        """The class of the shade, h0 to h4; empty where nothing was counted."""
        return "" if self.percent is None else f"h{min(SHADES * self.percent // 100, SHADES - 1)}"

    @property
    def words(self) -> str:
        return f"{WEEKDAYS[self.weekday]} {self.hour:02}:00 to {(self.hour + 1) % HOURS:02}:00, {self.percent} %"


@dataclass(frozen=True)
class WeekRow:
    name: str
    y: int
    cells: tuple[WeekCell, ...]  # one for each hour


@dataclass(frozen=True)
class Week:
    rows: tuple[WeekRow, ...]
    most: WeekCell
    least: WeekCell

    @property
    def by_hour(self) -> list[tuple[str, list[WeekCell]]]:
        """The rows of a table: each hour, and its cell of each day."""
        return [(f"{hour:02}:00", [row.cells[hour] for row in self.rows]) for hour in range(HOURS)]

    height = len(WEEKDAYS) * ROW + FOOT
    step = ROW
    width = f"{100 / HOURS - 0.2:.3f}"
    labels = tuple((f"{100 * hour / HOURS:.2f}", f"{hour:02}:00") for hour in range(0, HOURS, LABELLED))
    shades = tuple(
        (f"h{number}", f"{number * 100 // SHADES} to {(number + 1) * 100 // SHADES} %") for number in range(SHADES)
    )


def week_of(columns: Sequence[UseColumn], *, parts: Sequence[str], zone: tzinfo) -> Week | None:
    """Compute from hours of one resource how much of the capacity these parts took. A slot longer than an hour counts
    in each hour that it covers. Return None if nothing is counted, or there was no capacity."""
    use: defaultdict[tuple[int, int], float] = defaultdict(float)
    there: defaultdict[tuple[int, int], float] = defaultdict(float)
    for column in columns:
        used, capacity = (column.units(sum(column.parts[name] for name in parts)), column.units(column.capacity))
        for place, seconds in _places(column, zone):
            use[place] += used * seconds
            there[place] += capacity * seconds
    cells = [
        [_cell(weekday, hour, use[weekday, hour], there[weekday, hour]) for hour in range(HOURS)]
        for weekday in range(len(WEEKDAYS))
    ]
    counted = [cell for row in cells for cell in row if cell.percent is not None]
    if not counted:
        return None
    rows = tuple(WeekRow(name, number * ROW, tuple(cells[number])) for number, name in enumerate(WEEKDAYS))
    # Among equal cells the first of the week is named.
    return Week(
        rows, max(counted, key=lambda cell: cell.percent or 0), min(counted, key=lambda cell: cell.percent or 0)
    )


def _places(column: UseColumn, zone: tzinfo) -> list[tuple[tuple[int, int], float]]:
    """Return pairs of (weekday, hour) and the seconds of the column in it. In some zones an hour of UTC lies in two
    hours."""
    places = []
    quarter: datetime = hour_of(column.first_at)
    while quarter < column.ends_at:
        inside: timedelta = min(quarter + QUARTER, column.ends_at) - max(quarter, column.first_at)
        here = quarter.astimezone(zone)
        if inside > timedelta():
            places.append(((here.weekday(), here.hour), inside.total_seconds()))
        quarter += QUARTER
    return places


def _cell(weekday: int, hour: int, use: float, there: float) -> WeekCell:
    return WeekCell(weekday, hour, int(100 * use / there + 0.5) if there else None)
