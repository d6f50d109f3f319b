"""The first interval of a pool and the next one, for which one job in a hundred is new: part by part.

A tenth has a tenth of everything: 10,000 jobs of 50 tenants on 500 servers beside 100,000 of 500 on 5,000. Neither is
settled between the two: what the second one decides about is the jobs that the first one left waiting, and the new.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from scheduling.common.measured import STEP_SECONDS
from scheduling.market.decide.interval import interval_run
from scheduling.models import AlonePlan, Award, Interval, JobFloor, JobState, Pool, TrainingJob
from tenants.scoping import scope_disabled
from tests.bench import bench_interval
from tests.bench.bench_interval import WINDOW
from tests.bench.owned import analyze
from tests.bench.scale.memory import peak_forget, peak_mib

SIZES = (10_000, 100_000)  # waiting jobs
STEPS = ("glance", "gather", "decide", "store", "refuse", "book", "hold")
PLANS = os.environ.get("BENCH_PLANS", "keep,renew").split(",")
TARGETS = {"first": "< 60", "next": "< 10"}


def measure(size: int) -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        for plan in PLANS:
            yield from _two_intervals(size, AlonePlan(plan))


def _two_intervals(size: int, plan: AlonePlan) -> Iterator[dict[str, Any]]:
    tenants, servers, new = size // 200, size // 20, size // 100
    pool = bench_interval.market(plan, tenants=tenants, servers=servers)
    bench_interval.jobs_submit(pool, size, arrivals=(0.0, float(WINDOW)))
    analyze()
    yield from _boundary(pool, range(WINDOW), f"first interval, plans: {plan}", TARGETS["first"])
    bench_interval.jobs_submit(pool, new, arrivals=(float(WINDOW), 2.0 * WINDOW))
    yield from _boundary(pool, range(WINDOW + 1, 2 * WINDOW), f"next interval, plans: {plan}", TARGETS["next"])


def _boundary(pool: Pool, between: range, name: str, target: str) -> Iterator[dict[str, Any]]:
    """The interval that closes after the slots `between`, and what those cost that close none."""
    started = time.perf_counter()
    for slot in between:
        interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    glances = time.perf_counter() - started
    slot = between[-1] + 1
    waiting = TrainingJob.objects.filter(pool=pool, state=JobState.QUEUED).count()
    before = _spent()
    peak_forget()
    started, processor = time.perf_counter(), time.process_time()
    interval = interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    seconds, busy = time.perf_counter() - started, time.process_time() - processor
    assert isinstance(interval, Interval), interval
    after = _spent()
    parts = {step: round(after[step] - before[step], 2) for step in STEPS}
    kept = {"view_kb": len(bytes(interval.view)) // 1000, "plan_kb": len(bytes(interval.plan)) // 1000}
    counts = {
        "waiting": waiting,
        "awarded": interval.jobs_awarded,
        "rented": Award.objects.filter(interval=interval, phase="shared").count(),
        "floors_written": JobFloor.objects.filter(interval=interval).count(),
        "digest": interval.digest[:16],  # the same before and after a change that changes no decision
    }
    detail = parts | {"rest": round(seconds - sum(parts.values()), 2), "own_processor_time": round(busy, 2)}
    detail |= counts | kept | {"peak_mib": peak_mib()}
    yield {"name": name, "value": round(seconds, 2), "unit": "s", "target": target, "detail": detail}
    each = round(glances / len(between), 4)
    about = {"boundaries": len(between)}
    yield {"name": f"between: {name}", "value": each, "unit": "s", "target": "-", "detail": about}


def _spent() -> dict[str, float]:
    """Seconds of each step of all intervals so far."""
    return {step: float(STEP_SECONDS.labels("interval", step)._sum.get()) for step in STEPS}
