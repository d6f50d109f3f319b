"""The close of one interval: 10,000 waiting jobs of 100 tenants on 550 servers, part by part; then its replay."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import numpy as np
from django.db import transaction

from scheduling.audit.verification import intervals_verify
from scheduling.core import records
from scheduling.core.policies.astraea.policy import Astraea
from scheduling.feed.events import events_append
from scheduling.market.decide import interval as intervals
from scheduling.market.decide import plans
from scheduling.market.decide.interval import interval_run
from scheduling.market.decide.submissions import submission_event
from scheduling.market.view.jobs import arrival_of
from scheduling.models import (
    AlonePlan,
    Award,
    CalendarCell,
    Cell,
    Interval,
    JobFloor,
    JobState,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    TenantPolicy,
    TrainingJob,
)
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, Posting, available
from tenants.ledger.services import post_many
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.bench.owned import analyze

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
        for plan in AlonePlan:
            yield from _two_intervals(market(plan), f"plans: {plan}")


def _two_intervals(pool: Pool, about: str) -> Iterator[dict[str, Any]]:
    jobs_submit(pool, JOBS, arrivals=(0.0, float(WINDOW)))
    analyze()
    for slot in range(WINDOW):
        interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    yield _close(pool, WINDOW, f"close an interval, 10,000 jobs waiting; {about}")
    for slot in range(WINDOW + 1, 2 * WINDOW):
        interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    waiting = TrainingJob.objects.filter(pool=pool, state=JobState.QUEUED).count()
    jobs_submit(pool, JOBS - waiting, arrivals=(float(WINDOW), 2.0 * WINDOW))
    yield _close(pool, 2 * WINDOW, f"close the next, 10,000 waiting again beside those that run; {about}")
    yield _replay(pool, f"verify_intervals; {about}")


def market(plan: AlonePlan = AlonePlan.KEEP, *, tenants: int = TENANTS, servers: int = SERVERS) -> Pool:
    """Create a pool whose `servers` servers are divided evenly among `tenants` tenants, each server as a whole."""
    fixed = {"mode": "guarantee", "theta": {"worker": 4.0, "ps": 4.0}, "price_floor": {"worker": 0.05, "ps": 0.05}}
    pool = Pool.objects.create(
        slug=f"large-{plan}",
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
    members = Tenant.objects.bulk_create(
        [Tenant(slug=f"{plan}-{number}", name=f"Tenant {number}") for number in range(tenants)]
    )
    machines = Server.objects.bulk_create([Server(pool=pool, name=f"s{number}") for number in range(servers)])
    units = list(zip(kinds, (WORKERS, PS), strict=True))
    ServerCapacity.objects.bulk_create(
        [ServerCapacity(pool=pool, server=server, resource=kind, units=n) for server in machines for kind, n in units]
    )
    owned = [(server, members[index * tenants // servers]) for index, server in enumerate(machines)]
    Cell.objects.bulk_create(
        [Cell(tenant=tenant, server=server, resource=kind, units=n) for server, tenant in owned for kind, n in units]
    )
    TenantPolicy.objects.bulk_create([TenantPolicy(pool=pool, tenant=tenant, plan=plan) for tenant in members])
    grants = [
        Posting(
            key=f"grant:{tenant.pk}",
            kind="grant",
            entries=((OUTSIDE, -(10**6) * MICRO), (available(tenant.pk), 10**6 * MICRO)),
            at=EPOCH,
        )
        for tenant in members
    ]
    assert isinstance(post_many(postings=grants), tuple)
    return pool


def jobs_submit(pool: Pool, number: int, arrivals: tuple[float, float]) -> None:
    """Submit jobs unevenly: a few tenants submit most of the work, so that there is something to rent and to lend."""
    draw = np.random.default_rng(SEED + int(arrivals[0]))
    tenants = [
        policy.tenant for policy in TenantPolicy.objects.filter(pool=pool).select_related("tenant").order_by("pk")
    ]
    weights = 1.0 / np.arange(1, len(tenants) + 1) ** 1.2
    owners = draw.choice(len(tenants), size=number, p=weights / weights.sum())
    moments = [
        pool.epoch_at + timedelta(seconds=pool.slot_seconds * float(slot))
        for slot in np.sort(draw.uniform(*arrivals, size=number))
    ]
    jobs = TrainingJob.objects.bulk_create(
        [
            TrainingJob(
                tenant=tenants[owner],
                pool=pool,
                name=f"job {index}",
                lane="batch",
                reason_code="waiting_for_interval",
                spec=_spec(draw),
                submitted_at=at,
                arrival=arrival_of(pool, at),
                request_digest="0" * 64,
            )
            for index, (owner, at) in enumerate(zip(owners, moments, strict=True))
        ],
        batch_size=2_000,
    )
    events_append([submission_event(job, at=job.submitted_at) for job in jobs])


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
    floors = JobFloor.objects.filter(interval=interval).count()
    detail = {part: round(amount, 2) for part, amount in spent.items()} | {"rest": seconds - sum(spent.values())}
    detail |= {
        "own_processor_time": busy,
        "waiting": interval.jobs_waiting,
        "awarded": interval.jobs_awarded,
        "rented": rented,
        "floors_written": floors,
    }
    detail |= {"calendar_rows": CalendarCell.objects.count(), **stored}
    return _figure(name, seconds, "s", "< 20", **detail)


@contextmanager
def _timed(spent: defaultdict[str, float]) -> Iterator[None]:
    """Add up the seconds that each part of the step takes."""

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


def _replay(pool: Pool, name: str) -> dict[str, Any]:
    started = time.perf_counter()
    with transaction.atomic():
        verified = intervals_verify(pool_ids=[pool.pk])
    seconds = time.perf_counter() - started
    assert verified.is_clean, verified.findings[:5]
    return _figure(name, seconds, "s", "-", intervals=verified.intervals, awards=verified.awards)


def _figure(name: str, value: float, unit: str, target: str, **detail: object) -> dict[str, Any]:
    rounded = {key: round(part, 2) if isinstance(part, float) else part for key, part in detail.items()}
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "detail": rounded}
