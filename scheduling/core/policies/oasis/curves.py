"""What n workers with their parameter servers cost in each slot, at the prices posted before the job (rule O9).

There is one unit price per server and slot. The cheapest servers come first, ties to the lowest index, and each is
filled to its room. That is optimal in a slot: rooms are whole numbers, workers and parameter servers never compete for
a resource, and the number of parameter servers follows from the number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import room
from scheduling.core.types import FloatArray

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitOffers:
    """What one kind of unit costs on each server in each slot, and how many still fit. The cheapest server is first."""

    order: IntArray  # (slots, servers) server indices
    price: FloatArray  # (slots, servers) credits per unit, in that order: the measure that is minimised
    other: FloatArray  # (slots, servers) the same in the other measure (net price and price)
    room: FloatArray  # (slots, servers) whole units, in that order

    def unit_prices(self, most: int, *, other: bool) -> FloatArray:
        """Return (slots, most) the price of the first, second, ... unit; infinite once the servers are full."""
        slots = len(self.price)
        filled = np.minimum(np.cumsum(self.room, axis=1), most)
        counts = np.diff(filled, prepend=0.0, append=float(most), axis=1).astype(np.int64)
        prices = np.concatenate([self.other if other else self.price, np.full((slots, 1), np.inf)], axis=1)
        return np.repeat(prices.ravel(), counts.ravel()).reshape(slots, most)

    def fill(self, slot: int, units: int) -> list[tuple[int, int]]:
        """Return the (server, units) pairs of `units` units in a slot."""
        rows, missing = [], units
        for server, fits in zip(self.order[slot], self.room[slot], strict=True):
            take = int(min(missing, fits))
            if take:
                rows.append((int(server), take))
                missing -= take
            if not missing:
                break
        return rows


def offer(
    prices: FloatArray, others: FloatArray, free: FloatArray, demand: FloatArray, servers: IntArray, most: int
) -> UnitOffers:
    """Return the offer for units of `demand` (resources,), ordered by `prices`. `prices`, `others` (the prices in the
    other measure) and `free` amounts are (resources, slots, servers). `servers` are the servers' indices in the
    cluster; those that `most` units never reach are left out."""
    fits = room(free, demand)
    unit = np.einsum("r,rts->ts", demand[demand > 0], prices[demand > 0])
    reached = _reached(unit, fits, most)
    order = np.argsort(unit[:, reached], axis=1, kind="stable")
    price = other = np.take_along_axis(unit[:, reached], order, axis=1)
    if others is not prices:
        unit = np.einsum("r,rts->ts", demand[demand > 0], others[demand > 0])
        other = np.take_along_axis(unit[:, reached], order, axis=1)
    return UnitOffers(servers[reached][order], price, other, np.take_along_axis(fits[:, reached], order, axis=1))


def _reached(unit: FloatArray, fits: FloatArray, most: int) -> IntArray:
    """Return the indices on the servers axis of servers that are among the `most` cheapest with room in any slot; of
    equally cheap ones the first count. `unit` (slots, servers) are the prices of a unit."""
    if not most:
        return np.arange(0)
    if most >= unit.shape[1]:
        return np.flatnonzero((fits >= 1).any(axis=0))
    priced = np.where(fits >= 1, unit, np.inf)
    last = np.partition(priced, most - 1, axis=1)[:, most - 1, None]  # the dearest of the `most` cheapest
    dearest = (priced == last) & (fits >= 1)
    places = most - (priced < last).sum(axis=1)
    return np.flatnonzero(((priced < last) | (dearest & (np.cumsum(dearest, axis=1) <= places[:, None]))).any(axis=0))


def cost_curves(workers: UnitOffers, ps: UnitOffers, ps_needed: IntArray, *, other: bool = False) -> FloatArray:
    """Return (slots, most + 1) the cost of 0, 1, ... workers and `ps_needed` (most + 1,) parameter servers, infinite
    where too few fit. With `other` it is the cost of the same units in the other measure."""
    slots, most = len(workers.price), len(ps_needed) - 1
    zero = np.zeros((slots, 1))
    of_workers = np.concatenate([zero, np.cumsum(workers.unit_prices(most, other=other), axis=1)], axis=1)
    of_ps = np.concatenate([zero, np.cumsum(ps.unit_prices(int(ps_needed[-1]), other=other), axis=1)], axis=1)
    return of_workers + of_ps[:, ps_needed]
