"""The calendar as this process has read it before, and what was written since: whoever reads it again reads only that.

Every row of the calendar names the transaction that wrote it last. A reading notes for which transactions it was too
early, in the words of PostgreSQL (a snapshot); the next one asks, in the statement by which it reads all else, for the
rows of those that have ended since, and whether one of them changed what the pool consists of. So nobody has to be told
of a change, and whatever the process kept, it answers as one that never read the pool.

What the reading transaction wrote itself it may take back, so a reading that has any of it is not kept. Nor is one of a
database that was restored, emptied or written anew as a whole meanwhile: its transactions are others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from scheduling.core.types import FloatArray
from scheduling.market.view.pool_rows import KEPT

# For one row: the moment, the transaction that reads (which the moment does not count among those at work), the
# database's identity, and whether this very transaction wrote what is read.
MOMENT = """
pg_current_snapshot()::text, coalesce(pg_current_xact_id_if_assigned()::text, '0'),
(SELECT concat_ws(' ', pg_postmaster_start_time(), oid, pg_relation_filenode('scheduling_calendarcell'),
                  pg_relation_filenode('scheduling_shapechange'))
   FROM pg_database WHERE datname = current_database()),
EXISTS(SELECT FROM scheduling_calendarcell
        WHERE pool_id = %(pool)s AND written_by = pg_current_xact_id_if_assigned())
  OR EXISTS(SELECT FROM scheduling_shapechange
             WHERE pool_id = %(pool)s AND written_by = pg_current_xact_id_if_assigned())"""
# Whether a row was written after the moment %(since)s of the transaction %(reader)s. The first lines are for the index.
# In a database that was restored from another one's rows there are numbers that no transaction has had yet.
SINCE = """(written_by >= pg_snapshot_xmin(%(since)s::pg_snapshot)
            AND written_by <= (SELECT greatest(pg_snapshot_xmax(pg_current_snapshot()),
                                               pg_current_xact_id_if_assigned()))
            AND (written_by = %(reader)s::xid8 OR NOT pg_visible_in_snapshot(written_by, %(since)s::pg_snapshot)))"""


@dataclass(frozen=True, eq=False)
class Reading:
    """`text`: of the pool's frame. `held`: by part of the servers, (resources, slots, servers) what both lanes hold
    from `slot` on."""

    moment: str
    reader: str  # the transaction that read
    database: str
    text: str
    slot: int
    held: Mapping[str, FloatArray]


_readings: dict[int, Reading] = {}  # by pool, those that were read last at the end; a reading is never changed
_lock = Lock()


def reading_before(pool_id: int, slot: int) -> Reading | None:
    """What this process knows of the pool from `slot` on, as it was at some moment."""
    reading = _readings.get(pool_id)
    return reading if reading is not None and reading.slot <= slot else None


def reading_keep(pool_id: int, reading: Reading) -> None:
    with _lock:
        _readings.pop(pool_id, None)
        _readings[pool_id] = reading
        for longest_unread in list(_readings)[:-KEPT]:
            del _readings[longest_unread]
