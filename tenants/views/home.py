"""Where everybody arrives, and where a tenant's pages begin."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from tenants import selectors
from tenants.access import AccessRequest
from tenants.roles import Permission
from tenants.views.gate import requires


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
    """A tenant's pages begin with the one that the installation names: its market."""
    return redirect(settings.TENANT_HOME, tenant_slug=tenant_slug)
