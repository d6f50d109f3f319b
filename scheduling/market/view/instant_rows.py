"""What the instant lane reads of a pool for one answer: the batch lane's clock, and then all else in one statement, for
whoever waits for the lane's lock waits for each journey to the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from scheduling.core.types import FloatArray
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.pool_rows import POOL_TEXT
from scheduling.models import Lane, Part, Pool

_FORMS = ("?", ">i8", ">i8", ">i8", ">f8")  # of the columns of what is held, as the database sends their numbers
_CLOCK = "SELECT settled_slot, frontier, head FROM scheduling_laneclock WHERE pool_id = %(pool)s AND lane = %(lane)s"
_READ = f"""
SELECT ({POOL_TEXT}),
       ARRAY(SELECT windows FROM scheduling_interval WHERE pool_id = %(pool)s AND window_end > %(slot)s
              ORDER BY number),
       EXISTS(SELECT FROM scheduling_freedunits WHERE pool_id = %(pool)s AND slot >= %(slot)s AND amount > sold),
       held.*
  FROM (SELECT string_agg(boolsend(part = 'operator'), ''), string_agg(int8send(resource_id), ''),
               string_agg(int8send(slot), ''), string_agg(int8send(server_id), ''),
               string_agg(float8send(batch + instant), '')
          FROM scheduling_calendarcell
         WHERE pool_id = %(pool)s AND slot >= %(slot)s AND (batch > 0 OR instant > 0)) AS held
"""  # noqa: S608  put together of two constants

Ids = npt.NDArray[np.int64]


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
    held: Sequence[npt.NDArray[Any]]  # whether it is the operator's, resource, slot, server, amount: a column each


def instant_rows(pool: Pool, first: int) -> InstantRows:
    """From slot `first` on, or the first that is not over. Needs the scope of all tenants."""
    with connection.cursor() as cursor:
        # By itself: only where the slot stands in the statement does the database know how few rows lie ahead of it.
        cursor.execute(_CLOCK, {"pool": pool.pk, "lane": Lane.BATCH.value})
        settled, frontier, head = cursor.fetchone() or (-1, 0, "")
        slot = max(settled + 1, first)
        cursor.execute(_READ, {"pool": pool.pk, "slot": slot})
        text, windows, any_freed, *held = cursor.fetchone()
    # Hundreds of thousands of rows in a large pool: their bytes become columns at once, and no number by itself.
    columns = [np.frombuffer(column or b"", form) for column, form in zip(held, _FORMS, strict=True)]
    return InstantRows(settled, frontier, head, slot, text, [bytes(stored) for stored in windows], any_freed, columns)


def held_of(frame: PoolFrame, rows: InstantRows) -> Mapping[str, FloatArray]:
    """Part -> (resources, slots, servers) what both lanes hold of that part of each server from the first slot on."""
    operators, *columns = rows.held
    wanted = {Part.HOME.value: ~operators, Part.OPERATOR.value: operators}
    return {part: _as_array(frame, rows.slot, *(column[mask] for column in columns)) for part, mask in wanted.items()}


def _as_array(frame: PoolFrame, slot: int, resources: Ids, slots: Ids, servers: Ids, amounts: FloatArray) -> FloatArray:
    """Ids stand in order in a frame, so the index of one is where it would be sorted in."""
    since = slots.astype(np.int64) - slot  # in this machine's order of bytes, as an index
    held = np.zeros((len(frame.resource_ids), int(since.max(initial=-1)) + 1, len(frame.server_ids)))
    held[np.searchsorted(frame.resource_ids, resources), since, np.searchsorted(frame.server_ids, servers)] = amounts
    held[..., list(frame.lost)] = 0.0
    return held
