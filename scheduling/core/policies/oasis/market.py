"""OASiS' market: what one kind of unit costs, and how many units are free, from a slot on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.policies.oasis import runs
from scheduling.core.policies.oasis.curves import UnitOffers, offer
from scheduling.core.posted import market
from scheduling.core.posted.bounds import PriceBounds
from scheduling.core.posted.market import IntArray
from scheduling.core.prices import payable
from scheduling.core.types import BoolArray, FloatArray, UnitType, View


@dataclass(frozen=True, eq=False)
class Stall:
    """One kind of unit for one job: the posted prices per resource, the net prices, which the payer pays in the end,
    and what is free.

    Row i is slot i from the market's first. All slots after the last row are like it. Column j is server `servers[j]`;
    servers that are not in `servers` are not needed.
    """

    unit: UnitType
    most: int  # the most units in a slot
    servers: IntArray  # in order
    prices: FloatArray  # (resources, rows, servers)
    net_prices: FloatArray  # the same array as `prices` where the payer gets nothing back
    free: FloatArray

    def by_net_price(self) -> UnitOffers:
        return offer(self.net_prices, self.prices, self.free, self.unit.demand, self.servers, self.most)

    def by_price(self) -> UnitOffers:
        return offer(self.prices, self.net_prices, self.free, self.unit.demand, self.servers, self.most)

    def of_runs(self, slots: int, starts: int) -> Stall:
        """Return the stall of units for `slots` slots on end. Its rows are the first `starts` starts."""
        prices = net = runs.over_run(self.prices, slots, starts, runs.sums)
        if self.net_prices is not self.prices:
            net = runs.over_run(self.net_prices, slots, starts, runs.sums)
        free = runs.over_run(self.free, slots, starts, runs.minima)
        return replace(self, prices=prices, net_prices=net, free=free)


class OasisMarket(market.PostedMarket):
    """The market of OASiS, in which workers and parameter servers each have price bounds of their own."""

    def __init__(self, view: View, worker_price: PriceBounds, ps_price: PriceBounds) -> None:
        super().__init__(view)
        self.worker_price, self.ps_price = worker_price, ps_price

    def workers(self, unit: UnitType, most: int, rows: int, payer: int | None) -> Stall:
        """Return the stall of workers in the first `rows` slots, at most `most` at once. `payer` is the tenant whose
        own part comes back, or None if no part does."""
        return self._stall(unit, most, self.worker_price, self.cluster.hosts_workers, rows, payer)

    def parameter_servers(self, unit: UnitType, most: int, rows: int, payer: int | None) -> Stall:
        """Return the stall of parameter servers in the first `rows` slots."""
        return self._stall(unit, most, self.ps_price, self.cluster.hosts_ps, rows, payer)

    def _stall(
        self, unit: UnitType, most: int, bounds: PriceBounds, hosts: BoolArray, rows: int, payer: int | None
    ) -> Stall:
        rows, servers = min(rows, self.rows), self.reachable(hosts, most)
        posted = self.posted(bounds, np.flatnonzero(unit.demand > 0), rows, servers)
        posted = payable(posted, unit.demand, self.cluster.least_payment)
        return Stall(unit, most, servers, posted, self.net(posted, payer, servers), self.free(rows, servers))
