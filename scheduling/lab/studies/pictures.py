"""Pictures of a report, as SVG: x in per cent, y in px, so that they fit every width without a script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from html import escape

from scheduling.lab.studies.draws import Sure
from tenants.ledger import amounts

ROW, TOP, NAME_ABOVE = 46, 34, 14  # px: an owner's row, the first one's line, a name above its line
BEGIN, END = 2.0, 98.0  # per cent: where the scale begins and ends
HEIGHT, BASE, HEAD = 190, 150, 8  # px of a chart by day, and the span of its scale
MOST_DATES = 6
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def dots_picture(names: Sequence[str], figures: Sequence[Sure], values: Sequence[str], unseen: str) -> str:
    """Draw a dot on a line for each owner, below its name, which may be long; `values` are the numbers as markup."""
    ends = [end for figure in figures for end in (figure.low, figure.high, figure.value) if math.isfinite(end)]
    ticks = ticks_of(min([0.0, *ends]), max([0.0, *ends]))
    low, high = ticks[0], ticks[-1]

    def x(value: float) -> str:
        return f"{BEGIN + (END - BEGIN) * (value - low) / (high - low):.2f}%"

    foot = TOP + ROW * len(names)
    parts = [f'<text class="axis" x="{x(tick)}" y="{foot - 4}">{tick_text(tick)}</text>' for tick in ticks]
    for row, (name, figure, value) in enumerate(zip(names, figures, values, strict=True)):
        y, grey = TOP + ROW * row, "" if figure.is_seen else " unsure"
        if math.isfinite(figure.low):
            parts.append(f'<line class="ci{grey}" x1="{x(figure.low)}" x2="{x(figure.high)}" y1="{y}" y2="{y}"/>')
            parts += [
                f'<line class="ci{grey and " unsure-end"}" x1="{x(end)}" x2="{x(end)}" y1="{y - 5}" y2="{y + 5}"/>'
                for end in (figure.low, figure.high)
            ]
        parts.append(f'<circle class="dot{grey}" cx="{x(figure.value)}" cy="{y}" r="6"/>')
        parts[:0] = [
            f'<line class="{"one" if tick == 0 else "grid"}" x1="{x(tick)}" x2="{x(tick)}" y1="{y - 9}" y2="{y + 9}"/>'
            for tick in ticks
        ]
        doubt = f'<tspan class="note" dx="8">{unseen}</tspan>' if grey else ""
        parts.append(f'<text class="name{grey}" x="0" y="{y - NAME_ABOVE}">{escape(name)}{doubt}</text>')
        parts.append(f'<text class="val{grey}" x="100%" y="{y - NAME_ABOVE}">{value}</text>')
    label = "Hours of waiting saved by owner with intervals; the table below has the numbers"
    return f'<svg class="dots" height="{foot + 4}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def days_picture(dates: Sequence[str], line: Sequence[float], together: Sequence[Sequence[float]]) -> str:
    """Draw a line by day, and a band between the lowest and the highest of several."""
    lows, highs = [min(each) for each in together], [max(each) for each in together]
    ticks = ticks_of(min([0.0, *lows]), max([0.0, *highs]))
    band = [*_points(highs, ticks), *reversed(_points(lows, ticks))]
    paths = f'<path class="ci-band" d="M{"L".join(band)}Z"/>' + _path("band-line", line, ticks)
    return _chart(dates, ticks, [tick_text(tick) for tick in ticks], paths, "Hours saved by day, with a band")


def lines_picture(dates: Sequence[str], log: Sequence[float] | None, replay: Sequence[float]) -> str:
    """Draw two lines of parts of a whole by day."""
    ticks = [0.0, 0.5, 1.0] if max([*(log or ()), *replay, 0.0]) <= 1 else ticks_of(0.0, max([*(log or ()), *replay]))
    paths = (_path("log-line", log, ticks) if log else "") + _path("replay-line", replay, ticks)
    label = "Use of the cluster by day, as the log has it and as replayed"
    return _chart(dates, ticks, [f"{tick_text(100 * tick)} %" for tick in ticks], paths, label)


def _chart(dates: Sequence[str], ticks: Sequence[float], texts: Sequence[str], paths: str, label: str) -> str:
    heights = [_y(tick, ticks) for tick in ticks]
    axis = "".join(f'<text x="46" y="{y + 4:.1f}">{text}</text>' for y, text in zip(heights, texts, strict=True))
    grid = "".join(
        f'<line class="{"ch-grid" if tick else "ch-base"}" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        for tick, y in zip(ticks, heights, strict=True)
    )
    step = -(-len(dates) // MOST_DATES)
    days = "".join(
        f'<text class="ch-x" x="{_x(k, len(dates)):.2f}%" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{day_text(dates[k])}</text>"
        for k in range(0, len(dates), step)
    )
    return (
        f'<div class="chart"><svg class="ch-axis" width="52" height="{HEIGHT}" aria-hidden="true">{axis}</svg>'
        f'<svg class="ch-plot" width="100%" height="{HEIGHT}" role="img" aria-label="{label}">{grid}'
        f'<svg width="100%" height="{HEIGHT}" viewBox="0 0 100 {HEIGHT}" preserveAspectRatio="none">{paths}</svg>'
        f"{days}</svg></div>"
    )


def _path(kind: str, values: Sequence[float], ticks: Sequence[float]) -> str:
    return f'<path class="{kind}" d="M{"L".join(_points(values, ticks))}"/>'


def _points(values: Sequence[float], ticks: Sequence[float]) -> list[str]:
    return [f"{_x(k, len(values)):.2f} {_y(value, ticks):.1f}" for k, value in enumerate(values)]


def _x(day: int, days: int) -> float:
    return 100 * (day + 0.5) / days


def _y(value: float, ticks: Sequence[float]) -> float:
    return BASE - (BASE - HEAD) * (value - ticks[0]) / (ticks[-1] - ticks[0])


def ticks_of(low: float, high: float) -> list[float]:
    """Return three to seven round numbers around a span that contains zero."""
    span = high - low or 1.0
    size = 10 ** math.floor(math.log10(span / 4))
    step = next(size * part for part in (1, 2, 5, 10, 20) if span / (size * part) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * k for k in range(first, max(last, first + 1) + 1)]


def day_text(day: str) -> str:
    """Return 1 Oct for 2026-10-01."""
    date_shown = date.fromisoformat(day)
    return f"{date_shown.day} {MONTHS[date_shown.month - 1]}"


def tick_text(tick: float) -> str:
    """Return a round number of an axis as text."""
    text = f"{tick:,.10g}" if abs(tick) < 1e9 else f"{tick:.2g}"
    return text.replace("-", "−").replace(",", amounts.THOUSANDS)
