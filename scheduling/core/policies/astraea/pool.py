"""The pool of phase two: who has what for sale in each slot, at what price, and who is paid (R13, R21, G6, G9)."""

from __future__ import annotations

import numpy as np

from scheduling.core.policies.astraea.settings import Settings
from scheduling.core.prices import scarcity
from scheduling.core.types import BoolArray, Cluster, FloatArray

RESERVE_TOLERANCE = 1e-12


def reserve_prices(cluster: Cluster) -> FloatArray:
    """(resources, tenants), in one array: a hundred small ones are slowly looked at one by one."""
    rows = [tenant.reserve_price for tenant in cluster.tenants]
    return np.array(rows, dtype=np.float64).reshape(-1, len(cluster.resources)).T


class IdlePool:
    """Idle units by owner, frozen as renting begins: (resources, owners, slots). Prices move, and with them who sells.

    An owner takes part in a slot while the posted price has reached its reserve price; a contribution is its part
    of what those who take part have idle.
    """

    def __init__(self, settings: Settings, cluster: Cluster, idle: FloatArray, kappa: float | None = None) -> None:
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
        self.contribution = self._contribution()

    def post(self, used: FloatArray, of: FloatArray) -> bool:
        """Post the prices for so much used of so much, (resources, slots); true if others take part than before."""
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
        self.contribution = self._contribution()
        return True

    def others_sell(self, payer: int | None) -> BoolArray:
        """(resources, slots) whether a tenant sells some of it that is not the payer; None: whether any does."""
        tenants = self.contribution[:, :-1] > 0
        if payer is not None:
            tenants[:, payer] = False
        return np.asarray(tenants.any(axis=1))

    def _contribution(self) -> FloatArray:
        """(resources, owners, slots) parts of one; nothing where nobody who takes part has anything idle."""
        selling = np.where(self.takes_part, self.idle, 0.0)
        total = selling.sum(axis=1, keepdims=True)
        self.for_sale = np.where(total[:, 0] > 0, self.total, 0.0)
        return np.divide(selling, total, out=np.zeros_like(selling), where=total > 0)
