"""Compute the shapes of use over time: bands of units with the price above them, a heat map of servers, and a table.

x is per cent of the drawing, y is pixels; no script is needed. The numbers in a table add up as shown: the parts of a
row are rounded so that they sum to its capacity, and the last row is the sum of the rows shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from scheduling.market.reads.use import MILLIONTHS, GroupUse, UseColumn
from tenants.common.zones import day_of, midnight
from tenants.ledger.split import split

HOUR = timedelta(hours=1)
CENTS = 100  # in a unit-hour; a table shows no finer amounts
UPPER_HEIGHT, GAP, FOOT = 54, 22, 26
MOST_ROWS = 40  # rows of a heat map
SHADES = 5
FILLS = {
    "used": "u-own",
    "lent": "url(#dots)",
    "rented": "url(#hatch)",
    "unsold": "k-idle-area",
    "down": "url(#cross)",
}


@dataclass(frozen=True)
class Rect:
    name: str
    x: float
    width: float
    y: float
    height: float

    @property
    def fill(self) -> str:
        """The fill of a pattern; empty where a class sets the fill."""
        return FILLS[self.name] if FILLS[self.name].startswith("url") else ""

    @property
    def kind(self) -> str:
        return "" if self.fill else FILLS[self.name]


@dataclass(frozen=True)
class AxisTick:
    y: float
    label: float

    @property
    def text_y(self) -> float:
        return self.y + 4


@dataclass(frozen=True)
class TimeTick:
    x: float
    at: datetime
    anchor: str
    minor: bool


@dataclass(frozen=True)
class UsePicture:
    height: int
    rects: tuple[Rect, ...]
    ticks: tuple[AxisTick, ...]
    price_ticks: tuple[AxisTick, ...]
    times: tuple[TimeTick, ...]
    caps: tuple[tuple[float, float, float], ...]  # lines (x from, x to, y) at what is owned, below rented units
    base: float
    upper_base: float
    price_line: str  # in a drawing of 100 by its height

    @property
    def text_y(self) -> float:
        return self.base + 18

    @property
    def price_area(self) -> str:
        """The area below the line; empty unless the line begins at the left and is unbroken."""
        whole = self.price_line.startswith("M0 ") and self.price_line.count("M") == 1
        return f"{self.price_line}V{self.upper_base:g}H0Z" if whole else ""


@dataclass(frozen=True)
class UseTableRow:
    """One row, in hundredths of unit-hours. `parts` add up to `capacity`."""

    starts_at: datetime | None
    capacity: int
    parts: tuple[int, ...]
    rented: int
    price: float | None


@dataclass(frozen=True)
class HeatCell:
    """One cell of a heat map. Its fields are texts already, because a picture has a thousand cells."""

    x: str
    width: str
    shade: str  # h0 .. h4, or "down"
    percent: str  # use of the units that were up; a dash if none was


@dataclass(frozen=True)
class HeatRow:
    name: str
    y: int
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True)
class Heat:
    rows: tuple[HeatRow, ...]
    hours: tuple[datetime, ...]
    height: int
    step: int
    times: tuple[TimeTick, ...]
    each: int  # servers in a row, at most

    @property
    def shades(self) -> tuple[tuple[str, str], ...]:
        """The shades with their words, for the legend."""
        width = 100 // SHADES
        steps = ((f"h{number}", f"{number * width} to {(number + 1) * width} %") for number in range(SHADES))
        return (*steps, ("down", "down"))


def use_picture(
    columns: Sequence[UseColumn], *, first: datetime, end: datetime, order: Sequence[str], own: bool, height: int,
    with_price: bool,
) -> UsePicture:  # fmt: skip
    """Return the picture. `order` is that of the bands, from below. With `own`, rented units are drawn above the owned
    ones. `height` is that of the bands."""
    prices = [column.price for column in columns if column.price is not None]
    with_price = with_price and bool(prices)
    top = 8 + (UPPER_HEIGHT + GAP if with_price else 0)
    base = top + height
    most = max((column.units(column.capacity + (column.rented if own else 0)) for column in columns), default=0.0)
    scale = height / most if most else 0.0
    rects: list[Rect] = []
    caps: list[tuple[float, float, float]] = []
    for column in columns:
        x, width = _place(column, first, end)
        bands = [(name, column.parts[name]) for name in order] + ([("rented", column.rented)] if own else [])
        reached = 0
        for name, amount in bands:
            low, high = (base - scale * column.units(total) for total in (reached, reached + amount))
            reached += amount
            if low - high >= 0.05:
                rects.append(Rect(name, x, width, round(high, 1), round(low - high, 1)))
        caps.append((x, x + width, round(base - scale * column.units(column.capacity), 1)))
    highest = max(prices, default=0.0)
    return UsePicture(
        height=base + FOOT,
        rects=_merged(rects),
        ticks=tuple(AxisTick(round(base - scale * value, 1), value) for value in _steps(most)),
        price_ticks=tuple(AxisTick(8.0 + UPPER_HEIGHT * (1 - part), highest * part) for part in (0.0, 1.0))
        if with_price and highest
        else (),
        times=_times(first, end),
        caps=_caps(caps) if own else (),
        base=base,
        upper_base=8.0 + UPPER_HEIGHT,
        price_line=_price_line(columns, first, end, highest) if with_price and highest else "",
    )


def _place(column: UseColumn, first: datetime, end: datetime) -> tuple[float, float]:
    length = (end - first).total_seconds()
    start = round(100 * (max(column.first_at, first) - first).total_seconds() / length, 3)
    over = round(100 * (min(column.ends_at, end) - first).total_seconds() / length, 3)
    return start, round(max(over - start, 0.0), 3)  # so that neighbours meet


def _merged(rects: Sequence[Rect]) -> tuple[Rect, ...]:
    """Join neighbouring rectangles of a band that have the same height."""
    merged: list[Rect] = []
    last: dict[str, int] = {}  # the last rectangle of each band
    for rect in rects:
        before = merged[last[rect.name]] if rect.name in last else None
        meets = before is not None and abs(before.x + before.width - rect.x) < 0.01
        if before is not None and meets and (before.y, before.height) == (rect.y, rect.height):
            merged[last[rect.name]] = replace(before, width=round(before.width + rect.width, 3))
        else:
            last[rect.name] = len(merged)
            merged.append(rect)
    return tuple(merged)


def _caps(caps: Sequence[tuple[float, float, float]]) -> tuple[tuple[float, float, float], ...]:
    lines: list[tuple[float, float, float]] = []
    for start, over, y in caps:
        if lines and lines[-1][2] == y and abs(lines[-1][1] - start) < 0.01:
            lines[-1] = (lines[-1][0], over, y)
        else:
            lines.append((start, over, y))
    return tuple(lines)


def _steps(most: float) -> list[float]:
    """Return at most five round numbers, from zero on."""
    if most <= 0:
        return [0.0]
    step = next(size * 10**power for power in range(-2, 12) for size in (1, 2, 5) if most / (size * 10**power) <= 4)
    return [number * step for number in range(int(most / step) + 1)]


def _times(first: datetime, end: datetime) -> tuple[TimeTick, ...]:
    """Return about eight ticks; every second one may be left out where there is little room. Ticks of days are at the
    beginning of the reader's days, which are longer or shorter when clocks change."""
    hours = (end - first) / HOUR
    step = next(size for size in (1, 3, 6, 12, 24, 96, 24 * 365) if hours / size <= 9)
    day, ticks = day_of(first), list[TimeTick]()
    for number in range(int(hours // step) + 2):
        at = first + number * step * HOUR
        if step % 24 == 0 and first == midnight(day):
            at = midnight(day + timedelta(hours=number * step))
        if at > end:
            break
        x = 100 * ((at - first) / HOUR) / hours
        anchor = "start" if number == 0 else "end" if x > 97 else "middle"
        ticks.append(TimeTick(round(x, 3), at, anchor, number % 2 == 1))
    return tuple(ticks)


def _price_line(columns: Sequence[UseColumn], first: datetime, end: datetime, highest: float) -> str:
    """Return prices as a path of steps, since a price holds for its whole slot. Where none was posted the line is
    broken.
    """
    path, was = [], None
    for column in columns:
        x, width = _place(column, first, end)
        if column.price is not None:
            part = column.price / highest
            y = round(8 + UPPER_HEIGHT * (1 - part), 2)
            path.append(f"{'V' if was == x else f'M{x:.7g} '}{y:g}H{round(x + width, 3):.7g}")
        was = round(x + width, 3) if column.price is not None else None
    return "".join(path)


def use_table(
    columns: Sequence[UseColumn], *, order: Sequence[str], slot_seconds: int
) -> tuple[tuple[UseTableRow, ...], UseTableRow]:
    """Return the rows of the table, and the sum of the rows as they are shown."""
    rows = tuple(_row(column, order, slot_seconds) for column in columns)
    return rows, UseTableRow(
        starts_at=None,
        capacity=sum(row.capacity for row in rows),
        parts=tuple(sum(row.parts[index] for row in rows) for index in range(len(order))),
        rented=sum(row.rented for row in rows),
        price=None,
    )


def _row(column: UseColumn, order: Sequence[str], slot_seconds: int) -> UseTableRow:
    amounts = [column.parts[name] for name in order]
    capacity = _hundredths(column.capacity, slot_seconds)
    return UseTableRow(
        starts_at=column.starts_at,
        capacity=capacity,
        parts=split(capacity, amounts) if column.capacity else tuple(0 for _ in amounts),
        rented=_hundredths(column.rented, slot_seconds),
        price=column.price,
    )


def _hundredths(amount: int, slot_seconds: int) -> int:
    """Convert millionths of a unit, times slots, to hundredths of unit-hours, rounded half up."""
    unit = MILLIONTHS * 3600
    return (2 * amount * slot_seconds * CENTS + unit) // (2 * unit)


def percents(amounts: Sequence[int]) -> tuple[int, ...]:
    """Return the amounts in whole per cent that add up to 100, or zeros if all amounts are 0."""
    return split(100, amounts) if sum(amounts) else tuple(0 for _ in amounts)


def share_words(amount: int, share: int) -> str:
    """Return a share as it is shown: what there is at all is never "0 %"."""
    return f"{'under 1' if amount and not share else share}\N{NO-BREAK SPACE}%"


def server_groups(servers: Sequence[int]) -> list[Sequence[int]]:
    """Return the servers of each row of a heat map. If there are more than forty servers, neighbours share a row."""
    each = max(-(-len(servers) // MOST_ROWS), 1)
    return [servers[begin : begin + each] for begin in range(0, len(servers), each)]


def heat(
    uses: Sequence[GroupUse],
    *,
    groups: Sequence[Sequence[int]],
    names: Mapping[int, str],
    first: datetime,
    end: datetime,
    slot: timedelta = HOUR,
) -> Heat | None:
    """Return the heat map. `uses` are those of the groups, by group and hour; `names` are those of the servers. `slot`
    is the length of a slot: if it is longer than an hour, an hour is drawn up to the next one in which a slot
    begins."""
    if not uses:
        return None
    each = max(len(group) for group in groups)
    step = 18 if each == 1 else 14
    rows: list[HeatRow] = []
    for number, uses_of_group in groupby(uses, key=attrgetter("group")):
        group = groups[number]
        name = names[group[0]] if len(group) == 1 else f"{names[group[0]]} to {names[group[-1]]}"
        rows.append(
            HeatRow(name, len(rows) * step, tuple(_cell(use, first, end, max(slot, HOUR)) for use in uses_of_group))
        )
    hours = tuple(sorted({use.hour for use in uses}))
    return Heat(tuple(rows), hours, len(rows) * step + 20, step, _times(first, end), each)


def _cell(use: GroupUse, first: datetime, end: datetime, each: timedelta) -> HeatCell:
    up, length = use.capacity - use.down, end - first
    shade = f"h{min(SHADES * use.taken // up, SHADES - 1)}" if up else "down"
    x, width = 100 * (use.hour - first) / length, 100 * min(each, end - use.hour) / length - 0.2
    percent = f"{100 * use.taken // up}" if up else "\N{EN DASH}"
    return HeatCell(f"{x:.2f}", f"{width:.2f}", shade, percent)
