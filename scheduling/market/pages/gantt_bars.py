"""Compute the bars of the chart of servers over time, and the names on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.cluster import ServerView
from scheduling.market.reads.bookings import HOME, LENT, OTHER, RENTED, BookedUnits
from scheduling.models import Pool
from scheduling.reasons import slot_clock

WORKERS, PS = (5.0, 36.0), (43.0, 5.0)  # px (top, height) of a server's two bands within its row
_LEAST_WORDS = 12.0  # px of height that a name needs
_LEAST_WIDTH = 6.0  # per cent of the chart that some letters of it need; where it is longer, the page cuts it


@dataclass(frozen=True)
class GanttBar:
    """One bar. `kind` is home | rented | lent | other | planned. `label` names the job only where the reader may know
    it.
    """

    kind: str
    x: float
    width: float
    y: float
    height: float
    radius: int
    label: str
    job_id: int | None


@dataclass(frozen=True)
class Words:
    kind: str
    text: str
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True)
class BarSpan:
    first: int
    last: int

    def x(self, slot: float) -> float:
        inside = min(max(slot, self.first), self.last)
        return round(100 * (inside - self.first) / (self.last - self.first), 3)


def bars_of(
    server: ServerView, top_of_row: float, bookings: Sequence[BookedUnits], span: BarSpan, pool: Pool
) -> Iterator[tuple[GanttBar, BookedUnits]]:
    for index, (top, height) in enumerate((WORKERS, PS)):
        units = server.capacities[index].units if index < len(server.capacities) else 0
        counts = [(booking, booking.workers if index == 0 else booking.ps) for booking in bookings]
        lanes = _lanes([(booking, count) for booking, count in counts if count])
        most = max(units, max((last for _, last, _ in lanes), default=0), 1)
        unit = height / most
        for first, last, booking in lanes:
            gap = 1.0 if unit * (last - first) > 3 else 0.25
            yield (
                GanttBar(
                    kind="planned" if booking.planned and booking.relation in (HOME, RENTED) else booking.relation,
                    x=span.x(booking.start),
                    width=round(span.x(booking.end) - span.x(booking.start), 3),
                    y=round(top_of_row + top + first * unit, 2),
                    height=round(max((last - first) * unit - gap, 1.0), 2),
                    radius=3 if index == 0 else 1,
                    label=_label(booking, server.name, index, last - first, pool),
                    job_id=booking.job_id if index == 0 else None,
                ),
                booking,
            )


def _lanes(bookings: Sequence[tuple[BookedUnits, int]]) -> list[tuple[int, int, BookedUnits]]:
    """Return (first unit, last unit, booking): the bookings on rows of units, so that no unit has two at a time.

    In the order of their starts, each booking takes the lowest units whose last booking is over. So there are only as
    many units as are ever busy at once. A booking whose units are not adjacent is drawn in pieces.
    """
    over: list[int] = []  # for each unit, when its last booking ends
    blocks = []
    for booking, count in sorted(bookings, key=lambda one: (one[0].start, -one[1])):
        free = [unit for unit, end in enumerate(over) if end <= booking.start][:count]
        while len(free) < count:
            free.append(len(over))
            over.append(booking.start)
        for unit in free:
            over[unit] = booking.end
        blocks += [(first, last, booking) for first, last in _runs(free)]
    return blocks


def _runs(units: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = previous = units[0]
    for unit in units[1:]:
        if unit != previous + 1:
            yield first, previous + 1
            first = unit
        previous = unit
    yield first, previous + 1


def _label(booking: BookedUnits, server: str, index: int, units: int, pool: Pool) -> str:
    what = ("worker", "parameter server")[index] + ("" if units == 1 else "s")
    when = f"{slot_clock(pool, booking.start)} to {slot_clock(pool, booking.end)}"
    return f"{booking.name or 'another tenant'}: {units} {what} on {server}, {when}"


def word_of(bar: GanttBar, booking: BookedUnits, span: BarSpan, at: float) -> Words | None:
    """Return the name to write on a bar, on the part right of "now", or None if there is no room for it."""
    if bar.radius != 3 or bar.height < _LEAST_WORDS or booking.relation == OTHER:
        return None
    x = max(span.x(at), bar.x) if booking.start <= at else bar.x
    width = bar.x + bar.width - x
    if width < _LEAST_WIDTH:
        return None
    text = "lent" if booking.relation == LENT else booking.name + (", planned" if bar.kind == "planned" else "")
    return Words(bar.kind, text, x, round(width, 3), bar.y, bar.height)
