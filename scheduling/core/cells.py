"""Deal home cells: decide which units on which servers belong to which tenant."""

from __future__ import annotations

import numpy as np

from scheduling.core.types import FloatArray


def deal_cells(capacity: FloatArray, quota: FloatArray) -> FloatArray:
    """Return cells (resources, tenants, servers) that add up to every tenant's quota (resources, tenants).

    Each resource is dealt on its own. The tenants take their turns in order, and each fills the remaining servers in
    order: owners hold whole servers wherever they can, so that their gangs fit on one machine. The operator owns what
    is left at the end. The quotas of a resource must not exceed its capacity (resources, servers).
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
    """Return cells (resources, tenants, servers) of whole units; each tenant owns a stretch of the row of servers.

    Server s covers [s, s + 1) of a line, and its units are spread evenly over it; tenant u owns the units whose middle
    lies in [bounds[u], bounds[u + 1]). So workers and parameter servers of a tenant are on the same machines, and a
    stretch between whole numbers consists of whole machines. `capacity` (resources, servers) is in whole units.
    """
    servers = np.arange(capacity.shape[1])
    reached = np.ceil((bounds[None, :, None] - servers) * capacity[:, None, :] - 0.5)
    cells: FloatArray = np.diff(np.clip(reached, 0.0, capacity[:, None, :]), axis=1)
    return cells
