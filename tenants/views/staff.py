"""Pages over all tenants: the tenants and the staff."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from tenants import selectors, services
from tenants.access import AccessRequest, Refused
from tenants.forms import StaffForm, TenantForm
from tenants.models import Membership, StaffGrant, User
from tenants.roles import OWNER, Permission
from tenants.views.gate import requires, tell


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.TENANTS_VIEW)
def tenants(request: AccessRequest) -> HttpResponse:
    if request.method == "POST":
        return _tenant_create(request)
    return render(request, "staff/tenants.html", {"tenants": selectors.tenant_list(), "form": TenantForm()})


def _tenant_create(request: AccessRequest) -> HttpResponse:
    if not request.access.allows(Permission.TENANTS_CHANGE):
        raise PermissionDenied
    form = TenantForm(request.POST)
    outcome = _tenant_with_owner(request, form) if form.is_valid() else None
    if outcome is None or isinstance(outcome, Refused):
        if outcome:
            form.add_error(None, outcome.sentence)
        return render(request, "staff/tenants.html", {"tenants": selectors.tenant_list(), "form": form})
    tell(request, outcome, f"{outcome.tenant} exists. {outcome.user} is its owner.")
    return redirect("tenant_home", outcome.tenant.slug)


@transaction.atomic
def _tenant_with_owner(request: AccessRequest, form: TenantForm) -> Membership | Refused:
    """Both or neither: a tenant without an owner could be mended by nobody but us."""
    asked, at = form.cleaned_data, timezone.now()
    owner = _person(asked["owner"])
    if isinstance(owner, Refused):
        return owner
    tenant = services.tenant_create(
        slug=asked["slug"], name=asked["name"], by=request.access, reason=asked["reason"], at=at
    )
    if isinstance(tenant, Refused):
        return tenant
    outcome = services.member_add(
        tenant=tenant, user=owner, role=OWNER, by=request.access, reason=asked["reason"], at=at
    )
    if isinstance(outcome, Refused):
        transaction.set_rollback(True)
    return outcome


def _person(email: str) -> User | Refused:
    found = User.objects.filter(email=email.strip().lower(), is_active=True).first()
    return found or Refused("unknown_person", f"There is no account for {email}.")


@require_safe
@requires(Permission.TENANTS_VIEW)
def staff(request: AccessRequest) -> HttpResponse:
    return _staff_page(request, StaffForm())


def _staff_page(request: AccessRequest, form: forms.Form) -> HttpResponse:
    grants = list(selectors.staff_list())
    context = {
        "current": [grant for grant in grants if grant.revoked_at is None],
        "past": [grant for grant in grants if grant.revoked_at is not None],
        "form": form,
    }
    return render(request, "staff/staff.html", context)


@require_POST
@requires(Permission.STAFF_CHANGE)
def staff_grant(request: AccessRequest) -> HttpResponse:
    form = StaffForm(request.POST)
    if not form.is_valid():
        return _staff_page(request, form)
    asked = form.cleaned_data
    person = _person(asked["email"])
    outcome: Any = person
    if isinstance(person, User):
        outcome = services.staff_grant(
            user=person, role=asked["role"], by=request.access, reason=asked["reason"], at=timezone.now()
        )
    if isinstance(outcome, Refused):
        form.add_error("email", outcome.sentence)
        return _staff_page(request, form)
    tell(request, outcome, f"{person} is {asked['role']} now.")
    return redirect("staff")


@require_POST
@requires(Permission.STAFF_CHANGE)
def staff_revoke(request: AccessRequest, pk: int) -> HttpResponse:
    grant = get_object_or_404(StaffGrant.objects.select_related("user"), pk=pk)
    outcome = services.staff_revoke(
        user=grant.user,
        role=grant.role,
        by=request.access,
        reason=request.POST.get("reason", ""),
        at=timezone.now(),
    )
    tell(request, outcome, f"{grant.user} is no longer {grant.role}.")
    return redirect("staff")
