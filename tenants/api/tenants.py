"""Tenants: those that the caller belongs to, or for the staff all; and one of them."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from tenants import services
from tenants.access import Refused
from tenants.api.fields import Answer, Form, Moment, Text
from tenants.api.listing import Listing
from tenants.api.operations import operation
from tenants.api.views import PersonView, TenantView
from tenants.mails import invitation_mail
from tenants.roles import Permission
from tenants.selectors import member_list, tenants_reached
from tenants.services import OpenedTenant


class TenantRow(Answer):
    slug = serializers.CharField(help_text="As it stands in addresses.")
    name = serializers.CharField()
    role = serializers.CharField(allow_null=True, help_text="The caller's role there; null for the staff's.")


class TenantShown(Answer):
    slug = serializers.CharField()
    name = serializers.CharField()
    created_at = Moment()
    members = serializers.IntegerField(help_text="How many people belong to it.")
    roles = serializers.ListField(child=serializers.CharField(), help_text="Those of the caller that count here.")
    may_be_asked = serializers.BooleanField(help_text="Whether people who are no members may ask to join.")


ROW_EXAMPLE: dict[str, Any] = {"slug": "lumen", "name": "Lumen", "role": "owner"}
EXAMPLE: dict[str, Any] = {
    "slug": "lumen",
    "name": "Lumen",
    "created_at": "2026-01-05T09:00:00Z",
    "members": 4,
    "roles": ["owner"],
    "may_be_asked": False,
}


class NewTenant(Form):
    slug = Text(max_length=40, help_text="As it stands in addresses: small letters, digits and single hyphens.")
    name = Text(max_length=120)
    owner = Text(max_length=254, help_text="The first owner's address. Whoever has no account is invited.")
    reason = Text(max_length=300, help_text="Why, for the history.")


class TenantOpened(Answer):
    slug = serializers.CharField(source="tenant.slug")
    name = serializers.CharField(source="tenant.name")
    owner = serializers.EmailField(help_text="A member from now on, or invited.")
    link = serializers.SerializerMethodField(
        help_text="Of the invitation, which also goes by mail; null where the owner has an account. In this answer "
        "only; a replay of the request has null here."
    )

    def get_link(self, opened: OpenedTenant) -> str | None:
        return str(self.context["link"]) if self.context["link"] else None


class Tenants(PersonView):
    @operation(
        "tenants_list",
        summary="Tenants that the caller reaches",
        description="Those that the person belongs to, by name; with a token for one tenant, that one alone. Auditors "
        "and operators see every tenant.",
        permission=None,
        listing=Listing(TenantRow),
        answer_example=ROW_EXAMPLE,
        tag="tenants",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self.listed_values(tenants_reached(self.access))

    @operation(
        "tenants_create",
        summary="Make a tenant",
        description="By an operator. It begins with an owner: somebody with an account is one at once, anybody else is "
        "invited by mail and makes an account with the link, by a password or by single sign-on.",
        permission=Permission.TENANTS_CHANGE,
        body=NewTenant,
        answer=TenantOpened,
        status=HTTPStatus.CREATED,
        request_example={"slug": "newlab", "name": "New Lab", "owner": "new@newlab.example", "reason": "joins in May"},
        answer_example={
            "slug": "newlab",
            "name": "New Lab",
            "owner": "new@newlab.example",
            "link": "https://bourse.example/invitation/3q2-7wX.../",
        },
        refusals=("invalid_tenant", "invalid_email", "inactive_person", "no_inviter", "reason_missing"),
        secret_fields=("link",),
        tag="tenants",
    )
    def post(self, request: Request) -> HttpResponseBase:
        body = self.read(NewTenant)
        outcome = services.tenant_open(by=self.access, at=timezone.now(), **body)
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        link = ""
        if outcome.issued is not None:
            link = request.build_absolute_uri(reverse("invitation_open", args=[outcome.issued.token]))
            transaction.on_commit(partial(invitation_mail, outcome.issued.invitation, link))
        return self.shown(TenantOpened, outcome, HTTPStatus.CREATED, context={"link": link})


class OneTenant(TenantView):
    @operation(
        "tenants_read",
        summary="One tenant",
        description="Its name, how many belong to it, and the roles with which the caller acts there.",
        permission=Permission.TENANT_VIEW,
        answer=TenantShown,
        answer_example=EXAMPLE,
        tag="tenants",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        tenant = self.tenant
        values = {"slug": tenant.slug, "name": tenant.name, "created_at": tenant.created_at}
        values |= {"members": member_list().count(), "roles": self.access.role_list}
        return self.shown(TenantShown, values | {"may_be_asked": tenant.may_be_asked})
