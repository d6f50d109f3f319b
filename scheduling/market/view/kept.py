"""A cache, in each process, of the calendar as it was last read, so that the next reading needs only later changes.

Every row of the calendar names the transaction that wrote it last. A reading keeps PostgreSQL's snapshot, which says
which transactions it could not see yet. The next reading asks, in the same statement that reads all else, for the rows
of transactions that have ended since, and whether one of them changed what the pool consists of. So nothing has to be
invalidated, and a process with a cache answers exactly as one that never read the pool.

A transaction may still roll back what it wrote, so a reading that contains rows of the reading transaction itself is
not kept. Neither is one used after the database was restored, emptied or rewritten as a whole: its transactions are
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from scheduling.core.types import FloatArray
from scheduling.market.view.pool_rows import CACHE_SIZE

# Four columns: the moment (a snapshot), the transaction that reads (which the snapshot does not list as running), the
# identity of the database, and whether the reading transaction itself wrote any of what is read.
MOMENT = """
pg_current_snapshot()::text, coalesce(pg_current_xact_id_if_assigned()::text, '0'),
(SELECT concat_ws(' ', pg_postmaster_start_time(), oid, pg_relation_filenode('scheduling_calendarcell'),
                  pg_relation_filenode('scheduling_shapechange'))
   FROM pg_database WHERE datname = current_database()),
EXISTS(SELECT FROM scheduling_calendarcell
        WHERE pool_id = %(pool)s AND written_by = pg_current_xact_id_if_assigned())
  OR EXISTS(SELECT FROM scheduling_shapechange
             WHERE pool_id = %(pool)s AND written_by = pg_current_xact_id_if_assigned())"""
# Whether a row was written after the moment %(since)s at which the transaction %(reader)s read. The first lines let the
# index be used. In a database restored from another one's rows, rows can name transactions that do not exist yet.
SINCE = """(written_by >= pg_snapshot_xmin(%(since)s::pg_snapshot)
            AND written_by <= (SELECT greatest(pg_snapshot_xmax(pg_current_snapshot()),
                                               pg_current_xact_id_if_assigned()))
            AND (written_by = %(reader)s::xid8 OR NOT pg_visible_in_snapshot(written_by, %(since)s::pg_snapshot)))"""


@dataclass(frozen=True, eq=False)
class Reading:
    """One reading of a pool. `text` is that of the pool's frame. `held` maps each part of the servers to (resources,
    slots, servers): what both lanes hold from `slot` on."""

    moment: str
    reader: str  # the transaction that read
    database: str
    text: str
    slot: int
    held: Mapping[str, FloatArray]


_readings: dict[int, Reading] = {}  # by pool, in the order of their last use; a reading is never changed
_lock = Lock()


def reading_before(pool_id: int, slot: int) -> Reading | None:
    """Return this process's cached reading of the pool, if there is one that covers the slots from `slot` on."""
    reading = _readings.get(pool_id)
    return reading if reading is not None and reading.slot <= slot else None


def reading_keep(pool_id: int, reading: Reading) -> None:
    with _lock:
        _readings.pop(pool_id, None)
        _readings[pool_id] = reading
        for longest_unread in list(_readings)[:-CACHE_SIZE]:
            del _readings[longest_unread]
