"""Invitations to a tenant. The link is in the answer to the creation, and nowhere after."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from tenants import services
from tenants.access import Refused
from tenants.api.fields import Answer, Moment, Text
from tenants.api.listing import Listing
from tenants.api.members import Why
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.models import Invitation
from tenants.roles import TENANT_ROLES, Permission
from tenants.selectors import invitation_by_id, invitation_list


class NewInvitation(Why):
    email = Text(max_length=254, help_text="Whom the invitation is for.")
    role = Text(max_length=20, help_text=f"One of {', '.join(TENANT_ROLES)}.")


class InvitationShown(Answer):
    id = serializers.IntegerField()
    email = serializers.EmailField()
    role = serializers.ChoiceField(list(TENANT_ROLES))
    invited_by = serializers.EmailField(source="invited_by.email")
    created_at = Moment()
    expires_at = Moment()


class InvitationIssued(InvitationShown):
    link = serializers.SerializerMethodField(
        help_text="To be sent to the person. In this answer only; a replay of the request has null here."
    )

    def get_link(self, invitation: Invitation) -> str | None:
        return str(self.context["link"])


class InvitationGone(Answer):
    revoked = serializers.BooleanField()


EXAMPLE: dict[str, Any] = {
    "id": 5,
    "email": "grace@lumen.example",
    "role": "viewer",
    "invited_by": "ada@lumen.example",
    "created_at": "2026-03-02T12:00:00Z",
    "expires_at": "2026-03-09T12:00:00Z",
}


class Invitations(TenantView):
    @operation(
        "invitations_list",
        summary="Invitations that are still open",
        description="The newest first. Those that were accepted, withdrawn or have expired are in the history.",
        permission=Permission.MEMBERS_VIEW,
        listing=Listing(InvitationShown, orderings=("-id", "id")),
        answer_example=EXAMPLE,
        tag="members",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed(invitation_list(timezone.now()))

    @operation(
        "invitations_create",
        summary="Invite somebody",
        description="By an owner, or by an operator with a reason. Good for this address, once, for seven days. "
        "Inviting the same address again replaces the invitation before.",
        permission=Permission.MEMBERS_CHANGE,
        body=NewInvitation,
        answer=InvitationIssued,
        status=HTTPStatus.CREATED,
        request_example={"email": "grace@lumen.example", "role": "viewer"},
        answer_example=EXAMPLE | {"link": "https://bourse.example/invitation/3q2-7wX.../"},
        refusals=("no_inviter", "unknown_role", "invalid_email", "already_member", "reason_missing", "reason_too_long"),
        secret_fields=("link",),
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(NewInvitation)
        outcome = services.invitation_create(tenant=self.tenant, by=self.access, at=timezone.now(), **body)
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        link = request.build_absolute_uri(reverse("invitation_open", args=[outcome.token]))
        return self.shown(InvitationIssued, outcome.invitation, HTTPStatus.CREATED, context={"link": link})


class InvitationRevoke(TenantView):
    @operation(
        "invitations_revoke",
        summary="Withdraw an invitation",
        description="Its link stops working at once.",
        permission=Permission.MEMBERS_CHANGE,
        body=Why,
        answer=InvitationGone,
        request_example={"reason": "wrong address"},
        answer_example={"revoked": True},
        refusals=("invitation_used", "invitation_revoked", "invitation_expired", "reason_missing", "reason_too_long"),
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str, invitation_id: int) -> HttpResponseBase:
        reason = self.read(Why)["reason"]
        invitation = invitation_by_id(invitation_id)
        if invitation is None:
            raise Http404
        refused = services.invitation_revoke(invitation=invitation, by=self.access, at=timezone.now(), reason=reason)
        return self.refused(refused) if refused else self.shown(InvitationGone, {"revoked": True})
