"""The context of the frame of a tenant's page: the tape, the purse, the count of its jobs, the bell."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from scheduling.cluster import PoolOverview, pool_list
from scheduling.cluster.pages.pools import pool_remembered
from scheduling.market.reads.now import MarketNow, jobs_count, market_now
from scheduling.models import Pool
from scheduling.notices import Opening, page_opening
from tenants.access import NOBODY, Access
from tenants.ledger.selectors import balances_of_tenant
from tenants.models import Tenant
from tenants.roles import Permission


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return the frame of a request. It is lazy: nothing is read unless the page shows it. Its cursor is the place in
    the feed from which the page's socket continues."""
    access: Access = getattr(request, "access", NOBODY)
    tenant = access.tenant
    if tenant is None:
        return {"frame": None}
    return {"frame": SimpleLazyObject(lambda: frame_values(access, tenant, pool_shown(request, pool_list())))}


def frame_in(access: Access, tenant: Tenant, pool: Pool | None, overview: PoolOverview | None = None) -> Any:
    """Return the frame for a page that knows its pool; `overview` is that of its servers, if the page has read it. It
    is lazy too."""
    return SimpleLazyObject(lambda: frame_values(access, tenant, pool, overview))


def frame_values(
    access: Access, tenant: Tenant, pool: Pool | None, overview: PoolOverview | None = None
) -> dict[str, Any]:
    """Read the values of the frame. The cursor is read first, so that an event that happens meanwhile comes twice
    rather than not at all."""
    opening = page_opening(access.user)
    now = None if pool is None else market_now(pool, timezone.now(), overview=overview)
    return frame_of(access, tenant, opening, now)


def frame_of(access: Access, tenant: Tenant, opening: Opening, now: MarketNow | None) -> dict[str, Any]:
    """Return the frame for a page that has read the market itself."""
    jobs = jobs_count(tenant) if access.allows(Permission.JOBS_VIEW) else None
    here = jobs.here(now.pool) if jobs and now else None
    return {
        "cursor": opening.cursor,
        "unread": opening.unread,
        "now": now,
        "jobs": jobs,
        "jobs_here": here,
        "jobs_elsewhere": jobs.live - here.live if jobs and here else 0,
        "balances": balances_of_tenant(tenant_id=tenant.pk) if access.allows(Permission.LEDGER_VIEW) else None,
    }


def pool_shown(request: HttpRequest, pools: list[Pool]) -> Pool | None:
    """Return the pool that the address names, else the one that was chosen last, or None if there is none."""
    match = request.resolver_match
    slug = request.GET.get("pool") or (match.kwargs.get("pool_slug") if match else None)
    return next((pool for pool in pools if pool.slug == slug), None) or pool_remembered(request, pools)
