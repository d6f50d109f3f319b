"""Puts the times of many answers into one line of the bench."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def figure(name: str, sample: Mapping[str, Any], target: str, *, calls: int) -> dict[str, Any]:
    """Return a line of the bench. `found` has the sorted milliseconds and the statuses. `calls` is the number of all
    answers, with those that were not timed."""
    times = sample["times"]
    detail = {
        "fastest_ms": round(times[0], 1),  # what is left of a machine that others use too
        "median_ms": round(times[len(times) // 2], 1),
        "slowest_ms": round(times[-1], 1),
        "answers": len(times),
        "statuses": list(sample["statuses"]),
        "load": round(os.getloadavg()[0], 1),
        "calls": calls,
    }
    return plain(f"{name}, p95", round(times[min(int(0.95 * len(times)), len(times) - 1)], 1), "ms", target, detail)


def plain(name: str, value: float, unit: str, target: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "detail": dict(detail)}
