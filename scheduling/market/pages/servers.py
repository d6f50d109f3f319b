"""The tenant's page of servers: what runs where and when in the whole pool, and who owns which cells."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling.cluster import PoolOverview, pool_list, pool_overview
from scheduling.cluster.pages.pools import pool_asked
from scheduling.market.pages.gantt import BarSpan
from scheduling.market.pages.pool_chart import servers_chart
from scheduling.market.pages.servers_chart import server_rows, shares
from scheduling.market.pages.servers_choice import servers_choice
from scheduling.market.reads.market import SLOTS_BACK, price_history
from scheduling.market.reads.now import MarketNow, market_now
from tenants.access import AccessRequest
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires
from tenants.views.parts import part_or_page

PARTS = {"chart": "market/servers_time.html", "cells": "market/servers_cells.html"}
WINDOWS = (24, 48, 96, 192)  # slots in the chart
FARTHEST = 100_000  # slots from now that an address may ask for


@require_safe
@requires(Permission.QUOTA_VIEW)
def tenant_servers(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show the servers of one pool: `?pool=slug`, or the one chosen last. The chart shows `?window=` slots from slot
    `?from=` on, or around now. For a large pool it is a page of servers, filtered by `?owner=`, `?state=` and
    `?name=`."""
    pools = pool_list()
    pool = pool_asked(request, pools)
    if pool is None:
        return render(request, "market/no_pool.html", {"heading": "Servers and cells"})
    tenant, part, overview = open_tenant(request), request.GET.get("part"), pool_overview(pool)
    now = market_now(pool, timezone.now(), back=SLOTS_BACK, overview=overview)
    choice = servers_choice(overview, tenant.pk, request.GET)
    page_overview = choice.overview if choice else overview
    context: dict[str, Any] = {"tenant": tenant, "pools": pools, "pool": pool, "now": now, "choice": choice}
    if part != "cells":
        context |= _chart(request, tenant, page_overview, now)
    if part != "chart":
        context |= {"shares": shares(overview, tenant.pk), "rows": server_rows(page_overview, tenant.pk)}
    return part_or_page(request, "market/servers.html", PARTS, context)


def _chart(request: AccessRequest, tenant: Tenant, overview: PoolOverview, now: MarketNow) -> dict[str, Any]:
    pool = overview.pool
    window = _number(request.GET.get("window"))
    length = window if window in WINDOWS else WINDOWS[0]
    first_wanted = _number(request.GET.get("from"))
    first = (
        now.slot - length // 4
        if first_wanted is None
        else min(max(first_wanted, now.slot - FARTHEST), now.slot + FARTHEST)
    )
    span = BarSpan(first, first + length)
    return {
        "chart": servers_chart(
            tenant=tenant,
            pool=pool,
            overview=overview,
            now=now,
            history=price_history(pool, now),
            span=span,
            most=len(overview.servers),
        ),
        "windows": WINDOWS,
        "window": length,
        "start": first_wanted if first_wanted is None else first,
        "earlier": first - length // 2,
        "later": first + length // 2,
    }


def _number(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) < 16 else None
