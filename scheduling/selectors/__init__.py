"""Reads for pages, programs and commands, as frozen values."""

from scheduling.selectors.cluster import (
    CapacityView,
    OwnedUnits,
    PoolOverview,
    ResourceTotal,
    ServerView,
    pool_list,
    pool_overview,
    tenant_quota,
)

__all__ = [
    "CapacityView",
    "OwnedUnits",
    "PoolOverview",
    "ResourceTotal",
    "ServerView",
    "pool_list",
    "pool_overview",
    "tenant_quota",
]
