"""Pools, servers and cells as everybody reads them, and what every change to them has in common."""

from scheduling.cluster.changes import may_change_cluster, pool_lock, server_subject
from scheduling.cluster.read_cluster import (
    CapacityView,
    OwnedUnits,
    PoolOverview,
    ResourceTotal,
    ServerView,
    pool_list,
    pool_overview,
)
from scheduling.cluster.read_pools import pool_states
from scheduling.cluster.read_servers import cell_lines, server_by_name, server_view

__all__ = [
    "CapacityView",
    "OwnedUnits",
    "PoolOverview",
    "ResourceTotal",
    "ServerView",
    "cell_lines",
    "may_change_cluster",
    "pool_list",
    "pool_lock",
    "pool_overview",
    "pool_states",
    "server_by_name",
    "server_subject",
    "server_view",
]
