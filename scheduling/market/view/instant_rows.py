"""The rows of a pool that the instant lane reads for one answer: the batch lane's clock, then all else in one
statement, because all jobs that wait for the lane's lock wait for each round trip to the database.

A process that has read the pool before reads only what was written since, so the time does not grow with the servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from scheduling.core.types import FloatArray
from scheduling.market.view.held import Held, held_array, held_rows, held_since, held_sql, to_last_held
from scheduling.market.view.kept import MOMENT, SINCE, Reading, reading_before, reading_keep
from scheduling.market.view.pool_rows import POOL_TEXT, rows_of
from scheduling.models import Lane, Part, Pool

_CLOCK = "SELECT settled_slot, frontier, head FROM scheduling_laneclock WHERE pool_id = %(pool)s AND lane = %(lane)s"
_BESIDE = """
       ARRAY(SELECT windows FROM scheduling_interval WHERE pool_id = %(pool)s AND window_end > %(slot)s
              ORDER BY number),
       EXISTS(SELECT FROM scheduling_freedunits WHERE pool_id = %(pool)s AND slot >= %(slot)s AND amount > sold),
       held.*"""
_ALL = f"""
SELECT {MOMENT}, {POOL_TEXT}, {_BESIDE}
  FROM ({held_sql("batch + instant", "AND (batch > 0 OR instant > 0)")}) AS held
"""  # noqa: S608  put together of constants
_NEW = f"""
SELECT {MOMENT}, EXISTS(SELECT FROM scheduling_shapechange WHERE pool_id = %(pool)s AND {SINCE}), {_BESIDE}
  FROM ({held_sql("batch + instant", f"AND {SINCE}")}) AS held
"""  # noqa: S608  put together of constants


@dataclass(frozen=True, eq=False)
class InstantRows:
    """The rows for one answer. `slot` is the first that can be sold; a settled slot is over, even if the clock lags."""

    settled_slot: int
    frontier: int
    head: str  # digest of the batch lane's last interval
    slot: int
    text: str  # of the pool's frame
    windows: Sequence[bytes]  # of the intervals whose windows end after `slot`
    any_freed: bool  # whether units of given-up awards are for sale from `slot` on
    held: Mapping[str, FloatArray]  # part -> (resources, slots, servers): what both lanes hold from `slot` on


class _Read(NamedTuple):
    """One row of `_ALL` or `_NEW`. `shape` is the pool's text (`_ALL`), or whether the text has changed (`_NEW`)."""

    moment: str
    reader: str
    database: str
    own: bool  # whether some of it was written by this transaction
    shape: str | bool
    windows: Sequence[bytes]
    any_freed: bool
    held: Sequence[Held]


def instant_rows(pool: Pool, first: int) -> InstantRows:
    """Read the rows from slot `first` on, or from the first slot that is not over. Needs the scope of all tenants."""
    with connection.cursor() as cursor:
        # A statement of its own: only with the slot as a value does the database know how few rows lie after it.
        cursor.execute(_CLOCK, {"pool": pool.pk, "lane": Lane.BATCH.value})
        settled, frontier, head = cursor.fetchone() or (-1, 0, "")
    slot = max(settled + 1, first)
    before = reading_before(pool.pk, slot)
    read = _read(_NEW, pool, slot, since=before.moment, reader=before.reader) if before else None
    if before is not None and read is not None and not read.shape and read.database == before.database:
        reading = _brought_up(before, read, slot)
    else:
        read = _read(_ALL, pool, slot)
        reading = _as_read(read, slot)
    if not read.own:
        reading_keep(pool.pk, reading)
    held = {part: to_last_held(amounts) for part, amounts in reading.held.items()}
    return InstantRows(settled, frontier, head, slot, reading.text, read.windows, read.any_freed, held)


def _read(statement: str, pool: Pool, slot: int, **since: Any) -> _Read:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"pool": pool.pk, "slot": slot} | since)
        moment, reader, database, own, shape, windows, any_freed, *held = cursor.fetchone()
    windows = [bytes(stored) for stored in windows]
    return _Read(moment, reader, database, own, shape, windows, any_freed, held_rows(*held))


def _as_read(read: _Read, slot: int) -> Reading:
    text = str(read.shape)
    held = {part: held_array(rows_of(text), rows, slot) for part, rows in _by_part(read).items()}
    return Reading(read.moment, read.reader, read.database, text, slot, held)


def _brought_up(before: Reading, read: _Read, slot: int) -> Reading:
    axes, passed = rows_of(before.text), slot - before.slot
    held = {
        part: held_since(axes, before.held[part][:, passed:], rows, slot) if rows or passed else before.held[part]
        for part, rows in _by_part(read).items()
    }
    return Reading(read.moment, read.reader, read.database, before.text, slot, held)


def _by_part(read: _Read) -> Mapping[str, Sequence[Held]]:
    return {part.value: [each for each in read.held if each.part == part] for part in Part}
