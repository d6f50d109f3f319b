"""Compute the posted price of one unit more, for each resource and slot, as it is shown to everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.occupancy import room
from scheduling.core.posted.bounds import PriceBounds
from scheduling.core.posted.market import IntArray, PostedMarket
from scheduling.core.types import BoolArray, Cluster, FloatArray, View


@dataclass(frozen=True, eq=False)
class Side:
    """The bounds and the hosts of workers, of parameter servers, or of both if one price holds for either."""

    bounds: PriceBounds
    hosts: BoolArray  # (servers,)

    def named(self, cluster: Cluster) -> IntArray:
        """Return the indexes of the resources for which the bounds give a ceiling."""
        return np.flatnonzero([name in self.bounds.ceiling for name in cluster.resources])


def tariff(view: View, sides: Sequence[Side], slots: int) -> FloatArray:
    """Return the price of one unit more (resources, slots) on the cheapest server that has a whole unit free.

    A resource that several sides name has the largest of their prices; one that no side names has its floor on every
    side. The price is NaN where no server has a unit left, so that none is for sale.
    """
    market, cluster = PostedMarket(view), view.cluster
    rows = min(slots, market.rows)
    free = market.free(rows)
    nobodys = set(range(len(cluster.resources))).difference(*(side.named(cluster).tolist() for side in sides))
    prices = np.full((len(cluster.resources), rows), np.nan)
    for side in sides:
        named = np.array(sorted({*side.named(cluster).tolist(), *nobodys}), dtype=np.intp)
        unit_prices = np.maximum(market.posted(side.bounds, named, rows), cluster.least_payment)
        for resource in named.tolist():
            one = np.eye(len(cluster.resources))[resource]
            for_sale = (room(free, one) >= 1) & side.hosts
            least = np.where(for_sale, unit_prices[resource], np.inf).min(axis=1, initial=np.inf)
            prices[resource] = np.fmax(prices[resource], np.where(np.isfinite(least), least, np.nan))
    return prices[:, np.minimum(np.arange(slots), rows - 1)]
