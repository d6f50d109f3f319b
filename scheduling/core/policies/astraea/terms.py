"""What a job meets in a window: the room there is, the limits it is under, and what a unit costs, slot by slot."""

from __future__ import annotations

import numpy as np

from scheduling.core.occupancy import room
from scheduling.core.policies.astraea.candidates import IntArray, Pair
from scheduling.core.policies.astraea.minima import MOST, WindowMinimum
from scheduling.core.policies.astraea.room import Room
from scheduling.core.types import FloatArray

NOTHING = -1  # fits beyond the window's end


class PairTerms:
    """What a job with one pair of types meets: limits in units and prices per unit, slot by slot."""

    def __init__(self, pair: Pair, space: Room, limits: FloatArray, prices: FloatArray) -> None:
        self.space = space.of(pair)
        workers = _whole(room(limits, pair.worker.demand))
        self.limit_ps = _whole(room(limits, pair.ps.demand))
        self.beside = WindowMinimum(np.minimum(workers, self.space.beside), NOTHING)
        self.together = WindowMinimum(np.minimum(workers, self.space.together), NOTHING)
        self.ps = WindowMinimum(np.minimum(self.limit_ps, self.space.most_ps), NOTHING)
        self.price_worker, self.price_ps = pair.worker.demand @ prices, pair.ps.demand @ prices
        self.paid_worker = np.concatenate([[0.0], np.cumsum(self.price_worker)])
        self.paid_ps = np.concatenate([[0.0], np.cumsum(self.price_ps)])
        self.least_worker, self.least_ps = self.price_worker.min(), self.price_ps.min()


class Terms:
    """What one job meets in a window: room on servers, limits (resources, slots) in all, prices (resources, slots).

    `used` (servers,) breaks ties between servers; None leaves it to their order. Terms hold until something is taken.
    """

    def __init__(self, space: Room, limits: FloatArray, prices: FloatArray, used: FloatArray | None) -> None:
        self.space, self.limits, self.prices, self.used = space, limits, prices, used
        self.slots = prices.shape[1]
        self._pairs: dict[tuple[bytes, bytes], PairTerms] = {}

    def of(self, pair: Pair) -> PairTerms:
        """The terms in units of one pair of types."""
        found = self._pairs.get(pair.key)
        if found is None:
            found = self._pairs[pair.key] = PairTerms(pair, self.space, self.limits, self.prices)
        return found


def _whole(units: FloatArray) -> IntArray:
    """Numbers of units as integers; a demand of nothing has no limit."""
    return np.clip(units, 0, MOST).astype(np.int64)
