"""What a tenant lets the market do with its cells and its money in a pool."""

from __future__ import annotations

from scheduling.models import Pool, TenantPolicy
from tenants.models import Tenant


def sharing_of(tenant: Tenant, pool: Pool) -> TenantPolicy:
    """As it was said, or as it is for who said nothing. Needs the tenant's scope."""
    return TenantPolicy.objects.filter(pool=pool, tenant=tenant).first() or nothing_said(tenant, pool)


def nothing_said(tenant: Tenant, pool: Pool) -> TenantPolicy:
    """What holds for a tenant without a row, not saved."""
    return TenantPolicy(pool=pool, tenant=tenant, plan=pool.usual_plan)
