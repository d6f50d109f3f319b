"""What a job meets in a window: the room there is, the limits it is under, and what a unit costs, slot by slot."""

from __future__ import annotations

import numpy as np

from scheduling.core.occupancy import room
from scheduling.core.policies.astraea.candidates import IntArray, Pair
from scheduling.core.policies.astraea.minima import MOST, WindowMinimum
from scheduling.core.policies.astraea.room import Room
from scheduling.core.types import BoolArray, FloatArray, UnitType

NOTHING = -1  # fits beyond the window's end


class PairTerms:
    """What a job with one pair of types meets: limits in units and prices per unit, slot by slot."""

    def __init__(
        self, pair: Pair, space: Room, limits: FloatArray, prices: FloatArray, least: FloatArray | None
    ) -> None:
        self.space = space.of(pair)
        workers = _whole(room(limits, pair.worker.demand))
        self.limit_ps = _whole(room(limits, pair.ps.demand))
        self.beside = WindowMinimum(np.minimum(workers, self.space.beside), NOTHING)
        self.together = WindowMinimum(np.minimum(workers, self.space.together), NOTHING)
        self.ps = WindowMinimum(np.minimum(self.limit_ps, self.space.most_ps), NOTHING)
        self.price_worker, worker_raised = _unit_prices(pair.worker, prices, least)
        self.price_ps, ps_raised = _unit_prices(pair.ps, prices, least)
        self.raised: BoolArray = worker_raised | ps_raised  # (slots,) where a unit costs more than the posted prices
        self.paid_worker = np.concatenate([[0.0], np.cumsum(self.price_worker)])
        self.paid_ps = np.concatenate([[0.0], np.cumsum(self.price_ps)])
        self.least_worker, self.least_ps = self.price_worker.min(), self.price_ps.min()


class Terms:
    """What one job meets in a window: room on servers, limits (resources, slots) in all, prices (resources, slots).

    `used` (servers,) breaks ties between servers; None leaves it to their order. `least` (resources, slots) is what a
    unit costs at least that takes some of the resource; None: no more than its prices come to. Terms hold until
    something is taken.
    """

    def __init__(
        self,
        space: Room,
        limits: FloatArray,
        prices: FloatArray,
        used: FloatArray | None,
        least: FloatArray | None = None,
    ) -> None:
        self.space, self.limits, self.prices, self.used, self.least = space, limits, prices, used, least
        self.slots = prices.shape[1]
        self._pairs: dict[tuple[bytes, bytes], PairTerms] = {}

    def most(self, pair: Pair, central: bool) -> IntArray:
        """(slots,) workers that fit somewhere for 1, 2, ... slots, at most; it never grows."""
        terms = self.of(pair)
        lengths = np.arange(1, self.slots + 1)
        levels = np.frexp(lengths.astype(np.float64))[1] - 1
        return (terms.beside if central else terms.together).most[levels]

    def of(self, pair: Pair) -> PairTerms:
        """The terms in units of one pair of types."""
        found = self._pairs.get(pair.key)
        if found is None:
            found = self._pairs[pair.key] = PairTerms(pair, self.space, self.limits, self.prices, self.least)
        return found


def _unit_prices(unit: UnitType, prices: FloatArray, least: FloatArray | None) -> tuple[FloatArray, BoolArray]:
    """(slots,) what a unit costs, and where that is more than its prices come to."""
    posted: FloatArray = unit.demand @ prices
    if least is None:
        return posted, np.zeros(len(posted), dtype=bool)
    floor = least[[resource for resource, _ in unit.named]].max(axis=0, initial=0.0)
    return np.maximum(posted, floor), posted < floor


def _whole(units: FloatArray) -> IntArray:
    """Numbers of units as integers; a demand of nothing has no limit."""
    return np.clip(units, 0, MOST).astype(np.int64)
