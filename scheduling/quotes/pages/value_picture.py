"""Draw what a job is worth over time as a curve: lengths are in per cent of its box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.scenario.fields import BadScenario
from scheduling.core.scenario.jobs import read_value
from tenants.ledger.amounts import micro, shown

POINTS = 96
HIGHEST = 1e12  # credits, the most that is drawn; a curve may rise beyond every number
TOP = 6.0  # per cent left free above the highest value


@dataclass(frozen=True)
class Mark:
    """A moment on the curve: slots after submission, and what an end at that moment is worth."""

    label: str
    elapsed: float
    worth: float
    x: float
    y: float


@dataclass(frozen=True)
class ValuePicture:
    path: str
    marks: tuple[Mark, ...]
    slots: float  # the width of the box
    top: float  # credits
    summary: str


def value_picture(value: Mapping[str, Any], ends: Mapping[str, float]) -> ValuePicture | None:
    """Return the curve, or None where the value cannot be read. `ends` maps the name of each end in question to slots
    after submission."""
    try:
        worth = read_value(value, "value")
    except BadScenario:
        return None
    slots = _width(value, list(ends.values()))
    elapsed = np.linspace(slots / POINTS, slots, POINTS)
    heights = np.maximum(np.nan_to_num(np.asarray(worth(elapsed), float), posinf=HIGHEST), 0.0)
    top = float(heights.max()) or 1.0
    points = [(100 * x / slots, _y(height, top)) for x, height in zip(elapsed, heights, strict=True)]
    path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in [(0.0, points[0][1]), *points])
    marks = tuple(
        Mark(
            label, end, float(worth(max(end, 1e-9))), 100 * end / slots, _y(max(float(worth(max(end, 1e-9))), 0.0), top)
        )
        for label, end in ends.items()
    )
    sentence = "; ".join(
        f"{mark.label}: {_credits(mark.worth)} credits after {mark.elapsed:.0f} slots" for mark in marks
    )
    summary = f"Worth over time, from {_credits(top)} credits to {_credits(float(heights[-1]))} after {slots:.0f} slots"
    return ValuePicture(path, marks, slots, top, f"{summary}. {sentence}." if sentence else f"{summary}.")


def _width(value: Mapping[str, Any], ends: list[float]) -> float:
    """Return a width that shows every end, and also where the value has fallen, unless that would crowd the ends."""
    base, slope = float(value.get("base", 0)), -float(value.get("slope", 0))
    natural = {
        "linear": base / slope if slope > 0 else 0.0,
        "deadline": 1.4 * float(value.get("deadline", 0)),
        "sigmoid": 2.0 * float(value.get("target", 0)),
    }.get(str(value["kind"]).removesuffix("_until"), 0.0)
    latest = max(ends, default=0.0)
    most = 6.0 * latest if latest else natural
    return max(1.3 * latest, min(natural, most), 4.0)


def _credits(worth: float) -> str:
    return shown(micro(min(max(worth, -HIGHEST), HIGHEST)))


def _y(height: float, top: float) -> float:
    return 100.0 - (100.0 - TOP) * min(height / top, 1.0)
