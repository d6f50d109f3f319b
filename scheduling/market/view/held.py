"""Read what is held in the calendar, for either lane: hundreds of thousands of rows in a large pool.

The database joins the rows of one slot and sends their servers and amounts as bytes, so that Python need not parse each
number by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from scheduling.core.types import FloatArray


class Axes(Protocol):
    """The row that each index stands for. A frame has these, and so have the rows that it is made from."""

    @property
    def resource_ids(self) -> tuple[int, ...]: ...

    @property
    def server_ids(self) -> tuple[int, ...]: ...  # in order

    @property
    def lost(self) -> frozenset[int]: ...  # indexes of servers


class Held(NamedTuple):
    """What is held of one resource in one slot, on one part of the servers."""

    part: str
    resource_id: int
    slot: int
    server_ids: npt.NDArray[np.int64]
    amounts: FloatArray  # (servers,)


def held_sql(amount: str, condition: str) -> str:
    """Return a statement with one row, for `held_rows`, about the pool %(pool)s from the slot %(slot)s on. Both
    arguments are SQL from our own code: the amount of a row of the calendar, and a condition on rows."""
    return f"""
SELECT array_agg(part), array_agg(resource_id), array_agg(slot), array_agg(number), string_agg(servers, ''),
       string_agg(amounts, '')
  FROM (SELECT part, resource_id, slot, count(*) AS number, string_agg(int8send(server_id), '') AS servers,
               string_agg(float8send({amount}), '') AS amounts
          FROM scheduling_calendarcell WHERE pool_id = %(pool)s AND slot >= %(slot)s {condition}
         GROUP BY part, resource_id, slot) AS of_slot"""  # noqa: S608  nothing of it comes from outside


def held_rows(
    parts: Sequence[str] | None,
    resources: Sequence[int],
    slots: Sequence[int],
    numbers: Sequence[int],
    servers: bytes,
    amounts: bytes,
) -> list[Held]:
    """Read the columns of the row of `held_sql`. `parts` is None where nothing is held at all."""
    if parts is None:
        return []
    ids, held = np.frombuffer(servers, ">i8").astype(np.int64), np.frombuffer(amounts, ">f8")
    spans = [slice(*span) for span in pairwise([0, *accumulate(numbers)])]
    return [
        Held(part, resource_id, slot, ids[span], held[span])
        for part, resource_id, slot, span in zip(parts, resources, slots, spans, strict=True)
    ]


def held_array(axes: Axes, rows: Iterable[Held], slot: int) -> FloatArray:
    """Return (resources, slots, servers): what is held from `slot` on, summed over the parts of a server. On lost
    servers it is 0."""
    rows, server_ids = list(rows), np.array(axes.server_ids, np.int64)
    held = np.zeros((len(axes.resource_ids), _reach(rows, slot), len(server_ids)))
    for each in rows:
        held[axes.resource_ids.index(each.resource_id), each.slot - slot, _places(server_ids, each)] += each.amounts
    held[..., list(axes.lost)] = 0.0
    return held


def held_since(axes: Axes, before: FloatArray, rows: Iterable[Held], slot: int) -> FloatArray:
    """Return the same for one part, from `before` (resources, slots, servers), which was read from `slot` on, and the
    `rows` written since then."""
    rows, server_ids = list(rows), np.array(axes.server_ids, np.int64)
    held = np.zeros((before.shape[0], max(before.shape[1], _reach(rows, slot)), before.shape[2]))
    held[:, : before.shape[1]] = before
    for each in rows:
        held[axes.resource_ids.index(each.resource_id), each.slot - slot, _places(server_ids, each)] = each.amounts
    held[..., list(axes.lost)] = 0.0
    return held


def to_last_held(held: FloatArray) -> FloatArray:
    """Return (resources, slots, servers): the array up to the last slot in which anything is held."""
    slots = held.shape[1]
    while slots and not held[:, slots - 1].any():
        slots -= 1
    return held[:, :slots]


def _reach(rows: Iterable[Held], slot: int) -> int:
    return max((each.slot + 1 - slot for each in rows), default=0)


def _places(server_ids: npt.NDArray[np.int64], each: Held) -> npt.NDArray[np.intp]:
    places = np.searchsorted(server_ids, each.server_ids)
    if not np.array_equal(server_ids[places.clip(max=len(server_ids) - 1)], each.server_ids):
        raise KeyError("the calendar names a server that the pool does not have")
    return places
