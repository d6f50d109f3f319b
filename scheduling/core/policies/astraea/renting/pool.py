"""The pool of phase two: what each owner sells in each slot, at what price, and who is paid (R13, R21, G6, G9)."""

from __future__ import annotations

import numpy as np

from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.prices import scarcity
from scheduling.core.types import BoolArray, Cluster, FloatArray, Supply

RESERVE_TOLERANCE = 1e-12


def reserve_prices(cluster: Cluster) -> FloatArray:
    """Return the reserve prices (resources, tenants) in one array, which is faster than one small array by tenant."""
    rows = [tenant.reserve_price for tenant in cluster.tenants]
    return np.array(rows, dtype=np.float64).reshape(-1, len(cluster.resources)).T


class IdlePool:
    """Idle units by owner (resources, owners, slots), as they are when renting begins. Which owners sell changes with
    the prices.

    An owner takes part in a slot while the posted price is at least its reserve price. Its contribution is its part
    of what the owners who take part have idle.
    """

    def __init__(
        self, settings: Settings, cluster: Cluster, start: int, idle: FloatArray, kappa: float | None = None
    ) -> None:
        self.start = start  # the slot that the idle units begin with
        self.idle = idle
        self.total: FloatArray = idle.sum(axis=1)  # (resources, slots)
        self._theta = settings.by_resource(settings.theta, cluster)[:, None]
        self._floor = settings.by_resource(settings.price_floor, cluster)[:, None]
        self._fixed: FloatArray | None = None  # prices that no sale moves, (resources, 1) (K8)
        if kappa is not None:
            self._fixed = self._floor + kappa * settings.by_resource(settings.unit_value, cluster)[:, None]
        self._reserve = np.zeros(idle.shape[:2])
        if settings.floor:
            self._reserve[:, : len(cluster.tenants)] = reserve_prices(cluster)
        self.prices: FloatArray = np.zeros_like(self.total)
        self.takes_part = np.ones(idle.shape, dtype=bool)
        self.supply = self._supply()

    @property
    def contribution(self) -> FloatArray:
        """The owners' parts of one (resources, owners, slots), 0 where no owner who takes part has idle units."""
        return self.supply.contributions

    def post(self, used: FloatArray, of: FloatArray) -> bool:
        """Post the prices where `used` out of `of` is in use, (resources, slots) both. Return whether that changes
        which owners take part."""
        if self._fixed is None:
            self.prices = self._floor + scarcity(self._theta, used, of)
        else:
            self.prices = np.broadcast_to(self._fixed, self.total.shape)
        if not self._reserve.any():
            return False
        takes_part = self.prices[:, None, :] >= self._reserve[:, :, None] - RESERVE_TOLERANCE
        if np.array_equal(takes_part, self.takes_part):
            return False
        self.takes_part = takes_part
        self.supply = self._supply()
        return True

    def others_sell(self, payer: int | None) -> BoolArray:
        """Return (resources, slots) whether a tenant other than the payer sells some; for None, whether any tenant
        does."""
        tenants = self.contribution[:, :-1] > 0
        if payer is not None:
            tenants[:, payer] = False
        return np.asarray(tenants.any(axis=1))

    def _supply(self) -> Supply:
        """Return what the owners who take part sell. Also set `for_sale`."""
        selling = np.where(self.takes_part, self.idle, 0.0)
        selling.setflags(write=False)  # so that it is not copied
        supply = Supply(self.start, selling)
        self.for_sale = np.where(supply.total > 0, self.total, 0.0)
        return supply
