"""Forms about joining: for the person who asks, on their page of tenants, and for the owners, on the page
of members."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from tenants import joining, services
from tenants.access import AccessRequest, Refused
from tenants.forms import JoinForm, RoleForm, reason_in
from tenants.models import JoinRequest, User
from tenants.roles import Permission
from tenants.views.gate import open_tenant, posted_from, requires, tell
from tenants.views.home import my_page

FIELDS = {"reason_missing": "why", "reason_too_long": "why"}


@posted_from("my_tenants")
def join_ask(request: AccessRequest) -> HttpResponse:
    person = _person(request)
    form = JoinForm(request.POST, tenants=joining.tenants_to_ask(person))
    if not form.is_valid():
        return my_page(request, form)
    outcome = services.join_request_create(person=person, at=timezone.now(), **form.cleaned_data)
    if isinstance(outcome, Refused):
        form.add_error(FIELDS.get(outcome.code, "tenant"), outcome.sentence)
        return my_page(request, form)
    tell(request, outcome, f"The owners of {outcome.tenant} see your request. Their answer comes as a notice.")
    return redirect("my_tenants")


@posted_from("my_tenants")
def join_withdraw(request: AccessRequest, pk: int) -> HttpResponse:
    outcome = services.join_request_withdraw(number=pk, person=_person(request), at=timezone.now())
    tell(request, outcome, "Your request is withdrawn.")
    return redirect("my_tenants")


@posted_from("tenant_members")
@requires(Permission.MEMBERS_CHANGE)
def join_accept(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    join_request, form = _request(pk), RoleForm(request.POST)
    if not form.is_valid():
        tell(request, Refused("unknown_role", "Choose one of the roles."), "")
        return redirect("tenant_members", tenant_slug)
    outcome = services.join_request_accept(
        request=join_request, by=request.access, at=timezone.now(), **form.cleaned_data
    )
    tell(request, outcome, f"{join_request.person} is a member now, as {form.cleaned_data['role']}.")
    return redirect("tenant_members", tenant_slug)


@posted_from("tenant_members")
@requires(Permission.MEMBERS_CHANGE)
def join_decline(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    join_request = _request(pk)
    outcome = services.join_request_decline(
        request=join_request, by=request.access, at=timezone.now(), reason=reason_in(request.POST)
    )
    tell(request, outcome, f"The request of {join_request.person} is declined.")
    return redirect("tenant_members", tenant_slug)


@posted_from("tenant_members")
@requires(Permission.MEMBERS_CHANGE)
def may_be_asked(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    tenant, on = open_tenant(request), request.POST.get("on") == "yes"
    outcome = services.may_be_asked_set(
        tenant=tenant, on=on, by=request.access, at=timezone.now(), reason=reason_in(request.POST)
    )
    tell(request, outcome, f"People may ask to join {tenant}." if on else f"Nobody can ask to join {tenant} now.")
    return redirect("tenant_members", tenant_slug)


def _person(request: AccessRequest) -> User:
    person = request.access.user
    if person is None:
        raise RuntimeError("the log-in middleware lets nobody else through")
    return person


def _request(pk: int) -> JoinRequest:
    join_request = joining.join_request_by_id(pk)
    if join_request is None:
        raise Http404
    return join_request
