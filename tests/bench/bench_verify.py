"""Old intervals among many new ones: the time to replay the whole history grows with its length, and no faster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from scheduling.audit.verification import intervals_verify
from scheduling.feed.events import events_append
from scheduling.market.decide.interval import interval_run
from scheduling.market.decide.submissions import submission_event
from scheduling.market.settle.slots import slot_settle
from scheduling.market.view.jobs import arrival_of
from scheduling.models import Interval, Pool, TrainingJob
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.markets import SPEC, make_market

NEEDS_DATABASE = True

OLD, NEW = 1_000, 10_000
TENANTS, AT_ONCE, SEED = 4, 100, 5
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def measure() -> Iterator[dict[str, Any]]:
    pool, tenants = make_market(
        *(f"tenant-{n}" for n in range(TENANTS)), credits=10**6, clock_cap=1, clock_restart=False, epoch_at=EPOCH
    )
    with scope_disabled("the benchmark fills a whole market"):
        _live(pool, tenants, 0, OLD)
        old = _verified(pool)
        detail = {"own_processor_ms": 1e3 * old.processor / OLD, "intervals": OLD}
        yield _figure("verify, short history", 1e3 * old.seconds / OLD, "ms/interval", "-", **detail)
        seconds = _live(pool, tenants, OLD, OLD + NEW)
        yield _figure("settle and decide a slot of a small pool", 1e3 * seconds / NEW, "ms/slot", "-", slots=NEW)
        whole = _verified(pool)
        detail = {"own_processor_ms": 1e3 * whole.processor / (OLD + NEW), "intervals": OLD + NEW}
        yield _figure("verify, long history", 1e3 * whole.seconds / (OLD + NEW), "ms/interval", "as before", **detail)


def _live(pool: Pool, tenants: list[Tenant], first: int, last: int) -> float:
    """Return the seconds that it takes to settle and decide these slots, with a job or two in each."""
    seconds = 0.0
    for begin in range(first, last, AT_ONCE):
        _submit(pool, tenants, begin)
        started = time.perf_counter()
        for slot in range(begin, min(begin + AT_ONCE, last)):
            slot_settle(pool_id=pool.pk, slot=slot - 1, at=pool.slot_start(slot))
            interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
        seconds += time.perf_counter() - started
    return seconds


def _submit(pool: Pool, tenants: list[Tenant], begin: int) -> None:
    draw = np.random.default_rng(SEED + begin)
    offsets = np.sort(draw.uniform(0, AT_ONCE - 1, size=4 * AT_ONCE // 3))
    moments = [pool.epoch_at + timedelta(seconds=pool.slot_seconds * (begin + float(offset))) for offset in offsets]
    jobs = TrainingJob.objects.bulk_create(
        TrainingJob(
            tenant=tenants[int(draw.integers(TENANTS)) if draw.random() < 0.5 else 0],
            pool=pool,
            name="train",
            lane="batch",
            reason_code="waiting_for_interval",
            # One slot long, so that a window of one slot has room for it.
            spec=SPEC | {"chunks": 2, "max_workers": 2, "minibatches": 2, "epochs": 1},
            submitted_at=at,
            arrival=arrival_of(pool, at),
            request_digest="0" * 64,
        )
        for at in moments
    )
    events_append(submission_event(job, at=job.submitted_at) for job in jobs)


class _Took(NamedTuple):
    seconds: float
    processor: float  # of this process; the machine may be busy with something else


def _verified(pool: Pool) -> _Took:
    started, processor = time.perf_counter(), time.process_time()
    verified = intervals_verify(pool_ids=[pool.pk])
    took = _Took(time.perf_counter() - started, time.process_time() - processor)
    assert verified.is_clean, verified.findings[:5]
    assert verified.intervals == Interval.objects.count() > 0
    return took


def _figure(name: str, value: float, unit: str, target: str, **detail: object) -> dict[str, Any]:
    rounded = {key: round(part, 2) if isinstance(part, float) else part for key, part in detail.items()}
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "detail": rounded}
