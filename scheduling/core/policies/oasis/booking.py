"""Make a booking of a chosen schedule: the servers in each slot, and the payouts to the owners."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.core.policies.oasis.curves import UnitOffers
from scheduling.core.policies.oasis.market import OasisMarket, Stall
from scheduling.core.policies.oasis.quote import BestSchedule
from scheduling.core.posted.answers import payment, terms
from scheduling.core.posted.pieces import merged
from scheduling.core.types import Allocation, Booking, FloatArray, Job


def book(job: Job, best: BestSchedule, market: OasisMarket, mode: str, floor: float) -> Booking:
    """Place the workers and parameter servers of each slot on the cheapest servers, and split the payment.

    `floor` is the value that the job would have had, for nothing, on its tenant's own idle cells.
    """
    slots = [offset for offset, workers in enumerate(best.workers) if workers]
    pieces: list[Allocation] = []
    credits = np.zeros((len(best.workers), len(market.cluster.owners)))
    for offset in slots:
        row = min(best.first - market.slot + offset, market.rows - 1)
        place = offset if best.row is None else best.row
        workers = best.offers.workers.fill(_row(best.offers.workers, place), best.workers[offset])
        ps = best.offers.ps.fill(_row(best.offers.ps, place), best.ps[offset])
        pieces.extend(_pieces(best.first + offset, dict(workers), dict(ps)))
        amounts = np.zeros(market.cluster.capacity.shape)
        _credits_add(amounts, best.stalls.workers, offset, workers)
        _credits_add(amounts, best.stalls.ps, offset, ps)
        credits[offset] = market.owners_of(amounts, row)
    start, end = best.first + slots[0], best.first + slots[-1] + 1
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
        **terms(job, best.choice, mode, first=best.first, end=end, floor=floor),
        **payment(best.choice, credits[slots[0] : slots[-1] + 1]),
    )


def _row(offer: UnitOffers, offset: int) -> int:
    """Return the row of a slot. All slots after the last row are like the last."""
    return min(offset, len(offer.price) - 1)


def _credits_add(amounts: FloatArray, stall: Stall, offset: int, units: Iterable[tuple[int, int]]) -> None:
    """Add what the units cost in a slot, in credits, to `amounts` (resources, servers)."""
    prices = stall.prices[:, min(offset, stall.prices.shape[1] - 1)]
    for server, number in units:
        amounts[:, server] += stall.unit.demand * prices[:, np.searchsorted(stall.servers, server)] * number


def _pieces(slot: int, workers: dict[int, int], ps: dict[int, int]) -> Iterable[Allocation]:
    for server in sorted(workers.keys() | ps.keys()):
        yield Allocation(server, slot, slot + 1, workers.get(server, 0), ps.get(server, 0))
