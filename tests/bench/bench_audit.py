"""Ten thousand intervals of a hundred tenants: what the audit costs, and a month in which every promise is kept.

AUDIT_INTERVALS=500 for a quick look: the market decides and settles each interval in its own way, which takes most of
the time. A verification decides everything again, together and for each tenant alone; what it takes beyond that is
listed apart, as time on the clock and as processor time of this process and of its database. Everything is counted:
pieces and how they are kept, the sums by day, the ledger and the history.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psutil
from django.db import connection
from django.db.models import Max
from django.utils import timezone

from scheduling.core import records
from scheduling.models import Interval, IntervalFairness, Pool, TenantFairness, TrainingJob
from scheduling.services import fairness as fairness_part
from scheduling.services.audit_rounds import audits_next, verification_round
from scheduling.services.chain import contents_of
from scheduling.services.collector import collector_resting
from scheduling.services.fairness import FairnessRows, fairness_catch_up, fairness_rows
from scheduling.services.fairness_days import days_rebuild
from scheduling.services.intervals import interval_run
from scheduling.services.settlement import slot_settle
from scheduling.services.verification import pieces as pieces_part
from scheduling.services.verification import walk as walk_part
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.journeys import month
from tests.scheduling.auditors import everything_asked
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.markets import SPEC, give

NEEDS_DATABASE = True

INTERVALS = int(os.environ.get("AUDIT_INTERVALS", "10000"))
TENANTS, SERVERS, AT_ONCE, SEED = 100, 25, 100, 5
MEASURED = 100  # intervals whose figures are written one by one, as by the market
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def measure() -> Iterator[dict[str, Any]]:
    yield _month()
    pool, tenants = make_market()
    with scope_disabled("the benchmark fills a whole market"):
        build = _timed(lambda: live(pool, tenants, INTERVALS))
        yield _figure("decide and settle, 100 tenants", 1e3 * build[0] / INTERVALS, "ms/interval", "-")
        some = min(MEASURED, INTERVALS - 1)
        fair = _timed(lambda: fairness_catch_up(most=some))
        detail = {"processor_ms": 1e3 * fair[1] / some}
        yield _figure("fairness of an interval", 1e3 * fair[0] / some, "ms/interval", "-", **detail)
        _figures_at_once(pool)
    yield from _verification(pool)


def _month() -> dict[str, Any]:
    """Finer slots and more work than the test has."""
    pool, tenants = month.make_month(slot_seconds=2 * 3600)
    lost = month.live(pool, tenants, month.DAYS * 12, jobs=2.0)
    found = month.promises(pool, servers_lost=lost)
    assert not found.broken, found.broken[:5]
    detail = {"intervals": found.intervals, "awards": found.awards, "servers_lost": lost, "broken": 0}
    return _figure("certificates kept in a month of ten tenants", found.certificates, "certificates", "all", **detail)


def make_market() -> tuple[Pool, list[Tenant]]:
    """Four owners share each server."""
    pool = make_pool(
        "hundred",
        batch_policy={"name": "astraea", "mode": "guarantee"},
        epoch_at=EPOCH,
        clock_cap=1,
        clock_restart=False,
    )
    tenants = [make_tenant(f"owner-{number}") for number in range(TENANTS)]
    for number in range(SERVERS):
        server = make_server(pool, f"h{number:02}", worker=8, ps=4)
        for tenant in tenants[number::SERVERS]:
            make_cells(server, tenant, {"worker": 2, "ps": 1})
    for tenant in tenants:
        give(tenant, 10**6)
    return pool, tenants


def live(pool: Pool, tenants: list[Tenant], slots: int) -> None:
    """An interval at each slot, with a job or two."""
    for begin in range(0, slots, AT_ONCE):
        TrainingJob.objects.bulk_create(_jobs(pool, tenants, begin))
        for slot in range(begin, min(begin + AT_ONCE, slots)):
            slot_settle(pool_id=pool.pk, slot=slot - 1, at=pool.slot_start(slot))
            interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))


def _jobs(pool: Pool, tenants: list[Tenant], begin: int) -> Iterator[TrainingJob]:
    """One slot long, so that a window of one slot has room for them; some need more workers than their owner has."""
    draw = np.random.default_rng(SEED + begin)
    for moment in np.sort(draw.uniform(begin, begin + AT_ONCE - 1, size=3 * AT_ONCE // 2)):
        workers = int(draw.integers(1, 5))
        yield TrainingJob(
            tenant=tenants[int(draw.integers(TENANTS))],
            pool=pool,
            name="train",
            lane="batch",
            reason_code="waiting_for_interval",
            spec=SPEC | {"chunks": workers, "max_workers": workers, "min_workers": workers, "minibatches": 2},
            submitted_at=EPOCH,
            arrival=float(moment),
            request_digest="0" * 64,
        )


def _figures_at_once(pool: Pool) -> None:
    """The rest of them as the market works them out, but written many at once, and their days at the end."""
    last = IntervalFairness.objects.filter(pool=pool).aggregate(last=Max("number"))["last"]
    while intervals := list(Interval.objects.filter(pool=pool, number__gt=last).order_by("number")[:AT_ONCE]):
        with collector_resting():
            found = [_figures(interval) for interval in intervals]
            IntervalFairness.objects.bulk_create(rows.interval for rows in found)
            for rows in found:
                for row in rows.tenants:
                    row.fairness = rows.interval
            TenantFairness.objects.bulk_create((row for rows in found for row in rows.tenants), batch_size=2_000)
        last = intervals[-1].number
    days_rebuild(pool_id=pool.pk)


def _figures(interval: Interval) -> FairnessRows:
    contents = contents_of(interval)
    return fairness_rows(interval, records.view_from(contents.view), records.plan_from(contents.plan))


class _Watch:
    """Time spent inside a function that others call."""

    def __init__(self, module: Any, name: str) -> None:
        self.module, self.name, self.inner = module, name, getattr(module, name)
        self.seconds = self.processor = 0.0

    def __call__(self, *args: Any, **options: Any) -> Any:
        seconds, processor = time.perf_counter(), time.process_time()
        try:
            return self.inner(*args, **options)
        finally:
            self.seconds += time.perf_counter() - seconds
            self.processor += time.process_time() - processor

    def __enter__(self) -> _Watch:
        setattr(self.module, self.name, self)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self.module, self.name, self.inner)


def _verification(pool: Pool) -> Iterator[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    database = psutil.Process(connection.connection.info.backend_pid)
    before = sum(database.cpu_times()[:2])
    with (
        _Watch(walk_part, "replay") as replayed,
        _Watch(fairness_part, "alone_plans") as alone,
        _Watch(pieces_part, "days_on") as days,
        _Watch(pieces_part, "_ledger") as ledger,
    ):
        seconds, processor = _timed(lambda: _everything(pool))
    count = Interval.objects.filter(pool=pool).count()
    per = 1e3 / count
    detail = {"intervals": count, "processor_ms": processor * per}
    detail["database_processor_ms"] = (sum(database.cpu_times()[:2]) - before) * per
    yield _figure("verify, all of it", seconds * per, "ms/interval", "-", **detail)
    parts = {
        "the replay": replayed,
        "each tenant decided for alone": alone,
        "of the rest: sums by day": days,
        "of the rest: the ledger": ledger,
    }
    for name, part in parts.items():
        detail = {"processor_ms": part.processor * per}
        yield _figure(f"verify, {name}", part.seconds * per, "ms/interval", "-", **detail)
    rest, rest_processor = seconds - replayed.seconds - alone.seconds, processor - replayed.processor - alone.processor
    detail = {"processor_ms": rest_processor * per}
    yield _figure("verify, beyond deciding again", rest * per, "ms/interval", "5", **detail)


def _everything(pool: Pool) -> None:
    """As an auditor asks for it and the clock's ticks do it."""
    run = everything_asked(pool)
    audits_next(clock=timezone.now, seed=b"of a benchmark")
    while verification_round(clock=timezone.now):
        pass
    run.refresh_from_db()
    assert run.is_clean, (run.sentence, run.result)


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of this process."""
    seconds, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - seconds, time.process_time() - processor


def _figure(name: str, value: float, unit: str, target: str, **detail: object) -> dict[str, Any]:
    rounded = {key: round(part, 2) if isinstance(part, float) else part for key, part in detail.items()}
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "detail": rounded}
