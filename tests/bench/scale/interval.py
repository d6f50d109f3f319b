"""The first interval of a pool and the next one, in which one job in a hundred is new, part by part.

A tenth has a tenth of everything: 10,000 jobs of 50 tenants on 500 servers beside 100,000 of 500 on 5,000. Nothing is
settled between the two intervals: the second one decides about the jobs that the first one left waiting, and about the
new ones. Parts are given in seconds, and in processor seconds of this process and of the server process that works for
it, which are the same however busy the machine is.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.db import connection

from scheduling.common import Steps
from scheduling.market.decide.interval import interval_run
from scheduling.market.reads import contents_of
from scheduling.models import AlonePlan, Award, Interval, JobFloor, JobState, Pool, TrainingJob
from tenants.scoping import scope_disabled
from tests.bench import bench_interval
from tests.bench.bench_interval import WINDOW
from tests.bench.owned import analyze
from tests.bench.scale.memory import peak_forget, peak_mib

SIZES = (10_000, 100_000)  # waiting jobs
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
    """Measure the interval that closes after the slots `between`, and the time of these slots, which close none."""
    started = time.perf_counter()
    for slot in between:
        interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    glances = time.perf_counter() - started
    slot = between[-1] + 1
    waiting = TrainingJob.objects.filter(pool=pool, state=JobState.QUEUED).count()
    peak_forget()
    began = Clocks()
    with _parts() as parts:
        interval = interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    whole = began.until_now()
    assert isinstance(interval, Interval), interval
    parts["rest"] = [sum_ - sum(part[clock] for part in parts.values()) for clock, sum_ in enumerate(whole)]
    sizes = {"view_kb": len(bytes(interval.view)) // 1000, "plan_kb": len(bytes(interval.plan)) // 1000}
    counts = {
        "waiting": waiting,
        "awarded": interval.jobs_awarded,
        "rented": Award.objects.filter(interval=interval, phase="shared").count(),
        "floors_written": JobFloor.objects.filter(interval=interval).count(),
        "plan": hashlib.sha256(contents_of(interval).plan).hexdigest()[:16],  # what was decided, in a word
    }
    clocks = {"wall": 0, "processor": 1, "database": 2}
    detail = {name: round(whole[clock], 2) for name, clock in clocks.items()}
    detail |= {step: [round(seconds, 2) for seconds in part] for step, part in parts.items()}
    detail |= counts | sizes | {"peak_mib": peak_mib()}
    yield {"name": name, "value": round(whole[0], 2), "unit": "s", "target": target, "detail": detail}
    busy = round(whole[1] + whole[2], 2)
    yield {"name": f"processor time: {name}", "value": busy, "unit": "s", "target": "-", "detail": {"waiting": waiting}}
    each = round(glances / len(between), 4)
    about = {"boundaries": len(between)}
    yield {"name": f"between: {name}", "value": each, "unit": "s", "target": "-", "detail": about}


class Clocks:
    """Three clocks: the real time, this process's processor time, and that of the database's process that serves it."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (process,) = cursor.fetchone()
        self._stat = Path(f"/proc/{process}/stat")
        self._last = self._now()

    def until_now(self) -> list[float]:
        """Return the seconds of each clock since the last call."""
        last, self._last = self._last, self._now()
        return [now - then for now, then in zip(self._last, last, strict=True)]

    def _now(self) -> tuple[float, float, float]:
        ticks = self._stat.read_text().rpartition(")")[2].split()[11:13]
        return time.perf_counter(), time.process_time(), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _parts() -> Iterator[dict[str, list[float]]]:
    """Measure by the clocks what each step of the use case takes."""
    parts: dict[str, list[float]] = {}
    clocks, done = Clocks(), Steps.done

    def timed(steps: Steps, step: str, **counts: Any) -> None:
        spent = clocks.until_now()
        parts[step] = [a + b for a, b in zip(parts.get(step, [0.0, 0.0, 0.0]), spent, strict=True)]
        done(steps, step, **counts)

    with patch.object(Steps, "done", timed):
        yield parts
