"""Instant answers beside `size` awards that are alive: how long each takes, and where the time goes.

There are ten awards for each server, a quarter of them at home. They are written as the market would leave them, with
their units in the calendar, because to decide about all of them first is another row.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.core.types import Window
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.market.prices.posted import prices_refresh
from scheduling.market.view.frame import pool_frame
from scheduling.market.view.windows import windows_bytes
from scheduling.models import Interval, LaneClock, Pool, ResourceKind
from tenants.access import Access
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, Posting, available
from tenants.ledger.services import post_many
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope_disabled
from tests.bench.owned import analyze
from tests.scheduling.live import INSTANT, SPEC

SIZES = (5_000, 50_000)  # awards alive
SERVER_AWARDS, TENANT_AWARDS, SLOTS, RENTERS = 10, 500, 32, 3
ANSWERS, TARGET_MS = int(os.environ.get("BENCH_ANSWERS", "40")), 60
EIGHT_SLOTS: dict[str, Any] = {"epochs": 8, "min_workers": 4}
UNBROKEN: dict[str, Any] = EIGHT_SLOTS | {"unbroken": True}
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PARTS = {
    "read the clock and the rows": "instant_rows",
    "frame": "frame_of",
    "calendar": "_calendar",
    "stage": "stage",
    "own idle cells": "own_idle",
    "decide": "verdict",
    "the record": "answer_store",
    "units taken": "units_take",
}


def measure(size: int) -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        pool, tenants, renters = _market(size)
        analyze()
        prices_refresh(pool=pool)
        yield _figure("an instant answer, p95", pool, tenants, size)
        yield _figure("an instant answer to a tenant without cells, p95", pool, renters, size)
        yield _figure("the same, for eight slots here and there", pool, renters, size, **EIGHT_SLOTS)
        yield _figure("the same, for an unbroken run of eight slots", pool, renters, size, **UNBROKEN)


def _figure(name: str, pool: Pool, tenants: list[Tenant], size: int, **fields: Any) -> dict[str, Any]:
    """Measure instant answers without the first of a process and of a tenant without cells, which read all of the
    pool. `fields` are those in which the job differs from the usual one."""
    spec = SPEC | fields
    first = [_seconds(pool, tenant, spec) for tenant in tenants[:RENTERS]]
    processor = time.process_time()
    took = [_seconds(pool, tenants[number % len(tenants)], spec) for number in range(ANSWERS)]
    processor = time.process_time() - processor
    with CaptureQueriesContext(connection) as queries:
        _seconds(pool, tenants[0], spec)
    profile = cProfile.Profile()
    profile.enable()
    for number in range(5):
        _seconds(pool, tenants[number % len(tenants)], spec)
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    parts = {
        part: round(1_000 * sum(row[3] for (_, _, name), row in stats.items() if name == function) / 5)
        for part, function in PARTS.items()
    }
    detail = {
        "awards": size,
        "servers": size // SERVER_AWARDS,
        "tenants_that_ask": len(tenants),
        "first_ms": round(1_000 * first[0]),
        "median_ms": round(1_000 * float(np.median(took))),
        "own_processor_ms": round(1_000 * processor / ANSWERS),
        "milliseconds_with_the_profiler": parts,
        "queries": len(queries),
        "load": round(psutil.getloadavg()[0], 1),
    }
    p95 = float(np.quantile(took, 0.95))
    return {"name": name, "value": round(p95, 3), "unit": "s", "target": "<= 0.06", "detail": detail}


def _seconds(pool: Pool, tenant: Tenant, spec: Mapping[str, Any]) -> float:
    by = Access(user=None, tenant=tenant, roles=frozenset({SUBMITTER}))
    began = time.perf_counter()
    answer = job_submit(pool=pool, name="train", spec=spec, lane="instant", by=by, at=pool.slot_start(1))
    took = time.perf_counter() - began
    assert isinstance(answer, Submitted), answer
    assert answer.award is not None, answer.job.reason_code
    return took


def _market(size: int) -> tuple[Pool, list[Tenant], list[Tenant]]:
    """Create the market. Return the pool, the tenants that have cells, and those that have none."""
    pool = Pool.objects.create(
        slug="large",
        name="Large",
        slot_seconds=300,
        clock_first=SLOTS,
        clock_cap=SLOTS,
        clock_restart=False,
        batch_policy={"name": "astraea", "mode": "guarantee"},
        instant_policy=INSTANT,
        epoch_at=EPOCH,
    )
    for name in ("worker", "ps"):
        ResourceKind.objects.create(pool=pool, name=name, label=name)
    count = size // TENANT_AWARDS
    tenants = Tenant.objects.bulk_create(Tenant(slug=f"t{n:03}", name=f"t{n:03}") for n in range(count))
    script = Path(__file__).with_name("instant.sql").read_text(encoding="utf-8")
    settings = {
        "pool": pool.pk,
        "servers": size // SERVER_AWARDS,
        "awards": size,
        "slots": SLOTS,
        "at": EPOCH.isoformat(),
    }
    with connection.cursor() as cursor:
        for name, value in (settings | {"spec": json.dumps(SPEC)}).items():
            cursor.execute("SELECT set_config(%s, %s, false)", (f"bench.{name}", str(value)))
        cursor.execute(script)
    _publish(pool)
    LaneClock.objects.create(pool=pool, lane="batch", decided_slot=1, settled_slot=0, frontier=SLOTS)
    LaneClock.objects.create(pool=pool, lane="instant")
    renters = Tenant.objects.bulk_create(Tenant(slug=f"r{n}", name=f"r{n}") for n in range(RENTERS))
    amount = 10**6 * MICRO
    grants = [
        Posting(f"top-up:{tenant.pk}", "grant", ((OUTSIDE, -amount), (available(tenant.pk), amount)), EPOCH)
        for tenant in (*tenants, *renters)
    ]
    assert isinstance(post_many(postings=grants), tuple)
    return pool, tenants, renters


def _publish(pool: Pool) -> None:
    """Publish the window in which all awards are, with its prices and with what its owners had for sale."""
    frame = pool_frame(pool)
    idle = np.repeat(
        np.array([*frame.cells.sum(axis=2).T, np.zeros(len(frame.resource_ids))]).T[:, :, None], SLOTS, axis=2
    )
    price = np.full((len(frame.resource_ids), SLOTS), 0.05)
    windows = windows_bytes(frame, [Window(0, SLOTS, price, idle, idle.sum(axis=1) / 2)])
    Interval.objects.create(
        pool=pool, number=1, slot=0, window_start=0, window_end=SLOTS, decided_at=EPOCH, code_version="bench",
        policy=b"", view=b"", plan=b"", windows=windows, previous="0" * 64, digest="1" * 64,
    )  # fmt: skip
