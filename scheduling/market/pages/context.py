"""The context of the frame of a tenant's page: the tape, the purse, the count of its jobs, the bell."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from scheduling.cluster import PoolOverview, pool_list
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
    return {"frame": SimpleLazyObject(lambda: frame_values(access, tenant, request.GET.get("pool")))}


def frame_values(access: Access, tenant: Tenant, pool_slug: str | None) -> dict[str, Any]:
    """Read the values of the frame. The cursor is read first, so that an event that happens meanwhile comes twice
    rather than not at all."""
    opening = page_opening(access.user)
    pool = _pool(pool_list(), pool_slug)
    return frame_of(access, tenant, opening, None if pool is None else market_now(pool, timezone.now()))


def frame_in(access: Access, tenant: Tenant, pool: Pool, overview: PoolOverview) -> Any:
    """Return the frame for a page about this pool that has read its servers already. It is lazy too."""

    def values() -> dict[str, Any]:
        opening = page_opening(access.user)
        return frame_of(access, tenant, opening, market_now(pool, timezone.now(), overview=overview))

    return SimpleLazyObject(values)


def frame_of(access: Access, tenant: Tenant, opening: Opening, now: MarketNow | None) -> dict[str, Any]:
    """Return the frame for a page that has read the market itself."""
    return {
        "cursor": opening.cursor,
        "unread": opening.unread,
        "now": now,
        "jobs": jobs_count(tenant) if access.allows(Permission.JOBS_VIEW) else None,
        "balances": balances_of_tenant(tenant_id=tenant.pk) if access.allows(Permission.LEDGER_VIEW) else None,
    }


def _pool(pools: list[Pool], slug: str | None) -> Pool | None:
    """Return the pool with this slug, else the first pool, or None if there is none."""
    return next((pool for pool in pools if pool.slug == slug), pools[0] if pools else None)
