"""Compute which units an award holds in each slot, and enter single awards into the calendar or remove them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection

from scheduling.core.types import FloatArray
from scheduling.market.view.specs import SpecReader
from scheduling.models import Award, Lane, Part, Pool, TrainingJob

ROUNDING = 1e-9  # amounts are sums of decimals; the calendar's constraints use the same tolerance


class UnitsMissing(RuntimeError):
    """The calendar does not have the units that are to be released, though it had promised to hold them."""


class CalendarUnit(NamedTuple):
    """One place in the calendar."""

    server_id: int
    resource_id: int
    part: str
    slot: int


Units = Mapping[CalendarUnit, float]  # amounts


class UnitReader:
    """Computes which units the awards of one pool hold."""

    def __init__(self, pool: Pool) -> None:
        self._specs = SpecReader(pool)

    def units_of(self, award: Award, job: TrainingJob, *, since: int) -> dict[CalendarUnit, float]:
        """Return what the award holds from slot `since` on. From its cut on it holds nothing."""
        spec = self._specs.read(job)
        worker, ps = spec.worker_types[award.worker_type].demand, spec.ps_types[award.ps_type].demand
        ids = self._specs.resource_ids
        amounts = amounts_in(award.allocation, award.on_operator, worker, ps, ids, since=since)
        if award.cut_at is None:
            return amounts
        return {unit: amount for unit, amount in amounts.items() if unit.slot < award.cut_at}


def amounts_in(
    allocation: Iterable[Sequence[int]],
    on_operator: Iterable[Sequence[int]],
    worker: FloatArray,
    ps: FloatArray,
    resource_ids: Sequence[int],
    *,
    since: int,
) -> dict[CalendarUnit, float]:
    """Return the amounts that stored rows hold, from slot `since` on. `on_operator` is the part of `allocation` that
    lies on the operator's units; the rest lies in home cells."""
    amounts: defaultdict[CalendarUnit, float] = defaultdict(float)
    for rows, signs in ((allocation, {Part.HOME: 1.0}), (on_operator, {Part.HOME: -1.0, Part.OPERATOR: 1.0})):
        for server_id, start, end, workers, servers in rows:
            for resource_id, amount in zip(resource_ids, workers * worker + servers * ps, strict=True):
                for slot in range(max(start, since), end if amount else 0):
                    for part, sign in signs.items():
                        amounts[CalendarUnit(server_id, resource_id, part.value, slot)] += sign * float(amount)
    return {unit: amount for unit, amount in sorted(amounts.items()) if amount > ROUNDING}


def units_take(pool_id: int, units: Units, capacities: Mapping[tuple[int, int, str], float]) -> None:
    """Enter these units into the calendar for the instant lane. `capacities` maps (server, resource, part) to the
    capacity there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_calendarcell"
            " (pool_id, server_id, resource_id, part, slot, capacity, batch, instant)"
            " SELECT %s, server_id, resource_id, part, slot, capacity, 0, amount"
            "   FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::float8[], %s::float8[])"
            "        AS units (server_id, resource_id, part, slot, amount, capacity)"
            " ON CONFLICT (server_id, resource_id, part, slot)"
            " DO UPDATE SET instant = scheduling_calendarcell.instant + EXCLUDED.instant,"
            "               capacity = EXCLUDED.capacity",
            [pool_id, *_columns(units), [capacities[unit[:3]] for unit in sorted(units)]],
        )


def units_release(lane: Lane, units: Units) -> None:
    """Remove these units of a lane from the calendar."""
    column = Lane(lane).value
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE scheduling_calendarcell AS cell SET {column} ="  # noqa: S608  the name is one of two words
            f" CASE WHEN abs(cell.{column} - back.amount) < {ROUNDING} THEN 0 ELSE cell.{column} - back.amount END"
            "   FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::float8[])"
            "        AS back (server_id, resource_id, part, slot, amount)"
            " WHERE (cell.server_id, cell.resource_id, cell.part, cell.slot)"
            "     = (back.server_id, back.resource_id, back.part, back.slot)",
            _columns(units),
        )
        if cursor.rowcount != len(units):
            raise UnitsMissing(f"{len(units) - cursor.rowcount} of {len(units)} units are not in the calendar")


def _columns(units: Units) -> list[list[Any]]:
    """Return the units as columns, in the order of the primary key, so that two writers lock rows in the same order."""
    rows = sorted(units.items())
    return [*([unit[column] for unit, _ in rows] for column in range(4)), [amount for _, amount in rows]]
