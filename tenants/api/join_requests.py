"""Requests to join a tenant, for its owners. Whoever asks does that on a page: they have no token, for a token belongs
to a member or to the staff."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from tenants import joining, services
from tenants.access import Refused
from tenants.api.fields import Answer, Flag, Moment, Text
from tenants.api.listing import Listing, choice
from tenants.api.members import EXAMPLE as MEMBER_EXAMPLE
from tenants.api.members import MemberShown, NewRole, Why
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.models import JoinRequest, JoinState
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST


class JoinRequestShown(Answer):
    id = serializers.IntegerField()
    person = serializers.EmailField(source="person.email")
    name = serializers.CharField(source="person.name")
    why = serializers.CharField()
    state = serializers.ChoiceField(JoinState.values)
    asked_at = Moment()
    ended_at = Moment(allow_null=True)
    role = serializers.CharField(help_text="With which the person joined; empty where it was not accepted.")
    answer = serializers.CharField(help_text="Why it was declined; else empty.")


class Declined(Why):
    reason = Text(max_length=REASON_LONGEST, help_text="Why. Whoever asked reads it, and it stands in the history.")


class Asking(Why):
    may_be_asked = Flag(help_text="Whether people who are no members may ask to join.")


class AskingShown(Answer):
    may_be_asked = serializers.BooleanField()


EXAMPLE: dict[str, Any] = {
    "id": 8,
    "person": "ines@lumen.example",
    "name": "Ines",
    "why": "I train the speech models with Ada.",
    "state": "waiting",
    "asked_at": "2026-03-02T12:00:00Z",
    "ended_at": None,
    "role": "",
    "answer": "",
}
REFUSALS = ("join_request_ended", "reason_missing", "reason_too_long")


class JoinRequests(TenantView):
    @operation(
        "join_requests_list",
        summary="Requests to join the tenant",
        description="The newest first, with what became of them.",
        permission=Permission.JOIN_REQUESTS_VIEW,
        listing=Listing(
            JoinRequestShown,
            orderings=("-id", "id"),
            filters=(choice("state", JoinState.values, "Only requests in one of these states."),),
        ),
        answer_example=EXAMPLE,
        tag="members",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed(joining.join_requests())


class JoinRequestAccept(TenantView):
    @operation(
        "join_requests_accept",
        summary="Accept a request to join",
        description="By an owner, or by an operator with a reason. The person is a member at once, with this role.",
        permission=Permission.MEMBERS_CHANGE,
        body=NewRole,
        answer=MemberShown,
        request_example={"role": "submitter"},
        answer_example=MEMBER_EXAMPLE,
        refusals=(*REFUSALS, "unknown_role", "inactive_person"),
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str, join_request_id: int) -> HttpResponseBase:
        body = self.read(NewRole)
        outcome = services.join_request_accept(
            request=_join_request(join_request_id), by=self.access, at=timezone.now(), **body
        )
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(MemberShown, outcome)


class JoinRequestDecline(TenantView):
    @operation(
        "join_requests_decline",
        summary="Decline a request to join",
        description="By an owner or an operator. The person may ask this tenant again a week later.",
        permission=Permission.MEMBERS_CHANGE,
        body=Declined,
        answer=JoinRequestShown,
        request_example={"reason": "Your group has a tenant of its own: Castor."},
        answer_example=EXAMPLE
        | {
            "state": "declined",
            "ended_at": "2026-03-02T15:30:00Z",
            "answer": "Your group has a tenant of its own: Castor.",
        },
        refusals=REFUSALS,
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str, join_request_id: int) -> HttpResponseBase:
        reason = self.read(Declined)["reason"]
        outcome = services.join_request_decline(
            request=_join_request(join_request_id), by=self.access, at=timezone.now(), reason=reason
        )
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(JoinRequestShown, outcome)


class JoinRequestsOpen(TenantView):
    @operation(
        "join_requests_open",
        summary="Let people ask to join, or stop that",
        description="By an owner, or by an operator with a reason. While people may ask, everybody with an account is "
        "shown the tenant's name. Requests that wait stay when it is stopped.",
        permission=Permission.MEMBERS_CHANGE,
        body=Asking,
        answer=AskingShown,
        request_example={"may_be_asked": True},
        answer_example={"may_be_asked": True},
        refusals=("reason_missing", "reason_too_long"),
        tag="members",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(Asking)
        outcome = services.may_be_asked_set(
            tenant=self.tenant, on=body["may_be_asked"], by=self.access, at=timezone.now(), reason=body["reason"]
        )
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(AskingShown, outcome)


def _join_request(number: int) -> JoinRequest:
    join_request = joining.join_request_by_id(number)
    if join_request is None:
        raise Http404
    return join_request
