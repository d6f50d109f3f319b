"""What a job meets in a window: the room there is, the limits it is under, and what a unit costs, slot by slot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from scheduling.core.occupancy import ROUNDING, room
from scheduling.core.policies.astraea.candidates import IntArray, Pair
from scheduling.core.policies.astraea.minima import MOST, WindowMinimum
from scheduling.core.policies.astraea.room import Room
from scheduling.core.types import BoolArray, FloatArray, UnitType

NOTHING = -1  # fits beyond the window's end
LONG = 256  # slots of a window in which no more than bounds are known of all stretches: they grow with its square


class PairLimits:
    """What jobs with one pair of types find room for, in units, slot by slot: on servers, and in all."""

    def __init__(self, pair: Pair, space: Room, amounts: FloatArray) -> None:
        self.space = space.of(pair)
        workers = _whole(room(amounts, pair.worker.demand))
        self.ps_in_all = _whole(room(amounts, pair.ps.demand))
        self.beside = WindowMinimum(np.minimum(workers, self.space.beside), NOTHING)
        self.together = WindowMinimum(np.minimum(workers, self.space.together), NOTHING)
        self.ps = WindowMinimum(np.minimum(self.ps_in_all, self.space.most_ps), NOTHING)
        self._most: dict[bool, IntArray] = {}

    def most(self, central: bool) -> IntArray:
        """(slots,) workers that fit somewhere for 1, 2, ... slots on end, at most; it never grows."""
        if central not in self._most:
            minima = self.beside if central else self.together
            lengths = np.arange(1, minima.slots + 1)
            levels = np.frexp(lengths.astype(np.float64))[1] - 1
            long = minima.slots > LONG
            most = minima.most[levels] if long else minima.rows(levels, lengths, lengths - 1).max(axis=1)
            self._most[central] = np.maximum(most, 0).astype(np.int64)
        return self._most[central]


class Limits:
    """Room on servers, and amounts (resources, slots) in all, whoever pays. They hold until something is taken."""

    def __init__(self, space: Room, amounts: FloatArray) -> None:
        self.space, self.amounts = space, amounts
        self._pairs: dict[tuple[bytes, bytes], PairLimits] = {}

    def of(self, pair: Pair) -> PairLimits:
        """The limits in units of one pair of types."""
        limits = self._pairs.get(pair.key)
        if limits is None:
            limits = self._pairs[pair.key] = PairLimits(pair, self.space, self.amounts)
        return limits


@dataclass(frozen=True, eq=False)
class LeastCosts:
    """(slots,) credits for 1, 2, ... slots on end, wherever these are cheapest in the window."""

    worker: FloatArray
    ps: FloatArray


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
        self.gangs: dict[object, Any] = {}  # what gangs meet at best, for whoever asks again
        self._least_costs: LeastCosts | None = None

    @property
    def least_costs(self) -> LeastCosts:
        """What a worker, and a parameter server, cost at least for each number of slots."""
        if self._least_costs is None:
            self._least_costs = LeastCosts(
                _least_sums(self.price_worker, self.paid_worker), _least_sums(self.price_ps, self.paid_ps)
            )
        return self._least_costs


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


def _least_sums(amounts: FloatArray, sums: FloatArray) -> FloatArray:
    """(slots,) the least of 1, 2, ... amounts on end. `sums`: of the first 0, 1, 2, ... of them."""
    slots = len(amounts)
    if slots > LONG:
        least: FloatArray = np.arange(1, slots + 1, dtype=np.float64) * (float(amounts.min()) * (1.0 - ROUNDING))
        return least
    starts, ends, firsts = _stretches(slots)
    least = np.minimum.reduceat(sums[ends] - sums[starts], firsts)
    return least


@lru_cache(maxsize=16)
def _stretches(slots: int) -> tuple[IntArray, IntArray, IntArray]:
    """Starts and ends of all stretches in so many slots, the shortest first, and where those of each length begin."""
    lengths = np.arange(1, slots + 1)
    starts = np.concatenate([np.arange(slots - length + 1) for length in lengths])
    firsts = np.concatenate([[0], np.cumsum(slots + 1 - lengths)[:-1]])
    return starts, starts + np.repeat(lengths, slots + 1 - lengths), firsts


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
