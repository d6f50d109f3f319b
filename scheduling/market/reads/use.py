"""Read use over time from the sums by hour: that of a pool, of a tenant's own units, and of each server. Takes at most
three queries, however long the span and the slots are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any

from django.db import connection

from scheduling.models import Pool, PoolHour, TenantHour
from tenants.common.zones import day_of, midnight

HOUR = timedelta(hours=1)
MILLIONTHS = 1_000_000  # in one unit
MOST_HOURS = 24 * 32  # hours of one read
POOL_PARTS = ("used", "rented", "unsold", "down")
OWN_PARTS = ("used", "lent", "unsold", "down")
SUMS = ("hour", "resource_id", "capacity", "rented")
POOL_COLUMNS = (*SUMS, "until_slot", "slots", "priced_slots", "price_sum", "used", "unsold", "down")
OWN_COLUMNS = (*SUMS, *OWN_PARTS)

_GROUPS = """
SELECT chosen.number, kept.hour, sum(kept.capacity), sum(kept.taken), sum(kept.down)
  FROM scheduling_serverhour AS kept
  JOIN unnest(%s::bigint[], %s::int[]) AS chosen (server_id, number) USING (server_id)
 WHERE kept.pool_id = %s AND kept.resource_id = %s AND kept.hour >= %s AND kept.hour < %s
 GROUP BY chosen.number, kept.hour ORDER BY chosen.number, kept.hour
"""


class UseStep(StrEnum):
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True)
class UseColumn:
    """The use of one resource in some slots. `parts` are millionths of a unit, times slots; they add up to `capacity`.
    `rented` is what a tenant rents beside its own units; for a pool it is one of the parts. `price` is the mean of the
    posted prices in credits, or None if none was posted."""

    starts_at: datetime  # of the hour or day
    first_at: datetime  # when the first of its slots began
    ends_at: datetime  # when the last one was over
    resource_id: int
    slots: int
    capacity: int
    parts: Mapping[str, int]
    rented: int
    price: float | None

    def units(self, amount: int) -> float:
        """Return an amount as the average number of units."""
        return amount / MILLIONTHS / self.slots if self.slots else 0.0

    @property
    def unit_slots(self) -> Mapping[str, float]:
        return {name: amount / MILLIONTHS for name, amount in self.parts.items()}

    @property
    def capacity_unit_slots(self) -> float:
        return self.capacity / MILLIONTHS

    @property
    def rented_unit_slots(self) -> float:
        return self.rented / MILLIONTHS


@dataclass(frozen=True)
class GroupUse:
    """The use of some servers together in one hour, in millionths of a unit, times slots."""

    group: int
    hour: datetime
    capacity: int
    taken: int
    down: int


def use_over_time(
    *,
    pool: Pool,
    first: datetime,
    end: datetime,
    step: UseStep,
    tenant_id: int | None = None,
    resource_id: int | None = None,
    zone: tzinfo | None = None,
) -> tuple[UseColumn, ...]:
    """Return the counted use in the hours that begin in [first, end), by time, then resource. Days are those of `zone`,
    or of the reader's zone. With `tenant_id`, return the use of that tenant's own units; this needs its scope."""
    rows = PoolHour.objects.filter(pool=pool, hour__gte=first, hour__lt=end).order_by("hour", "resource")
    if resource_id is not None:
        rows = rows.filter(resource=resource_id)
    hours = list(rows.values_list(*POOL_COLUMNS, named=True))
    own: dict[tuple[datetime, int], Any] = {}
    if tenant_id is not None:
        mine = TenantHour.objects.filter(tenant=tenant_id, pool=pool, hour__gte=first, hour__lt=end)
        mine = mine if resource_id is None else mine.filter(resource=resource_id)
        own = {(row.hour, row.resource_id): row for row in mine.values_list(*OWN_COLUMNS, named=True)}
    groups: dict[tuple[datetime, int], list[Any]] = {}
    for hour in hours:
        start = hour.hour if step == UseStep.HOUR else midnight(day_of(hour.hour, zone), zone)
        groups.setdefault((start, hour.resource_id), []).append(hour)
    return tuple(
        _column(pool, start, group, None if tenant_id is None else [own.get((row.hour, resource)) for row in group])
        for (start, resource), group in groups.items()
    )


def _column(pool: Pool, starts_at: datetime, hours: Sequence[Any], own: Sequence[Any] | None) -> UseColumn:
    """Sum up rows of the pool's hours. `own` has for each of them the tenant's row, or None where there is none."""
    rows = hours if own is None else own
    sums = {
        name: sum(getattr(row, name) for row in rows if row is not None)
        for name in ("capacity", "rented", *(POOL_PARTS if own is None else OWN_PARTS))
    }
    priced = sum(row.priced_slots for row in hours)
    return UseColumn(
        starts_at=starts_at,
        first_at=pool.slot_start(hours[0].until_slot - hours[0].slots),
        ends_at=pool.slot_start(max(row.until_slot for row in hours)),
        resource_id=hours[0].resource_id,
        slots=sum(row.slots for row in hours),
        capacity=sums["capacity"],
        parts={name: sums[name] for name in (POOL_PARTS if own is None else OWN_PARTS)},
        rented=sums["rented"],
        price=sum(row.price_sum for row in hours) / priced if priced else None,
    )


def servers_by_hour(
    *, pool: Pool, resource_id: int, groups: Sequence[Sequence[int]], first: datetime, end: datetime
) -> tuple[GroupUse, ...]:
    """Return the use of groups of servers in the hours that begin in [first, end), by group and hour. `groups` are
    lists of servers' ids."""
    with connection.cursor() as cursor:
        cursor.execute(
            _GROUPS,
            [
                [server for group in groups for server in group],
                [number for number, group in enumerate(groups) for _ in group],
                pool.pk,
                resource_id,
                first,
                end,
            ],
        )
        return tuple(GroupUse(number, hour, *map(int, sums)) for number, hour, *sums in cursor.fetchall())


def hour_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
