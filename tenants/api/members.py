"""Members of a tenant: who they are, changing a role, removing one, leaving."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from tenants import services
from tenants.access import Refused
from tenants.api.fields import Answer, Form, Moment, Text
from tenants.api.listing import Listing, choice, word
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.models import Membership
from tenants.roles import TENANT_ROLES, Permission
from tenants.selectors import member_by_id, member_list
from tenants.services.members import REASON_LONGEST

WHY = "Why, for the history. Operators must say it, owners may."


class Why(Form):
    reason = Text(required=False, allow_blank=True, default="", max_length=REASON_LONGEST, help_text=WHY)


class NewRole(Why):
    role = Text(max_length=20, help_text=f"One of {', '.join(TENANT_ROLES)}.")


class MemberShown(Answer):
    id = serializers.IntegerField()
    person = serializers.EmailField(source="user.email")
    name = serializers.CharField(source="user.name")
    role = serializers.ChoiceField(list(TENANT_ROLES))
    since = Moment(source="created_at")


class MemberGone(Answer):
    removed = serializers.BooleanField()


EXAMPLE: dict[str, Any] = {
    "id": 3,
    "person": "ada@lumen.example",
    "name": "Ada",
    "role": "submitter",
    "since": "2026-01-05T09:00:00Z",
}
GONE_EXAMPLE = {"removed": True}
MEMBERS = Listing(
    MemberShown,
    orderings=("id", "-id"),
    filters=(
        choice("role", TENANT_ROLES, "Only members with one of these roles."),
        word("person", "Only the member with this e-mail address.", "user__email"),
    ),
)
NO_MEMBER = Refused("not_member", "You are no member of this tenant.")
REFUSALS = ("not_member", "last_owner", "reason_missing", "reason_too_long")


class Members(TenantView):
    @operation(
        "members_list",
        summary="Members of the tenant",
        description="In the order in which they came.",
        permission=Permission.MEMBERS_VIEW,
        listing=MEMBERS,
        answer_example=EXAMPLE,
        tag="members",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed(member_list())


class MemberRole(TenantView):
    @operation(
        "member_role",
        summary="Change a member's role",
        description="By an owner, or by an operator with a reason. A tenant keeps at least one owner. Tokens of the "
        "member reach no further than the new role from then on.",
        permission=Permission.MEMBERS_CHANGE,
        body=NewRole,
        answer=MemberShown,
        request_example={"role": "submitter", "reason": "joins the night shift"},
        answer_example=EXAMPLE,
        refusals=(*REFUSALS, "unknown_role"),
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str, member_id: int) -> HttpResponseBase:
        body = self.read(NewRole)
        outcome = services.member_role_change(membership=_member(member_id), by=self.access, at=timezone.now(), **body)
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(MemberShown, outcome)


class MemberRemove(TenantView):
    @operation(
        "member_remove",
        summary="Remove a member",
        description="By an owner, or by an operator with a reason. The person's tokens for the tenant end at "
        "once, and do not come back with the person. The jobs stay.",
        permission=Permission.MEMBERS_CHANGE,
        body=Why,
        answer=MemberGone,
        request_example={"reason": "left the team"},
        answer_example=GONE_EXAMPLE,
        refusals=REFUSALS,
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str, member_id: int) -> HttpResponseBase:
        reason = self.read(Why)["reason"]
        return removed(self, _member(member_id), reason)


class MemberLeave(TenantView):
    @operation(
        "member_leave",
        summary="Leave the tenant",
        description="The caller's own membership and tokens for the tenant end. The last owner cannot leave.",
        permission=Permission.MEMBERSHIP_END,
        answer=MemberGone,
        answer_example=GONE_EXAMPLE,
        refusals=("not_member", "last_owner"),
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        own = member_list().filter(user=self.access.user).first()
        return self.refused(NO_MEMBER) if own is None else removed(self, own)


def removed(view: TenantView, member: Membership, reason: str = "") -> HttpResponse:
    refused = services.member_remove(membership=member, by=view.access, at=timezone.now(), reason=reason)
    return view.refused(refused) if refused else view.shown(MemberGone, {"removed": True})


def _member(member_id: int) -> Membership:
    member = member_by_id(member_id)
    if member is None:
        raise Http404
    return member
