"""Draw what a job pays for each slot as bars: widths are in per cent of the drawing, heights in pixels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from scheduling.jobs.read_slots import RETURNED, SETTLED, SlotTable

HEIGHT, FOOT, HEAD = 200.0, 34.0, 18.0  # heights: of the whole drawing, for the times below, for the amounts above
DAYS = 14.0  # for the days below the times, where there are any
MOST_LABELS = 6  # times with seconds stand side by side in the narrowest column
MOST_BARS = 240


@dataclass(frozen=True)
class JobBar:
    x: float
    width: float
    y: float
    height: float
    middle: float
    above: float  # y of the amount
    paid: int
    at: datetime
    state: str
    label: bool
    day: str  # the day, at the first time of a day that is not today


@dataclass(frozen=True)
class JobBars:
    bars: tuple[JobBar, ...]
    height: float
    base: float
    summary: str


def slot_bars(table: SlotTable) -> JobBars | None:
    """Return the bars. Return None where there are more slots than can be told apart, which the table still shows."""
    rows = table.rows
    if not rows or len(rows) > MOST_BARS:
        return None
    step, top = 100.0 / len(rows), max(row.paid for row in rows) or 1
    every = -(-len(rows) // MOST_LABELS)
    base, bars, day = HEIGHT - FOOT, [], timezone.localdate()
    for place, row in enumerate(rows):
        height, gap = (base - HEAD) * row.paid / top, 0.18 * step
        label, at = place % every == 0, timezone.localtime(row.at)
        is_new, day = label and at.date() != day, at.date() if label else day
        bars.append(
            JobBar(
                x=place * step + gap,
                width=step - 2 * gap,
                y=base - height,
                height=height,
                middle=(place + 0.5) * step,
                above=base - height - 5,
                paid=row.paid,
                at=row.at,
                state=row.state,
                label=label,
                day=f"{at.day} {at:%b}" if is_new else "",
            )
        )
    has_days = any(bar.day for bar in bars)
    return JobBars(tuple(bars), HEIGHT + DAYS * has_days, base, _summary(table))


def _summary(table: SlotTable) -> str:
    settled = sum(row.state == SETTLED for row in table.rows)
    returned = sum(row.state == RETURNED for row in table.rows)
    rest = f", {returned} returned" if returned else ""
    return f"Payment in {len(table.rows)} slots, {settled} of them settled{rest}; numbers in the table"
