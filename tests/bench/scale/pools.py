"""Many pools of 50 servers with slots of a minute: at each minute, all of them have a boundary to do at once.

Workers are processes with connections of their own, two for a machine. They take the next pool from one queue, as those
of the broker do. In each minute a quarter of the pools close an interval, for their clocks began in different minutes;
the others settle a slot and read the pool. A pool is late if it is not done when the next minute begins.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connections

from scheduling.app.clock import pool_advance
from scheduling.models import (
    Award,
    Cell,
    Interval,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    TenantPolicy,
)
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, Posting, available
from tenants.ledger.services import post_many
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.bench.bench_interval import EPOCH, jobs_submit
from tests.bench.owned import analyze
from tests.bench.scale.settle import database_seconds

SIZES = (20, 200)  # pools
WORKERS = 2  # of a machine
SERVERS, MEMBERS, WINDOW, MINUTE = 50, 5, 4, 60
WAITING, ARRIVE = 40, 5  # jobs of each pool: at first, and in each minute
WARM, MEASURED = WINDOW, WINDOW  # minutes


@dataclass(frozen=True)
class Done:
    """A boundary of a pool: when it was done, and what it took of two processes, the worker's and its database's."""

    pool_id: int
    at: float
    seconds: float
    processor: float
    database: float


def measure(size: int, workers: int = WORKERS) -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills many markets"):
        pools = _pools(size)
        for pool in pools:
            jobs_submit(pool, WAITING + ARRIVE * (WARM + MEASURED), arrivals=(0.0, float(WARM + MEASURED)))
        analyze()
    minutes = _minutes(pools, workers)[WARM:]
    done = [each for _, pools_done in minutes for each in pools_done]
    longest = max(seconds for seconds, _ in minutes)
    late = sum(1 for began, pools_done in minutes for each in pools_done if each.at > MINUTE)
    work = sum(each.processor + each.database for each in done) / len(minutes)
    with scope_disabled("the benchmark counts what came of it"):
        detail = {
            "workers": workers,
            "minutes": len(minutes),
            "longest_minute_s": round(longest, 2),
            "ms_a_pool": round(1000 * sum(each.seconds for each in done) / len(done), 1),
            "worker_processor_s": round(sum(each.processor for each in done) / len(minutes), 2),
            "database_processor_s": round(sum(each.database for each in done) / len(minutes), 2),
            "longest_pool_ms": round(1000 * max(each.seconds for each in done)),
            "intervals": Interval.objects.count(),
            "awards": Award.objects.count(),
        }
    yield {"name": f"pools late, {workers} workers", "value": late, "unit": "pools", "target": "0", "detail": detail}
    about = {"of": f"{workers} cores have {workers * MINUTE} s"}
    name = f"processor time of a minute of all pools, {workers} workers"
    yield {"name": name, "value": round(work, 2), "unit": "s", "target": None, "detail": about}


def _pools(number: int) -> list[Pool]:
    """Create the pools. Each tenant is in five of them, as lender and as borrower."""
    names = [f"tenant-{n}" for n in range(max(number, MEMBERS))]
    tenants = Tenant.objects.bulk_create([Tenant(slug=name, name=name) for name in names])
    grants = [
        Posting(f"grant:{t.pk}", "grant", ((OUTSIDE, -(10**6) * MICRO), (available(t.pk), 10**6 * MICRO)), EPOCH)
        for t in tenants
    ]
    assert isinstance(post_many(postings=grants), tuple)
    return [_pool(n, [tenants[(n + step) % len(tenants)] for step in range(MEMBERS)]) for n in range(number)]


def _pool(number: int, members: list[Tenant]) -> Pool:
    fixed = {"mode": "guarantee", "theta": {"worker": 4.0, "ps": 4.0}, "price_floor": {"worker": 0.05, "ps": 0.05}}
    pool = Pool.objects.create(
        slug=f"pool-{number}",
        name=f"Pool {number}",
        slot_seconds=MINUTE,
        clock_first=WINDOW,
        clock_cap=WINDOW,
        clock_restart=False,
        batch_policy={"name": "astraea", **fixed},
        instant_policy={"name": "oasis"},
        epoch_at=EPOCH - timedelta(seconds=MINUTE * (number % WINDOW)),
    )
    kinds = [ResourceKind.objects.create(pool=pool, name=name, label=name) for name in ("worker", "ps")]
    machines = Server.objects.bulk_create([Server(pool=pool, name=f"s{n}") for n in range(SERVERS)])
    units = list(zip(kinds, (8, 2), strict=True))
    ServerCapacity.objects.bulk_create(
        [ServerCapacity(pool=pool, server=server, resource=kind, units=n) for server in machines for kind, n in units]
    )
    Cell.objects.bulk_create(
        [
            Cell(tenant=members[index * MEMBERS // SERVERS], server=server, resource=kind, units=n)
            for index, server in enumerate(machines)
            for kind, n in units
        ]
    )
    TenantPolicy.objects.bulk_create([TenantPolicy(pool=pool, tenant=tenant) for tenant in members])
    return pool


def _minutes(pools: list[Pool], workers: int) -> list[tuple[float, list[Done]]]:
    """Return for each minute how long it took until all pools were done, and the boundary of each pool."""
    connections.close_all()
    context = multiprocessing.get_context("fork")
    due, done = context.Queue(), context.Queue()
    processes = [context.Process(target=_work, args=(due, done)) for _ in range(workers)]
    for process in processes:
        process.start()
    minutes = []
    for minute in range(WARM + MEASURED):
        at, began = EPOCH + timedelta(seconds=MINUTE * minute + 1), time.perf_counter()
        for pool in pools:
            due.put((pool.pk, at, began))
        each = [done.get() for _ in pools]
        minutes.append((time.perf_counter() - began, each))
    for _ in processes:
        due.put(None)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return minutes


def _work(due: Any, done: Any) -> None:
    """Advance the next pool, as a task of the clock does, until there is no more."""
    while (task := due.get()) is not None:
        pool_id, at, minute_began = task
        began, own, database = time.perf_counter(), time.process_time(), database_seconds()
        pool_advance(pool_id=pool_id, at=at)
        ended = time.perf_counter()
        spent = time.process_time() - own, database_seconds() - database
        done.put(Done(pool_id, ended - minute_began, ended - began, *spent))
