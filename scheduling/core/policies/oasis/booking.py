"""From a chosen schedule to a booking: which servers in each slot, and who is paid."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.core.policies.oasis.market import Market, Stall
from scheduling.core.policies.oasis.quote import Best
from scheduling.core.posted.pieces import merged
from scheduling.core.types import SHARED, Allocation, Booking, FloatArray, Job


def book(job: Job, best: Best, market: Market) -> Booking:
    """Deploy the workers and parameter servers of each slot on the cheapest servers, and split the payment."""
    slots = [offset for offset, workers in enumerate(best.workers) if workers]
    pieces: list[Allocation] = []
    credits = np.zeros((len(best.workers), len(market.cluster.owners)))
    for offset in slots:
        row = min(best.first - market.slot + offset, market.rows - 1)
        workers = best.worker_stall.offer.fill(_row(best.worker_stall, offset), best.workers[offset])
        ps = best.ps_stall.offer.fill(_row(best.ps_stall, offset), best.ps[offset])
        pieces.extend(_pieces(best.first + offset, dict(workers), dict(ps)))
        amounts = _credits(best.worker_stall, offset, workers) + _credits(best.ps_stall, offset, ps)
        credits[offset] = market.owners_of(amounts, row)
    start, end = best.first + slots[0], best.first + slots[-1] + 1
    paid = credits[slots[0] : slots[-1] + 1]
    paid *= best.paid / paid.sum() if paid.sum() > 0 else 0.0
    return Booking(
        job=job.number,
        start=start,
        end=end,
        allocation=merged(pieces),
        work=float(job.work),
        workers=max(best.workers),
        ps=max(best.ps),
        worker_type=best.worker_type,
        ps_type=best.ps_type,
        phase=SHARED,
        value=best.value,
        ideal=best.value,
        cost=best.cost,
        paid=best.paid,
        payouts=paid.sum(axis=0),
        slot_payouts=paid,
    )


def _row(stall: Stall, offset: int) -> int:
    """The stall's row of a slot: all slots after its last row are like that one."""
    return min(offset, len(stall.offer.price) - 1)


def _credits(stall: Stall, offset: int, units: Iterable[tuple[int, int]]) -> FloatArray:
    """(resources, servers) what the units cost in a slot, by resource and server."""
    prices = stall.prices[:, _row(stall, offset)]
    count = np.zeros(prices.shape[1])
    for server, number in units:
        count[server] = number
    return stall.unit.demand[:, None] * prices * count


def _pieces(slot: int, workers: dict[int, int], ps: dict[int, int]) -> Iterable[Allocation]:
    for server in sorted(workers.keys() | ps.keys()):
        yield Allocation(server, slot, slot + 1, workers.get(server, 0), ps.get(server, 0))
