"""The time in which the calendar tells what is free: 550 servers, 2,000 slots, 4 resources, windows of 64 slots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from scheduling.core.calendar import Shared
from scheduling.core.parts import parts_of
from scheduling.core.types import Cluster, Tenant

SERVERS, SLOTS, WINDOW = 550, 2000, 64


def make_calendar() -> Shared:
    """Return a calendar: three quarters of every server are home cells of four tenants, half of everything is taken."""
    dice = np.random.default_rng(5)
    capacity = np.tile([[8.0], [2.0], [64.0], [256.0]], (1, SERVERS))
    cells = np.zeros((4, 4, SERVERS))
    cells[:, dice.integers(0, 4, SERVERS), np.arange(SERVERS)] = 0.75 * capacity
    cluster = Cluster(
        resources=("gpu", "ps", "cpu", "memory_gb"),
        servers=tuple(f"s{index}" for index in range(SERVERS)),
        tenants=tuple(Tenant(f"t{index}", np.zeros(4)) for index in range(4)),
        slot_seconds=60.0,
        capacity=capacity,
        quota=cells.sum(axis=2),
        hosts_workers=np.ones(SERVERS, dtype=bool),
        hosts_ps=np.ones(SERVERS, dtype=bool),
        cells=cells,
    )
    calendar = Shared(parts_of(cluster))
    for occupancy in (calendar.home_all, calendar.operator_instant):
        occupancy.add(0, SLOTS - 1, 0, 0.0)  # reach as far as the horizon
    return calendar


def measure() -> Iterator[dict[str, Any]]:
    calendar, times = make_calendar(), []
    for start in range(0, SLOTS - WINDOW, 16):
        begin = time.perf_counter()
        free = calendar.free(start, start + WINDOW)
        times.append(1000 * (time.perf_counter() - begin))
    yield {
        "name": "calendar_free_in_a_window",
        "value": round(float(np.median(times)), 3),
        "unit": "ms",
        "target": "under 1",
        "detail": f"{free.shape[0]} resources x {free.shape[1]} slots x {free.shape[2]} servers, "
        f"p99 {np.quantile(times, 0.99):.3f} ms of {len(times)} windows",
    }
