"""The tenant's page of servers and cells: what is mine, what is other owners', what is the operator's."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from scheduling import selectors
from scheduling.models import Pool
from scheduling.views.servers_chart import server_rows, shares
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires


@require_safe
@requires(Permission.QUOTA_VIEW)
def tenant_servers(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Of one pool: `?pool=slug`, else the first."""
    pools = selectors.pool_list()
    pool = pool_chosen(pools, request.GET.get("pool"))
    if pool is None:
        return render(request, "scheduling/servers_none.html")
    tenant = open_tenant(request)
    overview = selectors.pool_overview(pool)
    context = {
        "tenant": tenant,
        "pools": pools,
        "pool": pool,
        "shares": shares(overview, tenant.pk),
        "rows": server_rows(overview, tenant.pk),
    }
    return render(request, "scheduling/servers.html", context)


def pool_chosen(pools: list[Pool], slug: str | None) -> Pool | None:
    if slug is None:
        return pools[0] if pools else None
    for pool in pools:
        if pool.slug == slug:
            return pool
    raise Http404
