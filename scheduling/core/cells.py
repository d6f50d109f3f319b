"""Home cells: which units on which servers belong to whom."""

from __future__ import annotations

import numpy as np

from scheduling.core.types import FloatArray


def deal_cells(capacity: FloatArray, quota: FloatArray) -> FloatArray:
    """(resources, tenants, servers) cells that add up to every tenant's quota (resources, tenants), server by server.

    Each resource is dealt on its own, tenants in order, each filling the servers that are left in order: owners
    hold whole servers wherever they can, so that their gangs find room on one machine. What is left at the end is
    the operator's. The quotas of a resource must not exceed its capacity (resources, servers).
    """
    if np.any(quota.sum(axis=1) > capacity.sum(axis=1) + 1e-9):
        raise ValueError("the quotas of a resource add up to more than its capacity")
    bounds = np.concatenate([np.zeros((len(quota), 1)), np.cumsum(quota, axis=1)], axis=1)  # on one line of units
    ends = np.cumsum(capacity, axis=1)
    low = np.maximum(bounds[:, :-1, None], (ends - capacity)[:, None, :])
    high = np.minimum(bounds[:, 1:, None], ends[:, None, :])
    cells: FloatArray = np.maximum(high - low, 0.0)
    return cells


def deal_servers(capacity: FloatArray, bounds: FloatArray) -> FloatArray:
    """(resources, tenants, servers) cells of whole units where each tenant owns a stretch of the row of servers.

    Server s stands on [s, s + 1) of a line, its units spread evenly over it; tenant u owns the units whose middle
    lies in [bounds[u], bounds[u + 1]). So workers and parameter servers of a tenant are on the same machines, and a
    stretch between whole numbers is made of whole machines. `capacity` (resources, servers) is in whole units.
    """
    servers = np.arange(capacity.shape[1])
    reached = np.ceil((bounds[None, :, None] - servers) * capacity[:, None, :] - 0.5)
    cells: FloatArray = np.diff(np.clip(reached, 0.0, capacity[:, None, :]), axis=1)
    return cells
