"""Gather and compute the chart of a pool's servers over time."""

from __future__ import annotations

from scheduling.cluster import PoolOverview
from scheduling.market.pages import gantt
from scheduling.market.reads.bookings import bookings_between
from scheduling.market.reads.market import PriceHistory
from scheduling.market.reads.now import MarketNow
from scheduling.models import Pool
from tenants.models import Tenant


def servers_chart(
    *,
    tenant: Tenant,
    pool: Pool,
    overview: PoolOverview,
    now: MarketNow,
    history: PriceHistory,
    span: gantt.BarSpan,
    most: int,
) -> gantt.Chart:
    """Return the chart, with at most `most` servers. Needs the tenant's scope."""
    ids = {server.name: server.id for server in overview.servers}
    home = [server for server in overview.servers if any(units.units_of(tenant.pk) for units in server.capacities)]
    bookings = bookings_between(
        tenant=tenant, pool=pool, first=span.first, last=span.last, home=[ids[server.name] for server in home]
    )
    return gantt.chart(
        pool=pool,
        now=now,
        overview=overview,
        server_ids=ids,
        bookings=bookings,
        history=history,
        span=span,
        tenant_id=tenant.pk,
        most_servers=most,
    )
