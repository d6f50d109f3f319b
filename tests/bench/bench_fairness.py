"""The overview of fairness with 10,000 intervals of 100 tenants in the database, by its web page and by its reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection
from django.test import Client

from scheduling.fairness.read_days import fairness_overview
from scheduling.models import Interval, IntervalFairness, Pool, TenantFairness
from tenants.scoping import scope_disabled
from tests.bench.owned import analyze
from tests.scheduling.builders import make_pool, make_tenant
from tests.tenants.builders import make_staff

NEEDS_DATABASE = True

INTERVALS, TENANTS, DAYS, SEED, TIMES = 10_000, 100, 30, 9, 7
UNITS = ("worker", "ps")
ROWS = """
INSERT INTO scheduling_tenantfairness (tenant_id, fairness_id, pool_id, number, own_value, rented_value, paid, received,
    gain, alone, share, ratio, earned, contributed, reward, offered, sold, kept, forgone, rent_saved, waiting)
SELECT t.id, f.id, f.pool_id, f.number, 5, 1, 1, 2, random() * 10, 4, 0.01, 1, random() * 3, 1, 1,
    '{"ps": 2, "worker": 8}', '{"ps": 1, "worker": 4}', '{}', 1, 0.5, 0
  FROM scheduling_intervalfairness f CROSS JOIN tenants_tenant t"""
TENANT_DAYS = """
INSERT INTO scheduling_tenantday (tenant_id, pool_id, day, own_value, rented_value, paid, received, gain, alone, even,
    earned, contributed, forgone, rent_saved, waiting, broken, offered, sold, kept)
SELECT r.tenant_id, r.pool_id, (f.decided_at AT TIME ZONE 'UTC')::date, sum(own_value), sum(rented_value), sum(paid),
    sum(received), sum(gain), sum(alone), sum(f.revenue * share), sum(earned), sum(contributed), sum(forgone),
    sum(rent_saved), 0, 0, '{"ps": 600, "worker": 2400}', '{"ps": 300, "worker": 1200}', '{}'
  FROM scheduling_tenantfairness r JOIN scheduling_intervalfairness f ON f.id = r.fairness_id GROUP BY 1, 2, 3"""
POOL_DAYS = """
INSERT INTO scheduling_poolday (pool_id, day, first_number, last_number, intervals, revenue, certificates, broken,
    broken_intervals, with_renters, one_bidder, price_jumps, waiting, idle_beside_waiting, waiting_for, unsold, highest)
SELECT pool_id, (decided_at AT TIME ZONE 'UTC')::date, min(number), max(number), count(*), sum(revenue),
    sum(certificates), 0, 0, 9, 3, 1, 7, 7, '{"no_room": 9}', '{"ps": 9, "worker": 99}', '{"ps": 1.5, "worker": 2.5}'
  FROM scheduling_intervalfairness GROUP BY 1, 2"""


def measure() -> Iterator[dict[str, Any]]:
    last = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    pool = make_pool()
    tenants = [make_tenant(f"tenant-{number}") for number in range(TENANTS)]
    with scope_disabled("the benchmark fills a whole history"):
        _fill(pool, last - timedelta(days=DAYS))
        counts = {"intervals": IntervalFairness.objects.count(), "rows": TenantFairness.objects.count()}
        assert counts == {"intervals": INTERVALS, "rows": INTERVALS * len(tenants)}
    days = {"first": (last - timedelta(days=DAYS)).date(), "last": (last - timedelta(days=1)).date()}
    yield _timed("read the overview", lambda: fairness_overview(pool, **days), "-", days=DAYS, **counts)
    client = Client(SERVER_NAME="localhost")
    client.force_login(make_staff("auditor").user, backend="django.contrib.auth.backends.ModelBackend")
    for length in (7, 30, 90):
        path = f"/fairness/?days={length}"
        answer = client.get(path)
        assert answer.status_code == 200
        detail = {"bytes": len(answer.content)}
        yield _timed(f"open the overview of {length} days", lambda path=path: client.get(path), "500", **detail)
    path = f"/fairness/pools/{pool.slug}/intervals/?what=blocked&days=90"
    yield _timed("open the list of blocked intervals", lambda: client.get(path), "500")


def _fill(pool: Pool, begin: datetime) -> None:
    """Store figures as the market writes them, with made-up amounts. The database itself makes the many rows of
    tenants, and the sums by day."""
    draw = np.random.default_rng(SEED)
    step = timedelta(days=DAYS) / INTERVALS
    for first in range(0, INTERVALS, 1_000):
        numbers = range(first + 1, first + 1_001)
        rows_of = (_interval(pool, number, begin + (number - 1) * step) for number in numbers)
        intervals = Interval.objects.bulk_create(rows_of)
        IntervalFairness.objects.bulk_create(_whole(row, draw) for row in intervals)
    with connection.cursor() as cursor:
        for statement in (ROWS, TENANT_DAYS, POOL_DAYS):
            cursor.execute(statement)
    analyze()


def _interval(pool: Pool, number: int, at: datetime) -> Interval:
    return Interval(
        pool=pool, number=number, slot=number, decided_at=at, code_version="bench", policy=b"{}", view=b"", plan=b"",
        windows=b"", previous="0" * 64, digest=f"{number:064}",
    )  # fmt: skip


def _whole(interval: Interval, draw: np.random.Generator) -> IntervalFairness:
    return IntervalFairness(
        interval=interval,
        pool_id=interval.pool_id,
        number=interval.number,
        decided_at=interval.decided_at,
        with_floors=True,
        revenue=float(draw.uniform(100, 1_000)),
        certificates=int(draw.integers(0, 50)),
        renters=int(draw.integers(0, 4)),
        top_prices={name: float(draw.uniform(0.1, 2)) for name in UNITS},
        unsold={name: float(draw.integers(0, 50)) for name in UNITS},
        waiting_for={"no_room": int(draw.integers(1, 9))} if draw.random() < 0.2 else {},
    )


def _timed(name: str, ask: Callable[[], object], target: str, **detail: object) -> dict[str, Any]:
    """Return the median time of a few calls, and the median of this process's own work in them, because the machine may
    do other things, too."""
    took, own = [], []
    for _ in range(TIMES):
        started, processor = time.perf_counter(), time.process_time()
        ask()
        took.append(1e3 * (time.perf_counter() - started))
        own.append(1e3 * (time.process_time() - processor))
    value, detail["own_processor_ms"] = sorted(took)[TIMES // 2], round(sorted(own)[TIMES // 2], 1)
    return {"name": name, "value": round(value, 1), "unit": "ms", "target": target, "detail": detail}
