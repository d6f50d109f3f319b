"""Read intervals as everybody in the coalition may see them: their times, what they published, and the chain."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from scheduling.market.reads.windows import published_of, slots_dealt
from scheduling.models import Interval, Pool, ResourceKind

NOBODY = -1  # an owner's id that does not exist, where no owner's part is needed


@dataclass(frozen=True)
class OfferedUnits:
    """One resource over an interval's window, in unit-slots. Prices are credits for one unit-slot."""

    resource: str
    offered: float
    sold: float
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class IntervalPublic:
    interval: Interval
    starts_at: datetime | None
    ends_at: datetime | None
    policy: str
    offers: tuple[OfferedUnits, ...]


def interval_rows(pool: Pool) -> QuerySet[Interval]:
    """Return the pool's intervals, without their stored bytes and with the pool's row."""
    return Interval.objects.filter(pool=pool).select_related("pool").defer("view", "plan", "policy", "windows")


def interval_public(pool: Pool, number: int) -> IntervalPublic | None:
    interval = Interval.objects.filter(pool=pool, number=number).select_related("pool").defer("view", "plan").first()
    if interval is None:
        return None
    windows = published_of([interval], NOBODY)
    offers = []
    for index, kind in enumerate(ResourceKind.objects.filter(pool=pool).order_by("pk")):
        prices = [float(price) for window in windows for price in window.prices[index]]
        offers.append(
            OfferedUnits(
                resource=kind.name,
                offered=sum(float(window.offered[index].sum()) for window in windows),
                sold=sum(float(window.sold[index].sum()) for window in windows),
                lowest=min(prices, default=None),
                highest=max(prices, default=None),
            )
        )
    span = slots_dealt(pool, interval)
    return IntervalPublic(
        interval=interval,
        starts_at=pool.slot_start(span[0]) if span else None,
        ends_at=pool.slot_start(span[1]) if span else None,
        policy=str(json.loads(bytes(interval.policy))["name"]),
        offers=tuple(offers),
    )
