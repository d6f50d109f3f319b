"""Curves of a program's numbers as server-made drawings: lengths in per cent of their boxes."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.jobs.read_numbers import NumbersView, Series

MARGIN = 6.0  # per cent left free above the highest value and below the lowest


@dataclass(frozen=True)
class NumberPicture:
    """The curve of one number. `path` is empty where there is one value alone."""

    name: str
    last: float
    least: float
    most: float
    count: int
    path: str


def number_pictures(view: NumbersView | None) -> list[NumberPicture]:
    """Return a picture of each number, from its first value to its last."""
    return [_picture(series) for series in view.series] if view else []


def _picture(series: Series) -> NumberPicture:
    times = [point.at.timestamp() for point in series.points]
    values = [point.value for point in series.points]
    least, most = min(values), max(values)
    # We take halves, since the difference of two numbers of a stranger may be too large for a float.
    span, height = max(times[-1] - times[0], 1e-9), (most / 2 - least / 2) or 1.0
    places = [
        (100.0 * (at - times[0]) / span, 100.0 - MARGIN - (100.0 - 2 * MARGIN) * (value / 2 - least / 2) / height)
        for at, value in zip(times, values, strict=True)
    ]
    path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in places) if len(places) > 1 else ""
    return NumberPicture(series.name, values[-1], least, most, len(values), path)
