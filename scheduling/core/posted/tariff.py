"""The posted price of one unit more, resource by resource and slot by slot, as everybody may see it."""

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
    """Workers, or parameter servers, or both where one price is for either: the bounds, and who hosts them."""

    bounds: PriceBounds
    hosts: BoolArray  # (servers,)

    def named(self, cluster: Cluster) -> IntArray:
        """Indexes of the resources for which the bounds give a ceiling."""
        return np.flatnonzero([name in self.bounds.ceiling for name in cluster.resources])


def tariff(view: View, sides: Sequence[Side], slots: int) -> FloatArray:
    """(resources, slots): what the cheapest server asks for one unit more, among those that have a whole one free.

    A resource that several sides name takes the largest of their prices; one that none names stands at its floor on
    every side. Not a number where no server has a unit left: not for sale.
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
