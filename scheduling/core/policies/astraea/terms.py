"""What a job meets in a window: the room there is, the limits it is under, and what a unit costs, slot by slot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from scheduling.core.occupancy import ROUNDING, room
from scheduling.core.policies.astraea.candidates import IntArray, Pair
from scheduling.core.policies.astraea.minima import MOST, window_minima
from scheduling.core.policies.astraea.room import PairRoom, Room
from scheduling.core.types import BoolArray, FloatArray, UnitType

NOTHING = -1  # fits beyond the window's end
LONG = 256  # slots of a window in which no more than bounds are known of all stretches: they grow with its square


class PairLimits:
    """What jobs with one pair of types find room for, in units, slot by slot: on servers, and in all."""

    def __init__(self, space: PairRoom, in_all: IntArray) -> None:
        self.space, self.ps_in_all = space, in_all[2]
        figures = np.minimum(np.stack([space.beside, space.together, space.most_ps]), in_all)
        self.beside, self.together, self.ps = window_minima(figures, np.full(3, NOTHING))
        self._stretches: IntArray | None = None
        self._most: IntArray | None = None

    @property
    def stretches(self) -> IntArray | None:
        """(3, lengths, starts) workers on several servers, workers on one, and parameter servers that fit somewhere in
        1, 2, ... slots on end; NOTHING beyond the window. None: it is too long to say."""
        slots = self.beside.slots
        if self._stretches is None and slots <= LONG:
            table = np.stack([each.table for each in (self.together, self.beside, self.ps)]).reshape(3, -1)
            first, second = _stretches_of(slots)
            self._stretches = np.minimum(table.take(first, axis=1), table.take(second, axis=1))
        return self._stretches

    @property
    def most(self) -> IntArray:
        """(3, slots) the most of them for 1, 2, ... slots on end; they never grow."""
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
    """(lengths, starts) where a flat table of minima has the two halves of each stretch."""
    lengths = np.arange(1, slots + 1)[:, None]
    levels = np.frexp(lengths.astype(np.float64))[1] - 1
    first = levels * (2 * slots + 1) + np.arange(slots)
    return first, first + lengths - (1 << levels)


class Limits:
    """Room on servers, and amounts (resources, slots) in all, whoever pays. They hold until something is taken."""

    def __init__(self, space: Room, amounts: FloatArray) -> None:
        self.space, self.amounts = space, amounts
        self._pairs: dict[tuple[bytes, bytes], PairLimits] = {}
        self._in_all: dict[tuple[bytes, bytes], IntArray] = {}

    def of(self, pair: Pair) -> PairLimits:
        """The limits in units of one pair of types."""
        limits = self._pairs.get(pair.key)
        if limits is None:
            if pair.key not in self._in_all:
                workers, ps = (_whole(room(self.amounts, unit.demand)) for unit in (pair.worker, pair.ps))
                self._in_all[pair.key] = np.stack([workers, workers, ps])
            limits = self._pairs[pair.key] = PairLimits(self.space.of(pair), self._in_all[pair.key])
        return limits

    def then(self, space: Room, amounts: FloatArray) -> Limits:
        """The limits once something was taken. What there is in all is counted anew only where the amounts are
        others."""
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

    `used` (servers,) breaks ties between servers; None leaves it to their order. `least` (resources, slots) is what a
    unit costs at least that takes some of the resource; None: no more than its prices come to. Terms hold until
    something is taken.
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
        """The terms in units of one pair of types."""
        terms = self._pairs.get(pair.key)
        if terms is None:
            terms = self._pairs[pair.key] = PairTerms(pair, self.limits.of(pair), self.prices, self.least)
        return terms


class AllTerms:
    """What jobs with some pairs of types meet in a window, whoever pays: limits, and what a unit costs at least by
    prices (resources, payers, slots). `easings`: how often terms were eased so far. They hold until something is taken.
    """

    def __init__(self, limits: Limits, pairs: Sequence[Pair], prices: FloatArray, easings: int) -> None:
        self.limits, self.easings = limits, easings
        demands = np.array([unit.demand for unit in (*(p.worker for p in pairs), *(p.ps for p in pairs))])
        costs = (demands @ prices.reshape(len(prices), -1)).reshape(-1, prices.shape[2])
        costs.sort(axis=1)  # the slots that are cheapest one by one cost no more than any that are on end
        costs = costs.cumsum(axis=1) * (1.0 - ROUNDING)
        self.worker: FloatArray = costs[: len(costs) // 2]  # (pairs * payers, slots) credits for 1, 2, ... slots
        self.ps: FloatArray = costs[len(costs) // 2 :]  # nothing where there are none


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
