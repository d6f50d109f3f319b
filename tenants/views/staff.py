"""Pages over all tenants: the list of tenants and the list of staff."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods, require_safe

from tenants import selectors, services
from tenants.access import AccessRequest, Refused
from tenants.forms import StaffForm, TenantForm
from tenants.mails import invitation_mail
from tenants.models import Invitation, StaffGrant, User
from tenants.roles import Permission
from tenants.services import IssuedInvitation
from tenants.views.gate import posted_from, requires, tell

MOST_INVITED = 100


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.TENANTS_VIEW)
def tenants(request: AccessRequest) -> HttpResponse:
    if request.method == "POST":
        return _tenant_create(request)
    return _tenants_page(request, TenantForm())


def _tenant_create(request: AccessRequest) -> HttpResponse:
    if not request.access.allows(Permission.TENANTS_CHANGE):
        raise PermissionDenied
    form = TenantForm(request.POST)
    if not form.is_valid():
        return _tenants_page(request, form)
    outcome = services.tenant_open(by=request.access, at=timezone.now(), **form.cleaned_data)
    if isinstance(outcome, Refused):
        form.add_error(None, outcome.sentence)
        return _tenants_page(request, form)
    if outcome.issued is None:
        tell(request, outcome, f"{outcome.tenant} exists. {outcome.owner} is its owner.")
        return redirect("tenants")
    return _sent_page(request, outcome.issued)


@posted_from("tenants")
@requires(Permission.TENANTS_CHANGE)
def owner_invite_again(request: AccessRequest, pk: int) -> HttpResponse:
    """Send a new link to the same address, and show it once, as after the tenant was made."""
    outcome = services.invitation_send_again(
        invitation=_invitation(pk), by=request.access, at=timezone.now(), reason=request.POST.get("reason", "")
    )
    if isinstance(outcome, Refused):
        tell(request, outcome, "")
        return redirect("tenants")
    return _sent_page(request, outcome)


@posted_from("tenants")
@requires(Permission.TENANTS_CHANGE)
def owner_withdraw(request: AccessRequest, pk: int) -> HttpResponse:
    invitation = _invitation(pk)
    outcome = services.invitation_revoke(
        invitation=invitation, by=request.access, at=timezone.now(), reason=request.POST.get("reason", "")
    )
    tell(request, outcome, f"The invitation of {invitation.email} to {invitation.tenant} is withdrawn.")
    return redirect("tenants")


def _invitation(pk: int) -> Invitation:
    invitation = selectors.invitation_anywhere(pk)
    if invitation is None:
        raise Http404
    return invitation


def _sent_page(request: AccessRequest, issued: IssuedInvitation) -> HttpResponse:
    """Mail the link, and show it once in case no mail arrives."""
    link = request.build_absolute_uri(reverse("invitation_open", args=[issued.token]))
    is_sent = invitation_mail(issued.invitation, link)
    answer = _tenants_page(request, TenantForm(), issued=issued, link=link, is_sent=is_sent)
    add_never_cache_headers(answer)
    return answer


def _tenants_page(request: AccessRequest, form: forms.Form, **issued: Any) -> HttpResponse:
    context = {
        "tenants": selectors.tenant_list(),
        "invited": selectors.invitations_of_owners(MOST_INVITED),
        "at": timezone.now(),
        "form": form,
        **issued,
    }
    return render(request, "staff/tenants.html", context)


def _person(email: str) -> User | Refused:
    person = User.objects.filter(email=email.strip().lower(), is_active=True).first()
    return person or Refused("unknown_person", f"There is no account for {email}.")


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


@posted_from("staff")
@requires(Permission.STAFF_CHANGE)
def staff_grant(request: AccessRequest) -> HttpResponse:
    form = StaffForm(request.POST)
    if not form.is_valid():
        return _staff_page(request, form)
    answers = form.cleaned_data
    person = _person(answers["email"])
    outcome: Any = person
    if isinstance(person, User):
        outcome = services.staff_grant(
            user=person, role=answers["role"], by=request.access, reason=answers["reason"], at=timezone.now()
        )
    if isinstance(outcome, Refused):
        form.add_error("email", outcome.sentence)
        return _staff_page(request, form)
    tell(request, outcome, f"{person} is {answers['role']} now.")
    return redirect("staff")


@posted_from("staff")
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
