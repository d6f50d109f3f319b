"""What one kind of unit costs and how many of it fit, from a slot on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.oasis.curves import Offer, offer
from scheduling.core.posted import market
from scheduling.core.posted.bounds import Bounds
from scheduling.core.types import FloatArray, UnitType, View


@dataclass(frozen=True, eq=False)
class Stall:
    """One kind of unit for one job: its offer, and the posted prices per resource behind it.

    Row i stands for slot i from the market's first. Where slots go on after the last row, they are all like it.
    """

    unit: UnitType
    prices: FloatArray  # (resources, rows, servers)
    offer: Offer


class Market(market.Market):
    """Workers and parameter servers each have price bounds of their own."""

    def __init__(self, view: View, worker_price: Bounds, ps_price: Bounds) -> None:
        super().__init__(view)
        self.worker_price, self.ps_price = worker_price, ps_price

    def workers(self, unit: UnitType, rows: int) -> Stall:
        """The first `rows` slots' offer of workers."""
        return self._stall(unit, self.worker_price, self.cluster.hosts_workers, rows)

    def parameter_servers(self, unit: UnitType, rows: int) -> Stall:
        """The first `rows` slots' offer of parameter servers."""
        return self._stall(unit, self.ps_price, self.cluster.hosts_ps, rows)

    def _stall(self, unit: UnitType, bounds: Bounds, hosts: np.ndarray, rows: int) -> Stall:
        rows = min(rows, self.rows)
        posted = self.posted(bounds, np.flatnonzero(unit.demand > 0), rows)
        return Stall(unit, posted, offer(posted, self.free(rows), unit.demand, hosts))
