"""What the frame of a tenant's page shows: the tape, the purse, the count of its jobs, the bell."""

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
    """Everything is asked only if the page shows it. The cursor is: from where the page's socket catches up."""
    access: Access = getattr(request, "access", NOBODY)
    tenant = access.tenant
    if tenant is None:
        return {"frame": None}
    return {"frame": SimpleLazyObject(lambda: frame_values(access, tenant, request.GET.get("pool")))}


def frame_values(access: Access, tenant: Tenant, pool_slug: str | None) -> dict[str, Any]:
    """The cursor first: what happens while the rest is read is told again, never left out."""
    opening = page_opening(access.user)
    pool = _pool(pool_list(), pool_slug)
    return frame_of(access, tenant, opening, None if pool is None else market_now(pool, timezone.now()))


def frame_in(access: Access, tenant: Tenant, pool: Pool, overview: PoolOverview) -> Any:
    """Of a page that is about this pool and has looked at its servers. Asked only if the page shows it."""

    def values() -> dict[str, Any]:
        opening = page_opening(access.user)
        return frame_of(access, tenant, opening, market_now(pool, timezone.now(), overview=overview))

    return SimpleLazyObject(values)


def frame_of(access: Access, tenant: Tenant, opening: Opening, now: MarketNow | None) -> dict[str, Any]:
    """Of a page that has asked for the market itself."""
    return {
        "cursor": opening.cursor,
        "unread": opening.unread,
        "now": now,
        "jobs": jobs_count(tenant) if access.allows(Permission.JOBS_VIEW) else None,
        "balances": balances_of_tenant(tenant_id=tenant.pk) if access.allows(Permission.LEDGER_VIEW) else None,
    }


def _pool(pools: list[Pool], slug: str | None) -> Pool | None:
    """The one that is asked for, else the first."""
    return next((pool for pool in pools if pool.slug == slug), pools[0] if pools else None)
