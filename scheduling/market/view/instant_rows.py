"""What the instant lane reads of a pool for one answer: the batch lane's clock, and then all else in one statement, for
whoever waits for the lane's lock waits for each journey to the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from django.db import connection

from scheduling.core.types import FloatArray
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.pool_rows import POOL_TEXT
from scheduling.models import Lane, Part, Pool

_CLOCK = "SELECT settled_slot, frontier, head FROM scheduling_laneclock WHERE pool_id = %(pool)s AND lane = %(lane)s"
_READ = f"""
SELECT ({POOL_TEXT}),
       ARRAY(SELECT windows FROM scheduling_interval WHERE pool_id = %(pool)s AND window_end > %(slot)s
              ORDER BY number),
       EXISTS(SELECT FROM scheduling_freedunits WHERE pool_id = %(pool)s AND slot >= %(slot)s AND amount > sold),
       held.*
  FROM (SELECT array_agg(part), array_agg(resource_id), array_agg(slot), array_agg(number),
               string_agg(servers, ''), string_agg(amounts, '')
          FROM (SELECT part, resource_id, slot, count(*) AS number, string_agg(int8send(server_id), '') AS servers,
                       string_agg(float8send(batch + instant), '') AS amounts
                  FROM scheduling_calendarcell
                 WHERE pool_id = %(pool)s AND slot >= %(slot)s AND (batch > 0 OR instant > 0)
                 GROUP BY part, resource_id, slot) AS of_slot) AS held
"""  # noqa: S608  put together of two constants


class Held(NamedTuple):
    """What both lanes hold of one resource in one slot, on one part of the servers."""

    part: str
    resource_id: int
    slot: int
    server_ids: npt.NDArray[np.int64]
    amounts: FloatArray  # (servers,)


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
        settled, frontier, head, slot, text, [bytes(stored) for stored in windows], any_freed, _held(*held)
    )


def _held(
    parts: Sequence[str] | None,
    resources: Sequence[int],
    slots: Sequence[int],
    numbers: Sequence[int],
    servers: bytes,
    amounts: bytes,
) -> list[Held]:
    """Of hundreds of thousands of rows in a large pool the database sends the servers' and amounts' bytes, one slot's
    after another's. `parts` is None where nothing is held at all."""
    if parts is None:
        return []
    ids, held = np.frombuffer(servers, ">i8").astype(np.int64), np.frombuffer(amounts, ">f8")
    spans = [slice(*span) for span in pairwise([0, *accumulate(numbers)])]
    return [
        Held(part, resource_id, slot, ids[span], held[span])
        for part, resource_id, slot, span in zip(parts, resources, slots, spans, strict=True)
    ]


def held_of(frame: PoolFrame, rows: InstantRows) -> Mapping[str, FloatArray]:
    """Part -> (resources, slots, servers) what both lanes hold of that part of each server from the first slot on."""
    return {part: _as_array(frame, rows, part) for part in (Part.HOME.value, Part.OPERATOR.value)}


def _as_array(frame: PoolFrame, rows: InstantRows, part: str) -> FloatArray:
    """Ids of servers stand in order in a frame, so the index of one is where it would be sorted in."""
    units = [each for each in rows.held if each.part == part]
    slots = max((each.slot + 1 - rows.slot for each in units), default=0)
    held, server_ids = np.zeros((len(frame.resource_ids), slots, len(frame.server_ids))), np.array(frame.server_ids)
    for each in units:
        places = np.searchsorted(server_ids, each.server_ids)
        held[frame.resource_index[each.resource_id], each.slot - rows.slot, places] = each.amounts
    held[..., list(frame.lost)] = 0.0
    return held
