"""What a job meets in a window: the room there is, the limits it is under, and what a unit costs, slot by slot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from scheduling.core.occupancy import ROUNDING, room
from scheduling.core.policies.astraea.places.minima import MOST, WindowMinima
from scheduling.core.policies.astraea.places.room import PairRoom, Room
from scheduling.core.policies.astraea.ways.candidates import IntArray, Pair
from scheduling.core.types import BoolArray, FloatArray, UnitType

NOTHING = -1  # what fits beyond the window's end
LONG = 256  # slots of a window; a longer one has only bounds for its stretches, as their table grows with its square


class PairLimits:
    """The room that jobs with one pair of types find, in units, slot by slot: on servers, and in all."""

    def __init__(self, space: PairRoom, in_all: IntArray) -> None:
        self.space, self.ps_in_all = space, in_all[2]
        figures = np.minimum(space.figures, in_all)
        self.beside, self.together, self.ps = WindowMinima(figures, np.full(3, NOTHING)).each
        self._stretches: IntArray | None = None
        self._most: IntArray | None = None

    @property
    def stretches(self) -> IntArray | None:
        """(3, lengths, starts) workers on several servers, workers on one, and parameter servers that fit somewhere in
        1, 2, ... slots on end; NOTHING beyond the window. None where the window is too long for that (`LONG`)."""
        slots = self.beside.slots
        if self._stretches is None and slots <= LONG:
            table = np.stack([each.table for each in (self.together, self.beside, self.ps)]).reshape(3, -1)
            first, second = _stretches_of(slots)
            self._stretches = np.minimum(table.take(first, axis=1), table.take(second, axis=1))
        return self._stretches

    @property
    def most(self) -> IntArray:
        """(3, slots) the most units of each for 1, 2, ... slots on end; they never grow with the length."""
        if self._most is None:
            if self.stretches is None:
                levels = np.frexp(np.arange(1.0, self.beside.slots + 1.0))[1] - 1
                most = np.stack([each.most[levels] for each in (self.together, self.beside, self.ps)])
            else:
                most = self.stretches.max(axis=2)
            self._most = np.maximum(most, 0).astype(np.int64)
        return self._most


@lru_cache(maxsize=8)
def _stretches_of(slots: int) -> tuple[IntArray, IntArray]:
    """Return (lengths, starts) the indices at which a flat table of minima has the two halves of each stretch."""
    lengths = np.arange(1, slots + 1)[:, None]
    levels = np.frexp(lengths.astype(np.float64))[1] - 1
    first = levels * (2 * slots + 1) + np.arange(slots)
    return first, first + lengths - (1 << levels)


class Limits:
    """Room on servers, and amounts (resources, slots) in all, for every payer. They hold until something is taken."""

    def __init__(self, space: Room, amounts: FloatArray) -> None:
        self.space, self.amounts = space, amounts
        self._pairs: dict[tuple[bytes, bytes], PairLimits] = {}
        self._in_all: dict[tuple[bytes, bytes], IntArray] = {}

    def of(self, pair: Pair) -> PairLimits:
        """Return the limits in units of one pair of types."""
        limits = self._pairs.get(pair.key)
        if limits is None:
            if pair.key not in self._in_all:
                workers, ps = (_whole(room(self.amounts, unit.demand)) for unit in (pair.worker, pair.ps))
                self._in_all[pair.key] = np.stack([workers, workers, ps])
            limits = self._pairs[pair.key] = PairLimits(self.space.of(pair), self._in_all[pair.key])
        return limits

    def then(self, space: Room, amounts: FloatArray) -> Limits:
        """Return the limits after something was taken. What there is in all is counted anew only if `amounts` is
        another array than before."""
        limits = Limits(space, amounts)
        if amounts is self.amounts:
            limits._in_all = self._in_all
        return limits


class PairTerms:
    """What a job with one pair of types meets: limits in units and prices per unit, slot by slot."""

    def __init__(self, pair: Pair, limits: PairLimits, prices: FloatArray, least: FloatArray | None) -> None:
        self.limits = limits
        self.space, self.limit_ps = limits.space, limits.ps_in_all
        self.beside, self.together, self.ps = limits.beside, limits.together, limits.ps
        self.price_worker, worker_raised = _unit_prices(pair.worker, prices, least)
        self.price_ps, ps_raised = _unit_prices(pair.ps, prices, least)
        self.raised: BoolArray = worker_raised | ps_raised  # (slots,) where a unit costs more than the posted prices
        self.paid_worker = np.concatenate([[0.0], np.cumsum(self.price_worker)])
        self.paid_ps = np.concatenate([[0.0], np.cumsum(self.price_ps)])
        self.least_worker, self.least_ps = self.price_worker.min(), self.price_ps.min()


class Terms:
    """What one job meets in a window: limits, and prices (resources, slots).

    `used` (servers,) breaks ties between servers; if it is None, their order does. `least` (resources, slots) is the
    least that a unit costs if it takes some of the resource; if it is None, a unit costs what its prices come to. Terms
    hold until something is taken.
    """

    def __init__(
        self,
        limits: Limits,
        prices: FloatArray,
        used: FloatArray | None,
        least: FloatArray | None = None,
    ) -> None:
        self.limits, self.prices, self.used, self.least = limits, prices, used, least
        self.slots = prices.shape[1]
        self._pairs: dict[tuple[bytes, bytes], PairTerms] = {}

    def of(self, pair: Pair) -> PairTerms:
        """Return the terms in units of one pair of types."""
        terms = self._pairs.get(pair.key)
        if terms is None:
            terms = self._pairs[pair.key] = PairTerms(pair, self.limits.of(pair), self.prices, self.least)
        return terms


class AllTerms:
    """What jobs with some pairs of types meet in a window, for all payers: limits, and the least that a unit costs by
    prices (resources, payers, slots). `easings` is how often terms were eased so far. The terms hold until something
    is taken.
    """

    def __init__(self, limits: Limits, pairs: Sequence[Pair], prices: FloatArray, easings: int) -> None:
        self.limits, self.easings = limits, easings
        demands = np.array([unit.demand for unit in (*(p.worker for p in pairs), *(p.ps for p in pairs))])
        costs = (demands @ prices.reshape(len(prices), -1)).reshape(-1, prices.shape[2])
        costs.sort(axis=1)  # the slots that are cheapest one by one cost no more than any that are on end
        costs = costs.cumsum(axis=1) * (1.0 - ROUNDING)
        self.worker: FloatArray = costs[: len(costs) // 2]  # (pairs * payers, slots) credits for 1, 2, ... slots
        self.ps: FloatArray = costs[len(costs) // 2 :]  # 0 for a pair without parameter servers


def _unit_prices(unit: UnitType, prices: FloatArray, least: FloatArray | None) -> tuple[FloatArray, BoolArray]:
    """Return (slots,) what a unit costs, and where that is more than its prices come to."""
    posted: FloatArray = unit.demand @ prices
    if least is None:
        return posted, np.zeros(len(posted), dtype=bool)
    floor = least[[resource for resource, _ in unit.named]].max(axis=0, initial=0.0)
    return np.maximum(posted, floor), posted < floor


def _whole(units: FloatArray) -> IntArray:
    """Return numbers of units as integers, at most `MOST`: a demand of nothing has no limit."""
    return np.clip(units, 0, MOST).astype(np.int64)
