"""One slot of an elastic pool, live: 200 jobs of 20 tenants on 500 servers, all of them sized anew, booked and paid.

Other figures are of the same slot where a quarter of the tenants cannot pay the size that the policy gives, and where
every job's program has reported its losses and speeds.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import numpy as np

from scheduling.app.clock import slot_advance
from scheduling.core import records
from scheduling.core.estimates.live import FITTED, LossReports, Running, belief_of
from scheduling.core.policies.elastic import Elastic
from scheduling.core.speed import elastic_rate
from scheduling.market.decide import interval as intervals
from scheduling.market.decide.interval import interval_run
from scheduling.market.settle.slots import slot_settle
from scheduling.market.view import SpecReader
from scheduling.models import (
    Award,
    Interval,
    JobReport,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    TrainingJob,
    UsePrice,
)
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, Posting, available
from tenants.ledger.services import post_many
from tenants.models import Tenant
from tenants.scoping import scope_disabled

NEEDS_DATABASE = True

JOBS, TENANTS, SERVERS = 200, 20, 500
WORKERS, PS = 4, 2  # of a server
WARM, MEASURED = 2, 5  # slots
PRICES = {"worker": 50_000, "ps": 20_000}  # micro-credits
PLENTY, LITTLE = 10**6, 2  # credits of a tenant; the little is what a size or two of ten jobs costs
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SEED = 7
EPOCHS = (50, 500)
POLICIES: tuple[Mapping[str, Any], ...] = (
    {"name": "optimus", "restart": 1},
    {"name": "dominant_resource_fairness"},
    {"name": "srtf", "workers": 8},
)
PARTS: dict[tuple[Any, str], str] = {  # what is called in the step -> the part of it that the call belongs to
    (intervals, "batch_view"): "gather",
    (intervals, "with_reports"): "believe",
    (Elastic, "decide"): "decide",
    (records, "view_bytes"): "bytes",
    (records, "plan_bytes"): "bytes",
}


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole pool"):
        for poor in (0, TENANTS // 4):
            tenants = _tenants("poor" if poor else "rich")
            for policy in POLICIES:
                yield _slots(_pool(policy, poor, tenants), tenants, policy["name"], poor)
        reporting = _pool(POLICIES[0], 0, tenants := _tenants("reporting"), name="reporting")
        _report(reporting)
        yield _slots(reporting, tenants, f"{POLICIES[0]['name']}, every job reports", 0)


def _slots(pool: Pool, tenants: list[Tenant], name: str, poor: int) -> dict[str, Any]:
    """Return the median of several slots. Each is decided and applied, and the slot before it is paid."""
    for slot in range(WARM):
        slot_advance(pool=pool, slot=slot)
    slots = []
    for slot in range(WARM, WARM + MEASURED):
        _purses(tenants, poor, f"{pool.slug}:{slot}")
        slots.append(_slot(pool, slot))
    middle = sorted(slots, key=lambda each: each["all"])[MEASURED // 2]
    awards = Award.objects.filter(pool=pool, start=WARM + MEASURED - 1).count()
    smaller = TrainingJob.objects.filter(pool=pool, reason_code="smaller_size").count()
    paused = TrainingJob.objects.filter(pool=pool, reason_code__in=("low_balance", "no_room", "not_its_turn")).count()
    parts = {part: round(seconds * 1000, 1) for part, seconds in middle.items()}
    detail = parts | {"sized": awards, "smaller": smaller, "without_a_slot": paused}
    title = f"a slot by {name}" + (f", {poor} of {TENANTS} tenants nearly without money" if poor else "")
    return {"name": title, "value": parts["all"], "unit": "ms", "target": "-", "detail": detail}


def _slot(pool: Pool, slot: int) -> dict[str, float]:
    """Return the seconds of each part, and of this process alone (`_own`). The rest is the time of the database, and of
    whatever else had the processors. `apply` is what is left of the step."""
    spent: defaultdict[str, float] = defaultdict(float)
    begun, busy = time.perf_counter(), time.process_time()
    slot_settle(pool_id=pool.pk, slot=slot - 1, at=pool.slot_start(slot))
    settled = time.perf_counter()
    with _timed(spent):
        interval = interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    ended = time.perf_counter()
    assert isinstance(interval, Interval), interval
    assert interval.jobs_waiting == JOBS, interval.jobs_waiting
    part_times = {part: spent[part] for part in set(PARTS.values())}
    spent |= {"apply": ended - settled - sum(part_times.values()), "settle": settled - begun}
    return spent | {"all": ended - begun, "all_own": time.process_time() - busy}


@contextmanager
def _timed(spent: defaultdict[str, float]) -> Iterator[None]:
    def timed(work: Callable[..., Any], part: str) -> Callable[..., Any]:
        def measured(*args: Any, **options: Any) -> Any:
            started, busy = time.perf_counter(), time.process_time()
            try:
                return work(*args, **options)
            finally:
                spent[part] += time.perf_counter() - started
                spent[f"{part}_own"] += time.process_time() - busy

        return measured

    patches = [patch.object(owner, name, timed(getattr(owner, name), part)) for (owner, name), part in PARTS.items()]
    for change in patches:
        change.start()
    try:
        yield
    finally:
        for change in patches:
            change.stop()


def _tenants(name: str) -> list[Tenant]:
    return Tenant.objects.bulk_create(Tenant(slug=f"{name}-{n}", name=f"Tenant {n}") for n in range(TENANTS))


def _purses(tenants: list[Tenant], poor: int, key: str) -> None:
    """Grant credits to every tenant before a slot. The first `poor` tenants get no more than they spend in it."""
    amounts = [(tenant, LITTLE if number < poor else PLENTY) for number, tenant in enumerate(tenants)]
    postings = [
        Posting(
            key=f"grant:{key}:{tenant.pk}",
            kind="grant",
            entries=((OUTSIDE, -credits * MICRO), (available(tenant.pk), credits * MICRO)),
            at=EPOCH,
        )
        for tenant, credits in amounts
    ]
    assert isinstance(post_many(postings=postings), tuple)


def _report(pool: Pool) -> None:
    """Store a report for each job, with twenty speeds and an outlook by its loss."""
    view, reader = np.random.default_rng(SEED), SpecReader(pool)
    reports = []
    for row in TrainingJob.objects.filter(pool=pool).order_by("pk"):
        job, rest = reader.read(row), float(view.uniform(0.5, 0.9) * row.spec["epochs"])
        alone = elastic_rate(job, 1, 1, (0, 0), 1.0, centralized=False)
        speeds = [(count, count, alone * count**0.8) for count in (1, 2, 4, 8)] * 5
        speed = list(belief_of(job, Running(0, None, LossReports((), tuple(speeds))), None).speed)
        outlook = {"source": FITTED, "epochs_left": rest, "epochs_low": rest, "epochs_high": rest}
        fields = {"speeds": [list(each) for each in speeds], "speed": speed, **outlook}
        reports.append(JobReport(job=row, tenant_id=row.tenant_id, heard_at=EPOCH, **fields))
    JobReport.objects.bulk_create(reports)


def _pool(policy: Mapping[str, Any], poor: int, tenants: list[Tenant], name: str = "") -> Pool:
    pool = Pool.objects.create(
        slug=name or f"{policy['name'].replace('_', '-')[:20]}-{poor}",
        name=policy["name"],
        slot_seconds=300,
        clock_first=1,
        clock_cap=1,
        clock_restart=True,
        batch_policy=dict(policy),
        epoch_at=EPOCH,
    )
    units = {"worker": WORKERS, "ps": PS}
    kinds = {name: ResourceKind.objects.create(pool=pool, name=name, label=name) for name in units}
    servers = Server.objects.bulk_create(Server(pool=pool, name=f"s{number:03}") for number in range(SERVERS))
    ServerCapacity.objects.bulk_create(
        ServerCapacity(pool=pool, server=server, resource=kinds[name], units=count)
        for server in servers
        for name, count in units.items()
    )
    UsePrice.objects.bulk_create(
        UsePrice(pool=pool, resource=kinds[name], from_slot=0, amount=amount, set_at=EPOCH)
        for name, amount in PRICES.items()
    )
    draw = np.random.default_rng(SEED)
    TrainingJob.objects.bulk_create(
        TrainingJob(
            tenant=tenants[number % TENANTS],
            pool=pool,
            name=f"job {number}",
            lane="batch",
            reason_code="waiting_for_interval",
            spec=_spec(draw),
            submitted_at=EPOCH,
            arrival=0.0,
            request_digest="0" * 64,
        )
        for number in range(JOBS)
    )
    return pool


def _spec(draw: np.random.Generator) -> dict[str, Any]:
    """Return a job that has more to do than there are slots."""
    return {
        "epochs": int(draw.integers(*EPOCHS)),
        "chunks": int(draw.integers(4, 17)),
        "minibatches": 200,
        "minibatch_seconds": float(draw.uniform(0.5, 2.0)),
        "gradient_mb": float(draw.uniform(5.0, 100.0)),
        "worker_mbps": 1_000.0,
        "ps_mbps": 2_000.0,
        "worker_demand": {"worker": 1},
        "ps_demand": {"ps": 1},
        "value": {"kind": "linear", "slope": -1.0, "base": 1_000.0},
    }
