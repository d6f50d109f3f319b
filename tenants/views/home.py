"""Where everybody arrives, and where a tenant's pages begin."""

from __future__ import annotations

from collections import Counter

from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from tenants import selectors
from tenants.access import AccessRequest
from tenants.ledger.selectors import balances_of_tenant
from tenants.roles import TENANT_ROLES, Permission
from tenants.views.gate import open_tenant, requires


@login_not_required
@require_safe
def home(request: AccessRequest) -> HttpResponse:
    """Strangers learn what this is; a member of one tenant goes straight there; the others choose."""
    if request.access.user is None:
        return render(request, "landing.html")
    own = selectors.user_tenants(request.access.user)
    if len(own) == 1 and not request.access.is_staff:
        return redirect("tenant_home", tenant_slug=own[0].slug)
    return render(request, "tenants/mine.html", {"staff_roles": sorted(request.access.roles)})


@require_safe
@requires(Permission.TENANT_VIEW)
def tenant_home(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    members = list(selectors.member_list())
    tenant, may_see_money = open_tenant(request), request.access.allows(Permission.LEDGER_VIEW)
    counted = Counter(member.role for member in members)
    context = {
        "members": members,
        "role_counts": [(role, counted[role]) for role in TENANT_ROLES],
        "invitations": selectors.invitation_list(timezone.now()),
        "recent": selectors.audit_entries(request.access)[:5],
        "tenant": tenant,
        "balances": balances_of_tenant(tenant_id=tenant.pk) if may_see_money else None,
    }
    return render(request, "tenants/home.html", context)
