"""A week of market time at full speed, and the proof that it was in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.journeys.week import SLOT_SECONDS, WEEK, everything_holds, live, make_week

NEEDS_DATABASE = True


def measure() -> Iterator[dict[str, Any]]:
    pool, tenants = make_week()
    started = time.perf_counter()
    live(pool, tenants, WEEK, on_slot=lambda slot, slots: None)
    lived = time.perf_counter()
    counted = everything_holds(pool)
    proved = time.perf_counter()
    detail = {"slots": WEEK, "slot_seconds": SLOT_SECONDS, **counted}
    yield {"name": "week_lived", "value": lived - started, "unit": "s", "target": None, "detail": detail}
    yield {"name": "week_proved", "value": proved - lived, "unit": "s", "target": None, "detail": detail}
