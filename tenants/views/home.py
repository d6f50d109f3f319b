"""The first page of everybody, and the first page of a tenant."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from tenants import joining, selectors
from tenants.access import AccessRequest
from tenants.forms import JoinForm
from tenants.models import Invitation, User
from tenants.roles import Permission
from tenants.views.gate import requires


@login_not_required
@require_safe
def home(request: AccessRequest) -> HttpResponse:
    """Show strangers what this is, send the staff to their home and a member of one tenant there; others choose. Open
    invitations to the reader are shown first."""
    if request.access.user is None:
        return render(request, "landing.html")
    invitations = selectors.invitations_to(selectors.addresses_of(request.access.user), timezone.now())
    if not invitations and request.access.is_staff:
        return redirect(settings.STAFF_HOME)
    own = selectors.user_tenants(request.access.user)
    if not invitations and len(own) == 1:
        return redirect("tenant_home", tenant_slug=own[0].slug)
    return _mine(request, request.access.user, invitations)


@require_safe
def my_tenants(request: AccessRequest) -> HttpResponse:
    """Show the reader's tenants to choose from, also to readers whose first page is another one."""
    return my_page(request)


def my_page(request: AccessRequest, form: JoinForm | None = None) -> HttpResponse:
    """Show the reader's tenants. `form` is the form that was sent, where it was refused."""
    person = request.access.user
    assert person is not None  # noqa: S101  the log-in middleware lets nobody else through
    return _mine(request, person, selectors.invitations_to(selectors.addresses_of(person), timezone.now()), form)


def _mine(
    request: AccessRequest, person: User, invitations: Sequence[Invitation], form: JoinForm | None = None
) -> HttpResponse:
    tenants = joining.tenants_to_ask(person)
    context = {
        "staff_roles": sorted(request.access.roles),
        "invitations": invitations,
        "requests": joining.own_requests(person),
        "form": form or (JoinForm(tenants=tenants) if tenants else None),
    }
    return render(request, "tenants/mine.html", context)


@require_safe
@requires(Permission.TENANT_VIEW)
def tenant_home(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Redirect to the page with which the installation begins a tenant's pages: its market."""
    return redirect(settings.TENANT_HOME, tenant_slug=tenant_slug)
