"""What the instant lane reads of a pool for one answer: the batch lane's clock, and then all else in one statement, for
whoever waits for the lane's lock waits for each journey to the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from scheduling.core.types import FloatArray
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.held import Held, held_array, held_rows, held_sql
from scheduling.market.view.pool_rows import POOL_TEXT
from scheduling.models import Lane, Part, Pool

_CLOCK = "SELECT settled_slot, frontier, head FROM scheduling_laneclock WHERE pool_id = %(pool)s AND lane = %(lane)s"
_READ = f"""
SELECT ({POOL_TEXT}),
       ARRAY(SELECT windows FROM scheduling_interval WHERE pool_id = %(pool)s AND window_end > %(slot)s
              ORDER BY number),
       EXISTS(SELECT FROM scheduling_freedunits WHERE pool_id = %(pool)s AND slot >= %(slot)s AND amount > sold),
       held.*
  FROM ({held_sql("batch + instant", "AND (batch > 0 OR instant > 0)")}) AS held
"""  # noqa: S608  put together of two constants


@dataclass(frozen=True, eq=False)
class InstantRows:
    """`slot`: the first that can be sold. A slot that is settled is over, however late the clock is."""

    settled_slot: int
    frontier: int
    head: str  # digest of the batch lane's last interval
    slot: int
    text: str  # of the pool's frame
    windows: Sequence[bytes]  # of the intervals whose windows end after `slot`
    any_freed: bool  # whether anything that was given up is for sale from `slot` on
    held: Sequence[Held]


def instant_rows(pool: Pool, first: int) -> InstantRows:
    """From slot `first` on, or the first that is not over. Needs the scope of all tenants."""
    with connection.cursor() as cursor:
        # By itself: only where the slot stands in the statement does the database know how few rows lie ahead of it.
        cursor.execute(_CLOCK, {"pool": pool.pk, "lane": Lane.BATCH.value})
        settled, frontier, head = cursor.fetchone() or (-1, 0, "")
        slot = max(settled + 1, first)
        cursor.execute(_READ, {"pool": pool.pk, "slot": slot})
        text, windows, any_freed, *held = cursor.fetchone()
    return InstantRows(
        settled, frontier, head, slot, text, [bytes(stored) for stored in windows], any_freed, held_rows(*held)
    )


def held_of(frame: PoolFrame, rows: InstantRows) -> Mapping[str, FloatArray]:
    """Part -> (resources, slots, servers) what both lanes hold of that part of each server from the first slot on."""
    return {
        part.value: held_array(frame, [each for each in rows.held if each.part == part], rows.slot) for part in Part
    }
