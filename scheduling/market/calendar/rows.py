"""Write the batch lane's rows of the reservation calendar, and posted prices. This is done in bulk, because a plan
touches many slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from django.db import connection

from scheduling.core.types import Booking, FloatArray, Job, Window
from scheduling.market.view.frame import PoolFrame
from scheduling.models import Lane, Part, Pool

_RESERVE = """
INSERT INTO scheduling_calendarcell (server_id, resource_id, part, slot, pool_id, capacity, batch, instant)
SELECT server_id, resource_id, %s, slot, %s, capacity, batch, 0
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::float8[], %s::float8[])
       AS units (server_id, resource_id, slot, capacity, batch)
    ON CONFLICT (server_id, resource_id, part, slot)
    DO UPDATE SET batch = scheduling_calendarcell.batch + EXCLUDED.batch, capacity = EXCLUDED.capacity
"""

_POST_PRICES = """
INSERT INTO scheduling_pricetick (pool_id, lane, resource_id, slot, price, offered, sold)
SELECT %s, %s, * FROM unnest(%s::bigint[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[])
    ON CONFLICT (pool_id, lane, resource_id, slot)
    DO UPDATE SET price = EXCLUDED.price, offered = EXCLUDED.offered, sold = EXCLUDED.sold
"""


def batch_reserve(frame: PoolFrame, jobs: Mapping[int, Job], bookings: Sequence[Booking]) -> None:
    """Enter what the bookings take. The table refuses amounts that exceed a capacity.

    Where an instant lane sells the operator's units, all bookings of this lane lie in home cells. Without an instant
    lane the parts need not be distinguished, and the home part stands for the whole server.
    """
    if not bookings:
        return
    start = min(booking.start for booking in bookings)
    amounts = _amounts(frame, jobs, bookings, start)
    resources, slots, servers = np.nonzero(amounts > 0)
    columns = (
        np.array(frame.server_ids)[servers],
        np.array(frame.resource_ids)[resources],
        start + slots,
        frame.batch_cluster.capacity[resources, servers],
        amounts[resources, slots, servers],
    )
    # In the order of the primary key, so that two writers lock rows in the same order.
    in_order = np.lexsort((slots, columns[1], columns[0]))
    with connection.cursor() as cursor:
        cursor.execute(_RESERVE, [Part.HOME, frame.pool.pk, *(column[in_order].tolist() for column in columns)])


def _amounts(frame: PoolFrame, jobs: Mapping[int, Job], bookings: Iterable[Booking], start: int) -> FloatArray:
    """Return (resources, slots from `start`, servers): the amounts that the bookings take."""
    end = max(booking.end for booking in bookings)
    totals = np.zeros((len(frame.resource_ids), end - start, len(frame.server_ids)))
    for booking in bookings:
        job = jobs[booking.job]
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for row in booking.allocation:
            amounts = row.workers * worker + row.ps * ps
            totals[:, row.start - start : row.end - start, row.server] += amounts[:, None]
    return totals


def prices_post(frame: PoolFrame, windows: Iterable[Window]) -> None:
    """Post the prices of the plan's windows: price, units for sale and units sold, by resource and slot."""
    for window in windows:
        offered = window.idle.sum(axis=1)
        ticks = {
            (resource_id, slot): (
                float(window.prices[resource, slot - window.start]),
                float(offered[resource, slot - window.start]),
                float(window.rented[resource, slot - window.start]),
            )
            for resource, resource_id in enumerate(frame.resource_ids)
            for slot in range(window.start, window.end)
        }
        ticks_write(frame.pool, Lane.BATCH, ticks)


def ticks_write(pool: Pool, lane: Lane, ticks: Mapping[tuple[int, int], tuple[float | None, float, float]]) -> None:
    """Write posted prices in the order of the primary key. `ticks` maps (resource, slot) to price, units for sale and
    units sold."""
    if not ticks:
        return
    rows = [(*place, *ticks[place]) for place in sorted(ticks)]
    with connection.cursor() as cursor:
        cursor.execute(_POST_PRICES, [pool.pk, lane, *([row[column] for row in rows] for column in range(5))])
