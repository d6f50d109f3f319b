"""The page that shows, before a plan is chosen, what each choice would change for the tenant's waiting jobs."""

from __future__ import annotations

from datetime import datetime

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.cluster import pool_list
from scheduling.cluster.pages.pools import pool_asked
from scheduling.models import Pool
from scheduling.quotes.plans import HomePlace, plans_compare
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import open_tenant, requires


@never_cache
@require_safe
@requires(Permission.JOBS_VIEW)
def tenant_plans(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Show the comparison for one pool: that of `?pool=slug`, else the one chosen last."""
    pool = pool_asked(request, pool_list())
    if pool is None:
        raise Http404
    outcome = plans_compare(pool=pool, by=request.access, at=timezone.now())
    refused = isinstance(outcome, Refused)
    rows = [] if isinstance(outcome, Refused) else outcome.jobs
    context = {
        "tenant": open_tenant(request),
        "pool": pool,
        "refusal": outcome if refused else None,
        "plans": None if refused else outcome,
        "rows": [(each, _times(pool, each.keep), _times(pool, each.renew)) for each in rows],
    }
    return render(request, "quotes/plans.html", context)


def _times(pool: Pool, place: HomePlace | None) -> tuple[datetime, datetime] | None:
    """Return when a place begins and ends."""
    return None if place is None else (pool.slot_start(place.start), pool.slot_start(place.end))
