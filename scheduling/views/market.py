"""The tenant's market page: prices now, the next interval, its jobs. Asks for its live part again every two seconds."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduling import selectors
from scheduling.selectors.market import market_view
from scheduling.views.servers import pool_chosen
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires


@require_safe
@requires(Permission.PRICES_VIEW)
def tenant_market(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Of one pool: `?pool=slug`, else the first. `?live`: the part of the page that changes, alone."""
    pools = selectors.pool_list()
    pool = pool_chosen(pools, request.GET.get("pool"))
    if pool is None:
        return render(request, "scheduling/servers_none.html")
    tenant = open_tenant(request)
    context = {
        "tenant": tenant,
        "pools": pools,
        "pool": pool,
        "market": market_view(tenant=tenant, pool=pool, at=timezone.now()),
    }
    template = "scheduling/market_live.html" if "live" in request.GET else "scheduling/market.html"
    return render(request, template, context)
