"""The local engine: how late its gangs begin, and how long before the end of their time they are gone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from scheduling.engines.base import ENDED, Gang, Handle, Status
from scheduling.engines.local.engine import LocalEngine
from tests.engines.local import QUICK, engine_in, gang, look, on, start

GANGS, SECONDS, LEAD = 8, 8.0, 2.5


def measure() -> Iterator[dict[str, Any]]:
    with engine_in() as engine:
        deaf = [_deaf(engine) for _ in range(GANGS)]
        late, spare = zip(*(_one(engine, number) for number in range(GANGS)), strict=True)
    detail = f"{GANGS} gangs of 2 workers, 1 parameter server and a coordinator, one after the other"
    yield {
        "name": "start after the slot, longest", "value": round(1000 * max(late)), "unit": "ms",
        "target": "<= 1000", "detail": f"{detail}; median {1000 * statistics.median(late):.0f} ms",
    }  # fmt: skip
    yield {
        "name": "gone before the end, least", "value": round(1000 * min(spare)), "unit": "ms",
        "target": ">= 0", "detail": f"{detail}; median {1000 * statistics.median(spare):.0f} ms",
    }  # fmt: skip
    yield {
        "name": "deaf to SIGTERM and gone before the end, least", "value": round(1000 * min(deaf)), "unit": "ms",
        "target": ">= 0", "detail": f"{GANGS} of them, one by one; median {1000 * statistics.median(deaf):.0f} ms",
    }  # fmt: skip


def _deaf(engine: LocalEngine) -> float:
    """Run a gang that ignores SIGTERM and has to be killed. Return the seconds from its end to the end of its time."""
    deaf_gang = gang("naughty", {"sin": "deaf"}, seconds=SECONDS)
    return deaf_gang.end_at - (_ended(engine, start(engine, deaf_gang), deaf_gang).ended_at or 0.0)


def _one(engine: LocalEngine, number: int) -> tuple[float, float]:
    """Run one gang. Return the seconds from its slot to its start, and from its end to the end of its time."""
    slot = time.time() + LEAD
    parts = ((slot, on(2)),)
    order = gang("trainer", QUICK | {"epochs": 1000, "minibatch_ms": 20.0}, parts=parts, seconds=LEAD + SECONDS)
    status = _ended(engine, start(engine, order), order)
    return (status.started_at or 0.0) - slot, order.end_at - (status.ended_at or 0.0)


def _ended(engine: LocalEngine, handle: Handle, order: Gang) -> Status:
    while (status := look(engine, handle)).state != ENDED and time.time() < order.end_at + 10:
        engine.touch()
        time.sleep(0.1)
    return status
