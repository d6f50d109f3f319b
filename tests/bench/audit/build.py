"""Builds the intervals: the market decides and settles each in its own way, which takes most of an hour for all.

Every step is a transaction of its own, and notes in the database that it was done. So a build that is interrupted
continues where it ended, and a complete one does nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
from django.db import transaction
from django.db.models import Max

from scheduling.core import records
from scheduling.core.collector import collector_resting
from scheduling.fairness.days import days_rebuild
from scheduling.fairness.intervals import FairnessRows, fairness_catch_up, fairness_rows
from scheduling.feed.events import events_append
from scheduling.market.decide.interval import interval_run
from scheduling.market.decide.submissions import submission_event
from scheduling.market.reads import contents_of
from scheduling.market.settle.slots import slot_settle
from scheduling.market.view.jobs import arrival_of
from scheduling.models import Interval, IntervalFairness, Lane, LaneClock, Pool, PoolDay, TenantFairness, TrainingJob
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.bench.audit.quick import slots_at_once
from tests.bench.owned import analyze
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant, tell_history
from tests.scheduling.markets import SPEC, give

TENANTS, SERVERS, AT_ONCE, SEED = 100, 25, 100, 5
ONE_BY_ONE = 100  # intervals whose figures are worked out and kept as by the market
SLOT_SECONDS = 240  # ten thousand of them are four weeks
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
BY_THE_MARKET = int(os.environ.get("AUDIT_BY_MARKET", "100"))  # slots; the others a hundred at once
MARKET, QUICK, FAIRNESS, AT_ONCE_FIGURES = "market", "market, many at once", "fairness", "fairness, many at once"


class Took:
    """Seconds, processor time and number of each kind of work, over all builds of a folder. They are kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sums: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def work(self, kind: str, work: Callable[[], int]) -> None:
        """Do the work, and add what it took to the sums of its kind. `work` returns how many pieces it did."""
        seconds, processor = time.perf_counter(), time.process_time()
        count = work()
        more = (time.perf_counter() - seconds, time.process_time() - processor, count)
        self.sums[kind] = [a + b for a, b in zip(self.sums.get(kind, [0.0, 0.0, 0]), more, strict=True)]
        self.path.write_text(json.dumps(self.sums), encoding="utf-8")
        print(
            f"{kind}: {self.sums[kind][2]:.0f}, {1e3 * more[0] / max(count, 1):.1f} ms each",
            file=sys.stderr,
            flush=True,
        )


def build(intervals: int, took: Took) -> None:
    """Build at least `intervals` intervals, with their figures of fairness."""
    with scope_disabled("the benchmark fills a whole market"):
        pool = Pool.objects.first() or _new_pool()
        _figures_at_once(pool, took)
        while Interval.objects.count() < intervals:
            _live(pool, took)
            _figures_at_once(pool, took)
        of_days = PoolDay.objects.filter(pool=pool).aggregate(last=Max("last_number"))["last"]
        if of_days != IntervalFairness.objects.filter(pool=pool).aggregate(last=Max("number"))["last"]:
            days_rebuild(pool_id=pool.pk)
        analyze()


@transaction.atomic
def _new_pool() -> Pool:
    """Create the pool and its tenants. Four owners share each server."""
    pool = make_pool(
        "hundred",
        batch_policy={"name": "astraea", "mode": "guarantee"},
        slot_seconds=SLOT_SECONDS,
        epoch_at=EPOCH,
        clock_cap=1,
        clock_restart=False,
    )
    tenants = [make_tenant(f"owner-{number:02}") for number in range(TENANTS)]
    for number in range(SERVERS):
        server = make_server(pool, f"h{number:02}", worker=8, ps=4)
        for tenant in tenants[number::SERVERS]:
            make_cells(server, tenant, {"worker": 2, "ps": 1})
    for tenant in tenants:
        give(tenant, 10**6)
    LaneClock.objects.get_or_create(pool=pool, lane=Lane.BATCH)
    tell_history(pool)
    return pool


def _live(pool: Pool, took: Took) -> None:
    """Decide an interval at each of the next slots, with a job or two."""
    decided = LaneClock.objects.get(pool=pool, lane=Lane.BATCH).decided_slot
    begin = (decided + 1) // AT_ONCE * AT_ONCE
    if not TrainingJob.objects.filter(arrival__gte=begin, arrival__lt=begin + AT_ONCE).exists():
        with transaction.atomic():
            jobs = TrainingJob.objects.bulk_create(_jobs(pool, list(Tenant.objects.order_by("pk")), begin))
            events_append(submission_event(job, at=job.submitted_at) for job in jobs)
        analyze()
    kind, slots = (MARKET, _slots) if begin < BY_THE_MARKET else (QUICK, slots_at_once)
    took.work(kind, partial(slots, pool, decided + 1, begin + AT_ONCE))


def _slots(pool: Pool, first: int, end: int) -> int:
    for slot in range(first, end):
        slot_settle(pool_id=pool.pk, slot=slot - 1, at=pool.slot_start(slot))
        interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    return end - first


def _jobs(pool: Pool, tenants: list[Tenant], begin: int) -> Iterator[TrainingJob]:
    """Yield jobs of one slot, for which a window of one slot has room. Some need more workers than their owner has."""
    draw = np.random.default_rng(SEED + begin)
    for moment in np.sort(draw.uniform(begin, begin + AT_ONCE - 1, size=3 * AT_ONCE // 2)):
        workers, at = int(draw.integers(1, 5)), EPOCH + timedelta(seconds=SLOT_SECONDS * float(moment))
        shape = {"chunks": workers, "max_workers": workers, "min_workers": workers, "minibatches": 2}
        yield TrainingJob(
            tenant=tenants[int(draw.integers(TENANTS))],
            pool=pool,
            name="train",
            lane="batch",
            reason_code="waiting_for_interval",
            spec=SPEC | shape | {"minibatch_seconds": SLOT_SECONDS / 2},
            submitted_at=at,
            arrival=arrival_of(pool, at),
            request_digest="0" * 64,
        )


def _figures_at_once(pool: Pool, took: Took) -> None:
    """Compute the figures of fairness as the market does. After the first ones, a hundred are computed in one
    transaction, and their days at the end."""
    first = min(ONE_BY_ONE, Interval.objects.count()) - IntervalFairness.objects.count()
    if first > 0:
        took.work(FAIRNESS, lambda: fairness_catch_up(most=first))
    while intervals := _without_figures(pool):
        took.work(AT_ONCE_FIGURES, partial(_figures_of, intervals))


def _without_figures(pool: Pool) -> list[Interval]:
    last = IntervalFairness.objects.filter(pool=pool).aggregate(last=Max("number"))["last"] or 0
    return list(Interval.objects.filter(pool=pool, number__gt=last).order_by("number")[:AT_ONCE])


@transaction.atomic
def _figures_of(intervals: list[Interval]) -> int:
    with collector_resting():
        figures = [_figures(interval) for interval in intervals]
        IntervalFairness.objects.bulk_create(rows.interval for rows in figures)
        for rows in figures:
            for row in rows.tenants:
                row.fairness = rows.interval
        TenantFairness.objects.bulk_create((row for rows in figures for row in rows.tenants), batch_size=2_000)
    return len(intervals)


def _figures(interval: Interval) -> FairnessRows:
    contents = contents_of(interval)
    return fairness_rows(interval, records.view_from(contents.view), records.plan_from(contents.plan))
