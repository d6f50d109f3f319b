"""The tenant's market page: present and coming prices, the next interval, servers over time, and the tenant's jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.cluster import PoolOverview, pool_list, pool_overview
from scheduling.cluster.pages.pools import pool_asked
from scheduling.market.pages import board, gantt
from scheduling.market.pages.context import frame_of
from scheduling.market.pages.pool_chart import servers_chart
from scheduling.market.reads import market as reads
from scheduling.market.reads.now import MarketNow, market_now
from scheduling.market.reads.period import money_since
from scheduling.market.reads.windows import spans_of
from scheduling.models import Pool
from scheduling.notices import page_opening
from tenants.access import AccessRequest
from tenants.common.zones import day_of, midnight
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires
from tenants.views.parts import part_or_page

PARTS = {
    "board": "market/market_board.html",
    "prices": "market/market_prices.html",
    "servers": "market/market_servers.html",
    "jobs": "market/market_jobs.html",
}
MOST_SERVERS = 12
BACK, LEAST_AHEAD, MOST_AHEAD = 8, 12, 32  # slots of the chart of servers: before now; least and most after it


@dataclass(frozen=True)
class MarketRequest:
    request: AccessRequest
    tenant: Tenant
    pool: Pool
    overview: PoolOverview
    now: MarketNow

    @cached_property
    def history(self) -> reads.PriceHistory:
        return reads.price_history(self.pool, self.now)

    @cached_property
    def coming(self) -> reads.NextInterval | None:
        return reads.next_interval(self.tenant, self.now, self.overview)


@require_safe
@requires(Permission.PRICES_VIEW)
def tenant_market(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show the market of one pool: `?pool=slug`, or the one chosen last. A request for a part reads only what it
    shows."""
    pools, tenant = pool_list(), open_tenant(request)
    pool = pool_asked(request, pools)
    if pool is None:
        return render(request, "market/no_pool.html", {"heading": "Market"})
    opening, overview = page_opening(request.access.user), pool_overview(pool)
    now = market_now(pool, timezone.now(), back=reads.SLOTS_BACK, overview=overview)
    market_request, frame = (
        MarketRequest(request, tenant, pool, overview, now),
        frame_of(request.access, tenant, opening, now),
    )
    part = request.GET.get("part")
    context: dict[str, Any] = {
        "tenant": tenant,
        "pools": pools,
        "pool": pool,
        "frame": frame,
        "now": market_request.now,
    }
    for name, build in BUILDERS.items():
        if part in (None, name):
            context |= build(market_request)
    return part_or_page(request, "market/market.html", PARTS, context)


def _board(market_request: MarketRequest) -> dict[str, Any]:
    pool, now, access = market_request.pool, market_request.now, market_request.request.access
    history = market_request.history
    span = spans_of([(pool.pk, now.slot)]).get((pool.pk, now.slot))
    units = reads.my_units(market_request.tenant, pool, now, market_request.overview)
    squares = board.squares(units) if units else ()
    money = None
    if access.allows(Permission.LEDGER_VIEW):
        (money,), _ = money_since(tenant_id=market_request.tenant.pk, starts=[midnight(day_of(now.at))], at=now.at)
    return {
        "tiles": board.tiles(pool, now, history),
        "history": history,
        "last_decided": history.slots[-1] if history.slots else None,
        "slot_bars": board.slot_bars(span, now),
        "span": span,
        "units": units,
        "squares": squares,
        "squares_height": board.square_rows(squares),
        "money": money,
        "coming": market_request.coming,
    }


def _prices(market_request: MarketRequest) -> dict[str, Any]:
    history = market_request.history
    return {
        "history": history,
        "lines": [
            (resource, board.step_line([one.prices[index] for one in history.slots], width=100, height=100))
            for index, resource in enumerate(market_request.now.resources)
        ],
        "coming": market_request.coming,
    }


def _servers(market_request: MarketRequest) -> dict[str, Any]:
    return {
        "chart": servers_chart(
            tenant=market_request.tenant,
            pool=market_request.pool,
            overview=market_request.overview,
            now=market_request.now,
            history=market_request.history,
            span=near(market_request.now),
            most=MOST_SERVERS,
        )
    }


def near(now: MarketNow) -> gantt.BarSpan:
    """Return the slots of the chart: from a little before now to well after the last decided slot."""
    ahead = min(max(now.frontier - now.slot + 4, LEAST_AHEAD), MOST_AHEAD)
    return gantt.BarSpan(now.slot - BACK, now.slot + ahead)


def _jobs(market_request: MarketRequest) -> dict[str, Any]:
    if not market_request.request.access.allows(Permission.JOBS_VIEW):
        return {"jobs": ()}
    return {"jobs": reads.my_jobs(market_request.tenant, market_request.pool, market_request.now.at)}


BUILDERS: dict[str, Callable[[MarketRequest], dict[str, Any]]] = {
    "board": _board,
    "prices": _prices,
    "servers": _servers,
    "jobs": _jobs,
}
