"""The close of one interval: 10,000 waiting jobs of 100 tenants on 550 servers, part by part; then its replay."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import numpy as np
from django.db import connection, transaction

from scheduling.core import records
from scheduling.core.policies.astraea.policy import Astraea
from scheduling.models import (
    Award,
    CalendarCell,
    Cell,
    Interval,
    JobState,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    TrainingJob,
)
from scheduling.services import intervals, plans
from scheduling.services.intervals import interval_run
from scheduling.services.verification import intervals_verify
from tenants.ledger.postings import MICRO, OUTSIDE, Posting, available
from tenants.ledger.services import post_many
from tenants.models import Tenant
from tenants.scoping import scope_disabled

NEEDS_DATABASE = True

JOBS, TENANTS, SERVERS, WINDOW = 10_000, 100, 550, 32
WORKERS, PS = 8, 2
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SEED = 7

PARTS = {  # what is called in the step -> the part of it that the call belongs to
    (intervals, "batch_view"): "gather",
    (Astraea, "decide"): "decide",
    (records, "view_bytes"): "bytes",
    (records, "plan_bytes"): "bytes",
    (intervals, "interval_new"): "bytes",
    (plans, "floors_store"): "floors",
    (plans, "awards_store"): "awards",
    (plans, "jobs_refuse"): "reasons",
    (intervals, "events_append"): "events",
    (intervals, "batch_reserve"): "calendar",
    (intervals, "post_many"): "post",
}


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        pool = _market()
        _jobs(pool, JOBS, arrivals=(0.0, float(WINDOW)))
        connection.cursor().execute("ANALYZE")
        for slot in range(WINDOW):
            interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
        yield _close(pool, WINDOW, "close an interval, 10,000 jobs waiting")
        for slot in range(WINDOW + 1, 2 * WINDOW):
            interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
        waiting = TrainingJob.objects.filter(state=JobState.QUEUED).count()
        _jobs(pool, JOBS - waiting, arrivals=(float(WINDOW), 2.0 * WINDOW))
        yield _close(pool, 2 * WINDOW, "close the next, 10,000 waiting again beside those that run")
        yield _replay(pool)


def _market() -> Pool:
    fixed = {"mode": "guarantee", "theta": {"worker": 4.0, "ps": 4.0}, "price_floor": {"worker": 0.05, "ps": 0.05}}
    pool = Pool.objects.create(
        slug="large",
        name="Large",
        slot_seconds=300,
        clock_first=WINDOW,
        clock_cap=WINDOW,
        clock_restart=False,
        batch_policy={"name": "astraea", **fixed},
        instant_policy={"name": "oasis"},
        epoch_at=EPOCH,
    )
    kinds = [ResourceKind.objects.create(pool=pool, name=name, label=name) for name in ("worker", "ps")]
    tenants = Tenant.objects.bulk_create(
        [Tenant(slug=f"tenant-{number}", name=f"Tenant {number}") for number in range(TENANTS)]
    )
    servers = Server.objects.bulk_create([Server(pool=pool, name=f"s{number}") for number in range(SERVERS)])
    units = list(zip(kinds, (WORKERS, PS), strict=True))
    ServerCapacity.objects.bulk_create(
        [ServerCapacity(pool=pool, server=server, resource=kind, units=n) for server in servers for kind, n in units]
    )
    owned = [(server, tenants[index * TENANTS // SERVERS]) for index, server in enumerate(servers)]
    Cell.objects.bulk_create(
        [Cell(tenant=tenant, server=server, resource=kind, units=n) for server, tenant in owned for kind, n in units]
    )
    grants = [
        Posting(
            key=f"grant:{tenant.pk}",
            kind="grant",
            entries=((OUTSIDE, -(10**6) * MICRO), (available(tenant.pk), 10**6 * MICRO)),
            at=EPOCH,
        )
        for tenant in tenants
    ]
    assert isinstance(post_many(postings=grants), tuple)
    return pool


def _jobs(pool: Pool, number: int, arrivals: tuple[float, float]) -> None:
    """Tenants ask unevenly: a few for most of the work, so that there is something to rent and to lend."""
    draw = np.random.default_rng(SEED + int(arrivals[0]))
    tenants = list(Tenant.objects.order_by("pk"))
    weights = 1.0 / np.arange(1, TENANTS + 1) ** 1.2
    owners = draw.choice(TENANTS, size=number, p=weights / weights.sum())
    at = np.sort(draw.uniform(*arrivals, size=number))
    TrainingJob.objects.bulk_create(
        [
            TrainingJob(
                tenant=tenants[owner],
                pool=pool,
                name=f"job {index}",
                lane="batch",
                reason_code="waiting_for_interval",
                spec=_spec(draw),
                submitted_at=EPOCH,
                arrival=float(arrival),
                request_digest="0" * 64,
            )
            for index, (owner, arrival) in enumerate(zip(owners, at, strict=True))
        ],
        batch_size=2_000,
    )


def _spec(draw: np.random.Generator) -> dict[str, Any]:
    chunks = int(draw.integers(1, 17))
    slots = float(np.exp(draw.uniform(np.log(2), np.log(60))))  # of the whole gang
    base = slots * chunks * float(draw.uniform(0.5, 6.0))
    return {
        "epochs": max(1, round(slots)),
        "chunks": chunks,
        "minibatches": 30,
        "minibatch_seconds": 9.5,
        "gradient_mb": 30.0,
        "worker_mbps": 1_000.0,
        "ps_mbps": 5_000.0,
        "worker_demand": {"worker": 1},
        "ps_demand": {"ps": 1},
        "value": {"kind": "linear", "slope": -base / 400.0, "base": base},
    }


def _close(pool: Pool, slot: int, name: str) -> dict[str, Any]:
    spent: defaultdict[str, float] = defaultdict(float)
    started, processor = time.perf_counter(), time.process_time()
    with _timed(spent):
        interval = interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    seconds, busy = time.perf_counter() - started, time.process_time() - processor
    assert isinstance(interval, Interval), interval
    assert interval.jobs_waiting == JOBS, interval.jobs_waiting
    stored = {"view_kb": len(bytes(interval.view)) // 1000, "plan_kb": len(bytes(interval.plan)) // 1000}
    rented = Award.objects.filter(interval=interval, phase="shared").count()
    detail = {part: round(amount, 2) for part, amount in spent.items()} | {"rest": seconds - sum(spent.values())}
    detail |= {
        "own_processor_time": busy,
        "waiting": interval.jobs_waiting,
        "awarded": interval.jobs_awarded,
        "rented": rented,
    }
    detail |= {"calendar_rows": CalendarCell.objects.count(), **stored}
    return _figure(name, seconds, "s", "< 20", **detail)


@contextmanager
def _timed(spent: defaultdict[str, float]) -> Iterator[None]:
    """Add up what each part of the step takes."""

    def timed(work: Callable[..., Any], part: str) -> Callable[..., Any]:
        def measured(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return work(*args, **options)
            finally:
                spent[part] += time.perf_counter() - started

        return measured

    patches = [patch.object(owner, name, timed(getattr(owner, name), part)) for (owner, name), part in PARTS.items()]
    for change in patches:
        change.start()
    try:
        yield
    finally:
        for change in patches:
            change.stop()


def _replay(pool: Pool) -> dict[str, Any]:
    started = time.perf_counter()
    with transaction.atomic():
        verified = intervals_verify(pool_ids=[pool.pk])
    seconds = time.perf_counter() - started
    assert verified.is_clean, verified.findings[:5]
    return _figure("verify_intervals", seconds, "s", "-", intervals=verified.intervals, awards=verified.awards)


def _figure(name: str, value: float, unit: str, target: str, **detail: object) -> dict[str, Any]:
    rounded = {key: round(part, 2) if isinstance(part, float) else part for key, part in detail.items()}
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "detail": rounded}
