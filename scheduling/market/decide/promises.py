"""The promises on a server, which no change to it may break: awards of both lanes, and floors (G1).

A floor stays in its tenant's own world even if its job was served elsewhere, because later floors were planned around
it. Promises on a lost server are void.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection
from django.db.models import Q

from scheduling.market.calendar.lanes import lane_lock
from scheduling.market.calendar.units import ROUNDING, amounts_in
from scheduling.market.view.floors import StandingFloor, floors_standing
from scheduling.market.view.frame import PoolFrame, pool_frame
from scheduling.market.view.jobs import JobReader
from scheduling.models import Lane, Part, Pool, ResourceKind, Server, ServerState, TrainingJob
from tenants.access import Refused
from tenants.scoping import scope_disabled


@dataclass(frozen=True)
class BelowPromise(Refused):
    server: str
    resource: str
    left: float  # units that the change would leave
    promised: float  # the most units promised in any slot to come


class _PromisedPlace(NamedTuple):
    server_id: int
    resource_id: int
    whose: int | str  # a tenant's id, or a part of the server


_Amounts = dict[_PromisedPlace, float]


def lanes_lock(pool: Pool) -> int:
    """Lock both lanes until the change to their cluster commits. Return the slot that is running; earlier slots are
    past."""
    batch = lane_lock(pool_id=pool.pk, lane=Lane.BATCH)
    lane_lock(pool_id=pool.pk, lane=Lane.INSTANT)
    return max(batch.decided_slot, 0) if batch else 0


def promises_kept(pool: Pool, server_ids: Collection[int], slot: int) -> BelowPromise | None:
    """Check these servers as they are after a change, from `slot` on, and return the first promise that no longer fits.

    If all promises fit, write the new capacities into the calendar and return None. A lost server keeps the promises
    for slots before its loss: a late clock has not processed them yet.
    """
    rows = Server.objects.filter(pk__in=server_ids).values_list("pk", "state", "lost_from")
    lost_from = {pk: first or 0 for pk, state, first in rows if state == ServerState.LOST}
    standing = {pk for pk, *_ in rows if lost_from.get(pk, slot + 1) > slot}
    with scope_disabled("a change must leave what is promised to all tenants"):
        floors = _floors(pool, standing, slot)
        frame = pool_frame(pool, also={row.tenant_id for row in floors})
        promised = _booked(pool, standing, slot) | _reserved(frame, floors, standing, slot)
    for place, amount in sorted(promised.items(), key=str):
        if amount > _units_after(frame, place) + ROUNDING:
            return _refusal(place, _units_after(frame, place), amount)
    _learn(frame, standing - lost_from.keys(), slot)
    return None


def _floors(pool: Pool, server_ids: Collection[int], slot: int) -> list[StandingFloor]:
    floors = floors_standing(pool.pk, Q(end__gt=slot, draft=False))  # a draft promises no place
    return [row for row in floors.values() if any(server_id in server_ids for server_id, *_ in row.allocation)]


def _booked(pool: Pool, server_ids: Collection[int], slot: int) -> _Amounts:
    """Return the most that both lanes together hold of each part of a server in any slot."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT server_id, resource_id, part, max(batch + instant) FROM scheduling_calendarcell"
            " WHERE pool_id = %s AND slot >= %s AND server_id = ANY(%s) GROUP BY 1, 2, 3",
            [pool.pk, slot, list(server_ids)],
        )
        return {_PromisedPlace(*place): amount for *place, amount in cursor.fetchall()}


def _reserved(frame: PoolFrame, floors: list[StandingFloor], server_ids: Collection[int], slot: int) -> _Amounts:
    """Return the most that each tenant's floors take of a server in any slot."""
    reader = JobReader(frame)
    jobs = {row.pk: reader.read(row) for row in TrainingJob.objects.filter(pk__in=[row.job_id for row in floors])}
    by_slot: defaultdict[tuple[_PromisedPlace, int], float] = defaultdict(float)
    for row in floors:
        job = jobs[row.job_id]
        worker, ps = job.worker_types[row.worker_type].demand, job.ps_types[row.ps_type].demand
        for unit, amount in amounts_in(row.allocation, (), worker, ps, frame.resource_ids, since=slot).items():
            if unit.server_id in server_ids:
                by_slot[_PromisedPlace(unit.server_id, unit.resource_id, row.tenant_id), unit.slot] += amount
    most: defaultdict[_PromisedPlace, float] = defaultdict(float)
    for (place, _), amount in by_slot.items():
        most[place] = max(most[place], amount)
    return dict(most)


def _units_after(frame: PoolFrame, place: _PromisedPlace) -> float:
    """Return the units at this place after the change."""
    resource, server = frame.resource_index[place.resource_id], frame.server_index[place.server_id]
    if isinstance(place.whose, int):
        return float(frame.cells[resource, frame.tenant_index[place.whose], server])
    if place.whose == Part.HOME:
        return float(frame.batch_cluster.capacity[resource, server])
    return float(frame.cluster.operator_cells[resource, server])


def _refusal(place: _PromisedPlace, rest: float, promised: float) -> BelowPromise:
    server, resource = Server.objects.get(pk=place.server_id).name, ResourceKind.objects.get(pk=place.resource_id).name
    sentence = f"{promised:g} units of {resource} on {server} are promised; the change would leave {rest:g}."
    return BelowPromise("below_promise", sentence, server, resource, rest, promised)


def _learn(frame: PoolFrame, server_ids: Collection[int], slot: int) -> None:
    """Write the new capacities into the calendar, whose rows carry the capacity that they are checked against."""
    places = [
        (server_id, resource_id, part.value)
        for server_id in server_ids
        for resource_id in frame.resource_ids
        for part in Part
    ]
    capacities = [_units_after(frame, _PromisedPlace(*place)) for place in places]
    if not places:
        return
    columns = [list(column) for column in zip(*places, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_LEARN, [*columns, capacities, slot])


_LEARN = """
UPDATE scheduling_calendarcell AS cell SET capacity = now.capacity
  FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::float8[]) AS now (server, resource, part, capacity)
 WHERE cell.server_id = now.server AND cell.resource_id = now.resource AND cell.part = now.part
   AND cell.slot >= %s AND cell.capacity <> now.capacity
"""
