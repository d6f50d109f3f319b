"""The history of changes, for programs: of one tenant, or for the staff of everything."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from tenants.api.fields import Answer, Moment, Numbers
from tenants.api.listing import Listing, moment, word
from tenants.api.operations import operation
from tenants.api.views import StaffView, TenantView
from tenants.roles import Permission
from tenants.selectors import audit_entries


class EntryShown(Answer):
    sequence = serializers.IntegerField(help_text="Its place in the one chain over all tenants.")
    at = Moment()
    by = serializers.CharField(source="actor_name", help_text="As the person was called then.")
    tenant = serializers.CharField(source="tenant.slug", allow_null=True, default=None)
    action = serializers.CharField()
    subject = serializers.CharField()
    reason = serializers.CharField()
    before = Numbers(allow_null=True)
    after = Numbers(allow_null=True)
    previous_hash = serializers.CharField(help_text="Fingerprint of the entry before it in the chain.")
    hash = serializers.CharField(help_text="Fingerprint of this entry.")


EXAMPLE: dict[str, Any] = {
    "sequence": 812,
    "at": "2026-03-02T12:00:00Z",
    "by": "Ada <ada@lumen.example>",
    "tenant": "lumen",
    "action": "member_role_change",
    "subject": "member grace@lumen.example",
    "reason": "joins the night shift",
    "before": {"role": "viewer"},
    "after": {"role": "submitter"},
    "previous_hash": "9f2c" * 16,
    "hash": "41d0" * 16,
}
ENTRIES = Listing(
    EntryShown,
    orderings=("-sequence", "sequence"),
    filters=(
        word("action", "Only changes of this kind, such as `token_create`."),
        word("subject", "Only changes to exactly this thing."),
        word("by", "Only changes by this person's e-mail address.", "actor__email"),
        moment("from", "At this time or later.", "at__gte"),
        moment("before", "Before this time.", "at__lt"),
    ),
)


class TenantHistory(TenantView):
    @operation(
        "history_list",
        summary="Changes to the tenant",
        description="Who changed what, when and why, with the values before and after. The newest first.",
        permission=Permission.TENANT_HISTORY_VIEW,
        listing=ENTRIES,
        answer_example=EXAMPLE,
        tag="history",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed(audit_entries(self.access).select_related("tenant"))


class StaffHistory(StaffView):
    @operation(
        "staff_history_list",
        summary="Changes to everything",
        description="Of all tenants, the staff and the cluster. The newest first.",
        permission=Permission.HISTORY_VIEW,
        listing=ENTRIES,
        answer_example=EXAMPLE,
        tag="history",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self.listed(audit_entries(self.access))
