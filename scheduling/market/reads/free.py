"""Read the calendar as everybody may see it: how much of each resource is taken by each lane in a slot, and what is
free.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from scheduling.models import CalendarCell, Lane, LaneClock, Pool, ResourceKind, ServerCapacity, ServerState


@dataclass(frozen=True)
class FreeUnits:
    """One resource in one slot. `units` are those in service now; `decided` says that no later plan changes the
    slot."""

    slot: int
    at: datetime
    resource: str
    units: int
    batch: float
    instant: float
    decided: bool

    @property
    def free(self) -> float:
        return max(self.units - self.batch - self.instant, 0.0)


def free_units(pool: Pool, first: int, end: int) -> list[FreeUnits]:
    """Return every resource in every slot of [first, end). Takes four queries; the longest reads only rows of these
    slots."""
    kinds = list(ResourceKind.objects.filter(pool=pool).order_by("pk"))
    serving = ServerCapacity.objects.filter(pool=pool).exclude(server__state=ServerState.LOST)
    units = dict(serving.order_by().values_list("resource").annotate(Sum("units")))
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    frontier = clock.frontier if clock else 0
    rows = CalendarCell.objects.filter(pool=pool, slot__gte=first, slot__lt=end).order_by()
    sums = rows.values_list("slot", "resource").annotate(Sum("batch"), Sum("instant"))
    amounts = {(slot, resource): (batch, instant) for slot, resource, batch, instant in sums}
    return [
        FreeUnits(
            slot,
            pool.slot_start(slot),
            kind.name,
            units.get(kind.pk, 0),
            *amounts.get((slot, kind.pk), (0.0, 0.0)),
            decided=slot < frontier,
        )
        for slot in range(first, end)
        for kind in kinds
    ]
