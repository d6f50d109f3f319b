"""Tenants: those that the caller belongs to, or for the staff all; and one of them."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from tenants.api.fields import Answer, Moment
from tenants.api.listing import Listing
from tenants.api.operations import operation
from tenants.api.views import PersonView, TenantView
from tenants.roles import Permission
from tenants.selectors import member_list, tenants_reached


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


ROW_EXAMPLE: dict[str, Any] = {"slug": "lumen", "name": "Lumen", "role": "owner"}
EXAMPLE: dict[str, Any] = {
    "slug": "lumen",
    "name": "Lumen",
    "created_at": "2026-01-05T09:00:00Z",
    "members": 4,
    "roles": ["owner"],
}


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
        return self.shown(TenantShown, values | {"members": member_list().count(), "roles": self.access.role_list})
