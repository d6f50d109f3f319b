"""Read posted prices of both lanes, slot by slot: present, coming and past ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

from django.db.models import Max

from scheduling.models import Lane, Pool, PriceTick, ResourceKind


@dataclass(frozen=True)
class PostedPrice:
    """One resource in one slot of one lane. The price is credits per unit and slot; None where none is posted."""

    slot: int
    at: datetime
    lane: str
    resource: str
    price: float | None
    offered: float
    sold: float


class PricesOfSlots(Sequence[PostedPrice]):
    """The prices of every slot of [first, end) and every resource in it, in that order, whether one is posted or not.

    The slot of a line follows from its index, so a page of this list reads only its own slots from the database.
    """

    def __init__(self, pool: Pool, lane: str, kinds: Sequence[ResourceKind], first: int, end: int) -> None:
        self._pool, self._lane, self._kinds, self._first = pool, lane, list(kinds), first
        self._slots = max(end - first, 0)

    def __len__(self) -> int:
        return self._slots * len(self._kinds)

    @overload
    def __getitem__(self, index: int) -> PostedPrice: ...
    @overload
    def __getitem__(self, index: slice) -> list[PostedPrice]: ...
    def __getitem__(self, index: int | slice) -> PostedPrice | list[PostedPrice]:
        places = range(len(self))[index]
        if isinstance(places, int):
            return self._lines([places])[0]
        return self._lines(places)

    def _lines(self, places: Sequence[int]) -> list[PostedPrice]:
        if not places:
            return []
        kinds = len(self._kinds)
        first, last = self._first + min(places) // kinds, self._first + max(places) // kinds
        rows = PriceTick.objects.filter(
            pool=self._pool, lane=self._lane, resource__in=self._kinds, slot__gte=first, slot__lte=last
        )
        ticks = {(row.slot, row.resource_id): row for row in rows}
        lines = []
        for place in places:
            slot, kind = self._first + place // kinds, self._kinds[place % kinds]
            lines.append(self._line(slot, kind, ticks.get((slot, kind.pk))))
        return lines

    def _line(self, slot: int, kind: ResourceKind, tick: PriceTick | None) -> PostedPrice:
        return PostedPrice(
            slot=slot,
            at=self._pool.slot_start(slot),
            lane=self._lane,
            resource=kind.name,
            price=tick.price if tick else None,
            offered=tick.offered if tick else 0.0,
            sold=tick.sold if tick else 0.0,
        )


def resource_kinds(pool: Pool) -> list[ResourceKind]:
    """Return the pool's resources in their order."""
    return list(ResourceKind.objects.filter(pool=pool).order_by("pk"))


def prices_now(pool: Pool, slot: int, kinds: Sequence[ResourceKind] = ()) -> list[PostedPrice]:
    """Return the prices of the running slot, those of the batch lane first. `kinds` are the pool's resources, if the
    caller has read them already."""
    kinds = kinds or resource_kinds(pool)
    return [line for lane in (Lane.BATCH, Lane.INSTANT) for line in PricesOfSlots(pool, lane, kinds, slot, slot + 1)[:]]


def posted_until(pool: Pool, lane: str, kinds: Sequence[ResourceKind], slot: int) -> int:
    """Return the first slot, not before `slot`, from which on the lane has posted nothing."""
    ticks = PriceTick.objects.filter(pool=pool, lane=lane, resource__in=kinds, slot__gte=slot)
    return max((ticks.aggregate(last=Max("slot"))["last"] or slot - 1) + 1, slot)
