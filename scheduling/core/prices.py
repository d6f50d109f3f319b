"""Compute posted prices per unit and slot. Every price is posted before the job that reads it takes its own units."""

from __future__ import annotations

import numpy as np

from scheduling.core.types import FloatArray


def payable(prices: FloatArray, demand: FloatArray, least: float) -> FloatArray:
    """Return the prices (resources, ...), raised where a unit of `demand` (resources,) would cost less than `least`,
    the smallest amount that can be paid. What is free stays free. If no price is raised, return the same array."""
    if not least:
        return prices
    costs = np.tensordot(demand, prices, 1)
    short = (costs > 0) & (costs < least)
    if not short.any():
        return prices
    raised, named = prices.copy(), demand > 0
    raised[named] = np.where(short, np.maximum(prices[named], least / demand.sum()), prices[named])
    return raised


def scarcity(base: FloatArray, used: FloatArray, total: FloatArray) -> FloatArray:
    """Return base ** (used / total) - 1: 0 when all units are free, base - 1 when none is (Astraea, Eq. 8).

    Shapes broadcast. Where the total is 0 nothing is for sale and the price is 0.
    """
    share = np.divide(used, total, out=np.zeros(np.broadcast_shapes(np.shape(used), np.shape(total))), where=total > 0)
    return np.expm1(share * np.log(base))


def between(floor: FloatArray, ceiling: FloatArray, used: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return floor * (ceiling / floor) ** (used / capacity) (OASiS), in logarithms so that wide bounds do not overflow.

    Shapes broadcast; 0 < floor <= ceiling. Where the capacity is 0 there is no unit to charge for: the price is 0.
    """
    shape = np.broadcast_shapes(np.shape(floor), np.shape(ceiling), np.shape(used), np.shape(capacity))
    share = np.divide(used, capacity, out=np.zeros(shape), where=np.broadcast_to(capacity, shape) > 0)
    price = np.exp((1.0 - share) * np.log(floor) + share * np.log(ceiling))
    return np.where(np.broadcast_to(capacity, shape) > 0, price, 0.0)
