"""Measures the audit of everything in the folder: the overview's page, and a verification from beginning to end.

A verification decides every interval again. The figure is what it takes beyond that replay: to decide for each tenant
alone, to compare rows, sums by day, the ledger and the history, and to keep its pieces. It is given as time by the
clock, and as processor time of this process and of its database, which can be trusted on a machine that others use too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any, Self
from unittest import mock

import psutil
from django.db import connection
from django.test import Client
from django.utils import timezone

from scheduling.audit import rounds as rounds_part
from scheduling.audit.requests import OPEN_AUDITS
from scheduling.audit.rounds import audits_next, verification_round
from scheduling.audit.verification import pieces as pieces_part
from scheduling.audit.verification import walk as walk_part
from scheduling.fairness import intervals as fairness_part
from scheduling.models import (
    OPEN_WORK,
    AuditRun,
    AuditState,
    Interval,
    IntervalFairness,
    Pool,
    TenantFairness,
    VerificationRun,
    WorkState,
)
from tenants.models import User
from tenants.scoping import scope_disabled
from tests.audit.auditors import everything_asked
from tests.bench.audit.build import AT_ONCE_FIGURES, FAIRNESS, MARKET, QUICK, Took
from tests.bench.million.figures import figure, plain
from tests.bench.owned import analyze
from tests.tenants.builders import make_staff

OPENED = 20
LENGTHS = (7, 30, 90)  # days
BUILT = {
    MARKET: "decide and settle an interval, 100 tenants",
    QUICK: "the same, a hundred in one transaction",
    FAIRNESS: "fairness of an interval",
    AT_ONCE_FIGURES: "the same, a hundred in one transaction, with their reading",
}


def main(took: Took) -> None:
    for line in measure(took):
        print(json.dumps(line), flush=True)


def measure(took: Took) -> Iterator[dict[str, Any]]:
    for kind, (seconds, processor, count) in took.sums.items():
        detail = {"processor_ms": round(1e3 * processor / count, 2), "intervals": int(count)}
        yield plain(BUILT[kind], round(1e3 * seconds / count, 1), "ms/interval", "-", detail)
    analyze()
    pool = Pool.objects.get()
    yield from _overview(pool)
    yield from _verification(pool)


def _overview(pool: Pool) -> Iterator[dict[str, Any]]:
    """Measure the overview's page as it opened when the last interval had just been decided."""
    last = IntervalFairness.objects.filter(pool=pool).latest("number").decided_at
    client = Client(SERVER_NAME="localhost")
    with scope_disabled("who looks at everybody"):
        there = {"intervals": IntervalFairness.objects.count(), "rows": TenantFairness.objects.count()}
        auditor = User.objects.first() or make_staff("auditor").user  # of an earlier bench
    client.force_login(auditor, backend="django.contrib.auth.backends.ModelBackend")
    with mock.patch.object(timezone, "now", return_value=last + timedelta(minutes=1)):
        for days in LENGTHS:
            address = f"/fairness/?pool={pool.slug}&days={days}"
            answers = [_opened(client, address) for _ in range(OPENED + 1)][1:]
            sample = {
                "times": sorted(took for took, _ in answers),
                "statuses": sorted({status for _, status in answers}),
            }
            answer = figure(f"open the overview of {days} days", sample, "500", calls=OPENED + 1)
            yield answer | {"detail": answer["detail"] | there}


def _opened(client: Client, address: str) -> tuple[float, int]:
    began = time.perf_counter()
    status = client.get(address).status_code
    return 1e3 * (time.perf_counter() - began), status


class _Watch:
    """A wrapper that adds up the time spent inside a function that others call."""

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

    def __enter__(self) -> Self:
        setattr(self.module, self.name, self)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self.module, self.name, self.inner)


class _Steps(_Watch):
    """A wrapper for a function that is called again and again, with the moments at which it returned."""

    def __init__(self, module: Any, name: str) -> None:
        super().__init__(module, name)
        self.moments = [time.perf_counter()]

    def __call__(self, *args: Any, **options: Any) -> Any:
        result = super().__call__(*args, **options)
        self.moments.append(time.perf_counter())
        return result

    @property
    def longest(self) -> float:
        """Return the most seconds between two returns."""
        return max(b - a for a, b in pairwise(self.moments))


def _verification(pool: Pool) -> Iterator[dict[str, Any]]:
    database = psutil.Process(connection.connection.info.backend_pid)
    before = sum(database.cpu_times()[:2])
    with (
        _Watch(walk_part, "replay") as replayed,
        _Watch(fairness_part, "alone_floors") as alone,
        _Watch(pieces_part, "days_on") as days,
        _Watch(pieces_part, "_ledger") as ledger,
        _Steps(rounds_part, "verification_piece") as pieces,
    ):
        seconds, processor = _everything(pool)
    count = Interval.objects.filter(pool=pool).count()
    per = 1e3 / count
    of_database = (sum(database.cpu_times()[:2]) - before) * per
    detail = {"intervals": count, "processor_ms": processor * per, "database_processor_ms": of_database}
    yield _part("verify, all of it", seconds * per, "-", detail | {"load": os.getloadavg()[0]})
    parts = {
        "the replay": replayed,
        "of the rest: each tenant decided for alone": alone,
        "of the rest: sums by day": days,
        "of the rest: the ledger": ledger,
    }
    for name, part in parts.items():
        yield _part(f"verify, {name}", part.seconds * per, "-", {"processor_ms": part.processor * per})
    rest = {"processor_ms": (processor - replayed.processor) * per, "database_processor_ms": of_database}
    yield _part("verify, beyond the replay", (seconds - replayed.seconds) * per, "5", rest)
    detail = {"states": len(pieces.moments) - 1}
    yield plain("progress: longest time without a new state", round(pieces.longest, 2), "s", "-", detail)


def _everything(pool: Pool) -> tuple[float, float]:
    """Verify everything, as an auditor requests it and the clock's ticks do it. Return real and processor seconds."""
    now = timezone.now()  # what a bench that was broken off has left behind
    AuditRun.objects.filter(state__in=OPEN_AUDITS).update(state=AuditState.CANCELLED, ended_at=now)
    VerificationRun.objects.filter(state__in=OPEN_WORK).update(state=WorkState.CANCELLED, ended_at=now)
    run = everything_asked(pool)
    seconds, processor = time.perf_counter(), time.process_time()
    audits_next(clock=timezone.now)
    while verification_round(clock=timezone.now):
        pass
    took = time.perf_counter() - seconds, time.process_time() - processor
    run.refresh_from_db()
    assert run.is_clean, (run.sentence, run.result)
    return took


def _part(name: str, value: float, target: str, detail: Mapping[str, float]) -> dict[str, Any]:
    rounded = {key: round(part, 2) for key, part in detail.items()}
    return plain(name, round(value, 3), "ms/interval", target, rounded)
