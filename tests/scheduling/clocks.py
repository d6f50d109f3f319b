"""A contested market, time that passes in it, and everything that it decided, to compare two runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Any
from unittest import mock

from django.utils import timezone

from scheduling.app.clock import Advanced, pool_advance
from scheduling.models import Award, Event, Interval, JobFloor, LaneClock, Pool, TrainingJob
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.markets import make_market, make_waiting


@contextmanager
def noon() -> Iterator[None]:
    """While this is open it was noon of today when it was opened: what happened a minute ago is of the same day."""
    real = timezone.now
    until_noon = datetime.combine(real().date(), time(12), UTC) - real()

    def now() -> datetime:
        return real() + until_noon

    with mock.patch.object(timezone, "now", now):
        yield


def contested() -> tuple[Pool, list[Tenant]]:
    """Create a market with five jobs of Lumen and one of Castor on eight workers. Some of Lumen's rent from Castor."""
    pool, (lumen, castor) = make_market("lumen", "castor")
    for arrival in (0.1, 0.2, 1.2, 1.3, 9.5):
        make_waiting(pool, lumen, arrival)
    make_waiting(pool, castor, 0.3, epochs=2)
    return pool, [lumen, castor]


def advance(pool: Pool, slot: float) -> Advanced:
    return pool_advance(pool_id=pool.pk, at=moment(pool, slot))


def moment(pool: Pool, slot: float) -> datetime:
    return pool.epoch_at + timedelta(seconds=slot * pool.slot_seconds)


def everything() -> dict[str, list[Any]]:
    """Return everything that the market decided, without ids given by sequences."""
    with scope_disabled("the test compares whole markets"):
        return {
            "clocks": list(LaneClock.objects.order_by("lane").values_list("lane", "settled_slot", "frontier", "head")),
            "jobs": list(TrainingJob.objects.order_by("pk").values_list("state", "reason_code", "ended_at")),
            "awards": [(row.start, row.end, row.state, row.paid, row.charges) for row in Award.objects.order_by("pk")],
            "floors": list(JobFloor.objects.order_by("pk").values_list("start", "end", "value")),
            "intervals": list(Interval.objects.order_by("number").values_list("number", "slot", "paid", "digest")),
            "events": list(Event.objects.order_by("pk").values_list("kind", "at")),
        }
