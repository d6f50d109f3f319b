"""Who calls: the person, its tenants and roles, and the token it came with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from tenants.access import Access
from tenants.api.fields import Answer
from tenants.api.operations import operation
from tenants.api.tokens import EXAMPLE as TOKEN_EXAMPLE
from tenants.api.tokens import TokenShown
from tenants.api.views import PersonView
from tenants.models import ApiToken, User
from tenants.selectors import OwnTenant, user_tenants


class OwnTenantShown(Answer):
    slug = serializers.CharField(help_text="As it stands in addresses.")
    name = serializers.CharField()
    role = serializers.CharField(help_text="The person's role there.")


class MeShown(Answer):
    email = serializers.EmailField(source="user.email")
    name = serializers.CharField(source="user.name")
    tenants = OwnTenantShown(many=True, help_text="With a token for one tenant, that one alone.")
    staff_roles = serializers.ListField(child=serializers.CharField())
    token = TokenShown(allow_null=True, help_text="The token of this call; null with a session.")


@dataclass(frozen=True)
class Me:
    user: User
    tenants: list[OwnTenant]
    staff_roles: list[str]
    token: ApiToken | None


EXAMPLE: dict[str, Any] = {
    "email": "ada@lumen.example",
    "name": "Ada",
    "tenants": [{"slug": "lumen", "name": "Lumen", "role": "owner"}],
    "staff_roles": [],
    "token": TOKEN_EXAMPLE,
}


class MeView(PersonView):
    @operation(
        "me_read",
        summary="Who am I?",
        description="The person who calls, where the person belongs, and what the token may.",
        permission=None,
        answer=MeShown,
        answer_example=EXAMPLE,
        tag="me",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self.shown(MeShown, me_of(self.access))


def me_of(access: Access) -> Me:
    """Return what the person reaches or, with a token, only what the token reaches."""
    user, token = access.user, access.token
    assert user is not None  # noqa: S101  the gate has made sure
    if token is None:
        return Me(user, user_tenants(user), access.role_list, None)
    if token.tenant is None:
        return Me(user, [], access.role_list, token)
    return Me(user, [OwnTenant(token.tenant.slug, token.tenant.name, role) for role in access.role_list], [], token)
