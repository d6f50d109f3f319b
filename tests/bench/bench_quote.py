"""The time of a batch quote with all its changes tried, beside 300 and 10,000 waiting jobs; and of an instant one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from scheduling.market.decide.interval import interval_run
from scheduling.models import Pool
from scheduling.quotes.quotes import Quote, job_quote
from tenants.access import Access
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope_disabled
from tests.bench import bench_interval
from tests.bench.bench_interval import WINDOW
from tests.bench.owned import analyze, overwrite

NEEDS_DATABASE = True

FEW, MANY, TIMES = 300, 10_000, 21
BOUNDS = {"floor": 0.05, "ceiling": {"worker": 10.0, "ps": 10.0}}


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        pool = bench_interval.market()
        pool.instant_policy = {"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS}
        overwrite(pool)
        for slot in range(WINDOW):
            interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
        bench_interval.jobs_submit(pool, FEW, arrivals=(0.0, WINDOW - 1.0))
        analyze()
        yield _quotes(pool, "batch", FEW, TIMES, "< 300")
        yield _quotes(pool, "instant", FEW, TIMES, "< 300")
        bench_interval.jobs_submit(pool, MANY - FEW, arrivals=(1.0, WINDOW - 1.0))
        yield _quotes(pool, "batch", MANY, 3, "-")


def _quotes(pool: Pool, lane: str, waiting: int, times: int, target: str) -> dict[str, Any]:
    """Measure quotes, seven in a row by each owner, as if somebody typed. Every other quote is for a gang that fits no
    home, at next to no value, so that it is refused and every change is tried."""
    tenants = list(Tenant.objects.order_by("pk"))
    draw = np.random.default_rng(3)
    took, refused, changes, processor = [], 0, 0, time.process_time()
    for number in range(times):
        tenant = tenants[number // 7]
        by = Access(user=None, tenant=tenant, roles=frozenset({SUBMITTER}))
        spec = bench_interval._spec(draw)
        if number % 2:
            spec |= {"epochs": 2, "chunks": 64, "min_workers": 50, "max_workers": 64, "ps_mbps": 64_000.0}
            spec["value"] = {"kind": "linear", "slope": -1e-4, "base": 0.2}
        started = time.perf_counter()
        # The instant lane sells at home up to the next boundary: there must be some slots left before it.
        at = pool.slot_start(WINDOW - 1 if lane == "batch" else WINDOW // 4)
        answer = job_quote(pool=pool, name="quote", spec=spec, lane=lane, by=by, at=at)
        took.append(1e3 * (time.perf_counter() - started))
        assert isinstance(answer, Quote), answer
        refused += not answer.terms.admitted
        changes += answer.change is not None
    own = round(1e3 * (time.process_time() - processor) / times, 1)
    detail = {
        "own_processor_ms": own,
        "most": round(max(took)),
        "quotes": times,
        "refused": refused,
        "with_a_change": changes,
    }
    name = f"{lane} quote, {waiting:,} waiting, p50"
    return {"name": name, "value": round(float(np.median(took)), 1), "unit": "ms", "target": target, "detail": detail}
