"""Build the market of a tenant's own idle cells, which its jobs may have at once and for nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduling.core.posted.bounds import PriceBounds
from scheduling.core.types import Booking, FloatArray, View

COUNTED = PriceBounds(1.0, {})  # every unit counts alike: the cheapest schedule is the one that takes the fewest


def home_view(view: View) -> View | None:
    """Return the market as if there were only the tenant's own idle cells, or None if there are none. It ends with the
    last slot for which they are counted, as it is unknown how many are idle after that."""
    own = view.own_idle
    if own is None or not own.any():
        return None
    capacity = own.max(axis=1)
    return replace(
        view,
        horizon=min(view.horizon, view.slot + own.shape[1]),
        cluster=replace(view.cluster, capacity=capacity),
        occupied=capacity[:, None, :] - own,
        tail=capacity,
        windows=(),
        resale=(),
    )


def on_its_servers(view: View, own_idle: FloatArray) -> tuple[View, list[int]]:
    """Return the market on only those servers that have an idle cell of the tenant, for `home_view`, and the indexes of
    these servers. A tenant has cells on a few of thousands of servers."""
    cluster, servers = view.cluster, np.flatnonzero(own_idle.any(axis=(0, 1)))
    smaller = replace(
        cluster,
        servers=tuple(cluster.servers[server] for server in servers.tolist()),
        capacity=cluster.capacity[:, servers],
        hosts_workers=cluster.hosts_workers[servers],
        hosts_ps=cluster.hosts_ps[servers],
        cells=None if cluster.cells is None else cluster.cells[:, :, servers],
    )
    tail = None if view.tail is None else view.tail[:, servers]
    occupied = view.occupied[:, :, servers]
    there = replace(view, cluster=smaller, occupied=occupied, tail=tail, own_idle=own_idle[..., servers])
    return there, servers.tolist()


def on_whole_cluster(booking: Booking, servers: list[int]) -> Booking:
    """Return a booking on a selection of `servers` as a booking on the whole cluster."""
    return replace(booking, allocation=tuple(replace(row, server=servers[row.server]) for row in booking.allocation))
