"""A job as people describe it: the time of its quote beside one in detail, and of reading a batch script."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np

from scheduling.jobs.describing import JobWording, Understood, job_understood
from scheduling.market.decide.interval import interval_run
from scheduling.programs import sbatch
from scheduling.quotes.quotes import Quote, job_quote
from tenants.access import Access
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope_disabled
from tests.bench import bench_interval
from tests.bench.bench_interval import WINDOW
from tests.bench.owned import analyze

NEEDS_DATABASE = True

WAITING, TIMES, LINES = 300, 21, 200
OPTIONS = (
    "--job-name=train", "--gpus=8", "--time=6:00:00", "--output=logs/%x-%j.out", "--mail-type=END", "--cpus-per-task=4",
    "--export=RUN=7,LEVEL=3", "--comment=nothing", "--account=vision", "--partition=gpu",
)  # fmt: skip


def measure() -> Iterator[dict[str, Any]]:
    yield _reading()
    with scope_disabled("the benchmark fills a whole market"):
        pool = bench_interval.market()
        for slot in range(WINDOW):
            interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
        bench_interval.jobs_submit(pool, WAITING, arrivals=(0.0, WINDOW - 1.0))
        analyze()
        at, tenants = pool.slot_start(WINDOW - 1), list(Tenant.objects.order_by("pk"))
        by = Access(user=None, tenant=tenants[0], roles=frozenset({SUBMITTER}))
        answers = {"hours": "6", "most": 8, "least": 2, "scaling": "good", "worker": {"worker": 1}}
        wish = {"by": (at + timedelta(hours=9)).isoformat(), "credits": "260", "later": "half"}
        wording = JobWording(worth=wish, hours=answers)

        def in_hours() -> Quote | Any:
            understood = job_understood(pool=pool, wording=wording, by=by, at=at)
            assert isinstance(understood, Understood), understood
            fields = {"spec": understood.spec, "read": understood.read}
            return job_quote(pool=pool, name="quote", lane="batch", by=by, at=at, **fields)

        understood = job_understood(pool=pool, wording=wording, by=by, at=at)
        assert isinstance(understood, Understood), understood

        def in_detail() -> Quote | Any:
            return job_quote(pool=pool, name="quote", spec=understood.spec, lane="batch", by=by, at=at)

        hours, detail = _by_turns(in_hours, in_detail)
    yield {
        "name": f"quote in hours over one in detail, {WAITING:,} waiting, p50",
        "value": round(hours / detail, 3),
        "unit": "times",
        "target": "< 1.05",
        "detail": {"hours_ms": round(hours, 1), "detail_ms": round(detail, 1), "quotes": TIMES},
    }


def _by_turns(*ways: Callable[[], Quote | Any]) -> list[float]:
    """Return the median milliseconds of each way. The ways are measured in turns, so that all see the same machine."""
    took: list[list[float]] = [[] for _ in ways]
    for _ in range(TIMES):
        for way, times in zip(ways, took, strict=True):
            started = time.perf_counter()
            assert isinstance(way(), Quote)
            times.append(1e3 * (time.perf_counter() - started))
    return [float(np.median(times)) for times in took]


def _reading() -> dict[str, Any]:
    lines = ["#!/bin/bash -eu", *(f"#SBATCH {option}" for option in OPTIONS * (LINES // len(OPTIONS) // 2))]
    lines += [f"echo step {number}" for number in range(LINES - len(lines))]
    text, took = "\n".join(lines) + "\n", []
    for _ in range(101):
        started = time.perf_counter()
        assert isinstance(sbatch.read(text), sbatch.Script)
        took.append(1e3 * (time.perf_counter() - started))
    detail = {"lines": len(lines), "options": sum(line.startswith("#SBATCH") for line in lines), "most": max(took)}
    return {
        "name": "a batch script read, p50",
        "value": round(float(np.median(took)), 2),
        "unit": "ms",
        "target": "< 5",
        "detail": detail,
    }
