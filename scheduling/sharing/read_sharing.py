"""Read what a tenant lets the market do with its cells and its money in a pool."""

from __future__ import annotations

from scheduling.models import Pool, TenantPolicy
from tenants.models import Tenant


def sharing_of(tenant: Tenant, pool: Pool) -> TenantPolicy:
    """Return the tenant's instructions, or the defaults where it has given none. Needs the tenant's scope."""
    return TenantPolicy.objects.filter(pool=pool, tenant=tenant).first() or nothing_said(tenant, pool)


def nothing_said(tenant: Tenant, pool: Pool) -> TenantPolicy:
    """Return the instructions of a tenant that has no row, as a row that is not saved."""
    return TenantPolicy(pool=pool, tenant=tenant, plan=pool.usual_plan)
