"""The page of the open tenant's members and invitations."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import messages
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from tenants import joining, selectors, services
from tenants.access import AccessRequest, Refused
from tenants.forms import InvitationForm, RoleForm, reason_in
from tenants.models import Invitation, JoinRequest, Membership
from tenants.roles import OWNER, TENANT_ROLES, Permission
from tenants.services import IssuedInvitation
from tenants.views.gate import open_tenant, posted_from, requires, tell
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

MEMBERS = (
    Column("name", "Name", order="user__name", value=lambda row: row.user.name),
    Column("email", "E-mail", order="user__email", value=lambda row: row.user.email),
    Column("role", "Role", order="role"),
    Column("since", "Since", order="created_at", value=lambda row: row.created_at),
)
MOST_REQUESTS = 50  # on the page; the interface lists all of them
ROWS = 30  # people on one page, which has forms below them
CHANGE = Column("change", "Change", numeric=True)


@require_safe
@requires(Permission.MEMBERS_VIEW)
def members(request: AccessRequest, tenant_slug: str) -> HttpResponseBase:
    if asks_csv(request):
        return csv_response(request, selectors.member_list(), _table(MEMBERS, f"members-{tenant_slug}"))
    return _page(request, InvitationForm())


def _table(columns: Sequence[Column], file: str = "members") -> Table:
    return Table(columns, sort="name", rows=ROWS, file=file)


def _page(request: AccessRequest, form: InvitationForm, issued: IssuedInvitation | None = None) -> HttpResponse:
    people = selectors.member_list()
    changes = request.access.allows(Permission.MEMBERS_CHANGE)
    table = table_of(request, people, _table((*MEMBERS[:1], *MEMBERS[2:], *((CHANGE,) if changes else ()))))
    roles = dict(people.order_by().values_list("user_id", "role"))
    context = {
        "table": table,
        "members": table.rows,
        "people": len(roles),
        "owners": sum(role == OWNER for role in roles.values()),
        "roles": TENANT_ROLES,
        "invitations": selectors.invitation_list(timezone.now()),
        "requests": _requests(request),
        "form": form,
        "issued": issued,
        "link": request.build_absolute_uri(reverse("invitation_open", args=[issued.token])) if issued else "",
        "by_staff": OWNER not in request.access.roles,
        "is_member": request.user.pk in roles,
    }
    return render(request, "tenants/members.html", context)


def _requests(request: AccessRequest) -> list[JoinRequest]:
    """List the waiting requests, the oldest first, for readers who may see them."""
    if not request.access.allows(Permission.JOIN_REQUESTS_VIEW):
        return []
    return list(joining.join_requests_waiting()[:MOST_REQUESTS])


@never_cache
@posted_from("tenant_members")
@requires(Permission.MEMBERS_CHANGE)
def invitation_create(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Invite somebody. The answer shows the link once: it is not kept, so it cannot survive a redirect."""
    form = InvitationForm(request.POST)
    if not form.is_valid():
        return _page(request, form)
    outcome = services.invitation_create(
        tenant=open_tenant(request), by=request.access, at=timezone.now(), **form.cleaned_data
    )
    if isinstance(outcome, Refused):
        form.add_error("reason" if outcome.code == "reason_missing" else "email", outcome.sentence)
        return _page(request, form)
    return _page(request, InvitationForm(), issued=outcome)


@posted_from("tenant_members")
@requires(Permission.MEMBERS_CHANGE)
def invitation_revoke(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    invitation = get_object_or_404(Invitation.objects.select_related("tenant"), pk=pk)
    outcome = services.invitation_revoke(
        invitation=invitation, by=request.access, at=timezone.now(), reason=reason_in(request.POST)
    )
    tell(request, outcome, f"The invitation of {invitation.email} is withdrawn.")
    return redirect("tenant_members", tenant_slug)


@posted_from("tenant_members")
@requires(Permission.MEMBERS_CHANGE)
def member_role_change(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    membership = _membership(pk)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "There is no such role.")
        return redirect("tenant_members", tenant_slug)
    outcome = services.member_role_change(
        membership=membership, by=request.access, at=timezone.now(), **form.cleaned_data
    )
    tell(request, outcome, f"{membership.user} is now {form.cleaned_data['role']}.")
    return redirect("tenant_members", tenant_slug)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.MEMBERS_CHANGE)
def member_remove(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Say what ends with the membership, or end it where the form is posted."""
    membership = _membership(pk)
    if request.method != "POST":
        context = {"membership": membership, "by_staff": OWNER not in request.access.roles}
        return render(request, "tenants/member_remove.html", context)
    outcome = services.member_remove(
        membership=membership, by=request.access, at=timezone.now(), reason=reason_in(request.POST)
    )
    tell(request, outcome, f"{membership.user} is no longer a member.")
    return _after_leaving(request, tenant_slug)


@posted_from("tenant_members")
@requires(Permission.TENANT_VIEW)
def member_leave(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    rows = Membership.objects.select_related("user", "tenant")
    membership = get_object_or_404(rows, user=request.access.user)
    outcome = services.member_remove(membership=membership, by=request.access, at=timezone.now())
    tell(request, outcome, f"You have left {membership.tenant}.")
    return _after_leaving(request, tenant_slug)


def _after_leaving(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Redirect to the members, or home if the reader has just left: they would find no page here any more."""
    has_left = not Membership.objects.filter(user=request.access.user).exists() and not request.access.is_staff
    return redirect("home") if has_left else redirect("tenant_members", tenant_slug)


def _membership(pk: int) -> Membership:
    return get_object_or_404(Membership.objects.select_related("user", "tenant"), pk=pk)
