"""Read which interval dealt out a slot, and what it published: prices, units for sale by owner, and units sold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection

from scheduling.core import records
from scheduling.core.types import FloatArray
from scheduling.models import Interval, Pool


@dataclass(frozen=True)
class WindowSpan:
    """An interval's number and the slots [start, end) that it dealt out."""

    pool_id: int
    number: int
    start: int
    end: int


def slots_dealt(pool: Pool, interval: Interval) -> tuple[int, int] | None:
    """Return the slots [start, end) that an interval dealt out: those of its window, in an elastic pool the one that it
    decided. Return None if only reasons or the clock changed."""
    if pool.is_elastic:
        return interval.slot, interval.slot + 1
    if interval.window_start is None or interval.window_end is None:
        return None
    return interval.window_start, interval.window_end


@dataclass(frozen=True, eq=False)
class Published:
    """One stored window, with one owner's part. Arrays are (resources, slots)."""

    number: int
    start: int
    end: int
    prices: FloatArray
    offered: FloatArray  # by all owners
    mine: FloatArray  # the part of `offered` that is this owner's
    sold: FloatArray
    kappa: float | None = None  # the posted multiple of the usual value of a unit-slot, where the price was searched
    scores: tuple[float, ...] = ()  # the score of each multiple that was tried, in credits

    @property
    def my_sold(self) -> FloatArray:
        """The owner's part of the sold units. A sale is split in proportion to what each owner offered in the slot;
        revenue is shared the same way."""
        ratio: FloatArray = self.mine / self.offered.clip(min=1e-12)
        part: FloatArray = self.sold * ratio
        return part


def spans_of(slots: Iterable[tuple[int, int]]) -> dict[tuple[int, int], WindowSpan]:
    """Map (pool id, slot) to the interval whose window contains the slot. Slots that no interval dealt out are left
    out. Takes one query."""
    slots_wanted = sorted(set(slots))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT place.pool_id, place.slot, i.number, i.window_start, i.window_end"
            "  FROM unnest(%s::bigint[], %s::bigint[]) AS place (pool_id, slot)"
            "  JOIN LATERAL (SELECT number, window_start, window_end FROM scheduling_interval"
            "                 WHERE pool_id = place.pool_id AND window_end > place.slot"
            "                 ORDER BY window_end LIMIT 1) AS i ON i.window_start <= place.slot",
            [[pool_id for pool_id, _ in slots_wanted], [slot for _, slot in slots_wanted]],
        )
        return {(pool_id, slot): WindowSpan(pool_id, *rest) for pool_id, slot, *rest in cursor.fetchall()}


def published_of(intervals: Sequence[Interval], owner_id: int) -> list[Published]:
    """Return all windows of these intervals, in order, with the part of this owner."""
    return [window for interval in intervals for window in _read(interval, owner_id)]


def intervals_between(pool: Pool, first: int, last: int, *, most: int) -> list[Interval]:
    """Read the intervals with windows that touch the slots [first, last), the newest first. Only the columns of their
    windows are read."""
    rows = Interval.objects.filter(pool=pool, window_end__gt=first, window_start__lt=last)
    return list(
        rows.only("id", "pool", "number", "window_start", "window_end", "windows").order_by("-window_end")[:most]
    )


def _read(interval: Interval, owner_id: int) -> list[Published]:
    first, rest = bytes(interval.windows).split(b"\n", 1)
    owners = json.loads(first)["owners"]
    index = owners.index(owner_id) if owner_id in owners else None
    windows = records.plan_from(rest).windows
    return [
        Published(
            number=interval.number,
            start=window.start,
            end=window.end,
            prices=window.prices,
            offered=window.idle.sum(axis=1),
            mine=window.idle[:, index] if index is not None else window.idle.sum(axis=1) * 0.0,
            sold=window.rented,
            kappa=window.kappa,
            scores=window.scores,
        )
        for window in windows
    ]
