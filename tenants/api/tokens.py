"""Tokens of a tenant's members, and of the staff. The secret is in the answer to the creation, and nowhere after."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from tenants import services
from tenants.access import Refused
from tenants.api.fields import Answer, Form, Moment, Several, Text, Word
from tenants.api.listing import Listing, flag
from tenants.api.operations import operation
from tenants.api.views import ApiView, StaffView, TenantView
from tenants.models import ApiToken
from tenants.roles import SCOPES, Permission
from tenants.selectors import token_list
from tenants.services.tokens import NAME_LONGEST


class NewToken(Form):
    name = Text(max_length=NAME_LONGEST, help_text="What the token is for.")
    scopes = Several(child=Word(choices=list(SCOPES)), min_length=1, max_length=len(SCOPES))
    expires_at = Moment(required=False, help_text="At most 366 days ahead; without it, 90 days ahead.")


class TokenShown(Answer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    person = serializers.EmailField(source="user.email", help_text="Whose token it is.")
    scopes = serializers.ListField(child=serializers.ChoiceField(list(SCOPES)))
    hint = serializers.CharField(help_text="How the secret begins.")
    created_at = Moment()
    expires_at = Moment()
    last_used_at = Moment(allow_null=True, help_text="To the minute.")
    revoked_at = Moment(allow_null=True)


class TokenIssued(TokenShown):
    secret = serializers.SerializerMethodField(
        help_text="Shown in this answer only. A replay of the request has null here: the secret is kept nowhere."
    )

    def get_secret(self, token: ApiToken) -> str | None:
        return str(self.context["secret"])


EXAMPLE: dict[str, Any] = {
    "id": 7,
    "name": "nightly training",
    "person": "ada@lumen.example",
    "scopes": ["jobs:read", "jobs:write"],
    "hint": "bourse_x4Fq2w",
    "created_at": "2026-03-02T12:00:00Z",
    "expires_at": "2026-05-31T12:00:00Z",
    "last_used_at": None,
    "revoked_at": None,
}
REQUEST_EXAMPLE = {"name": "nightly training", "scopes": ["jobs:read", "jobs:write"]}
ISSUED_EXAMPLE = EXAMPLE | {"secret": "bourse_x4Fq2wZ1mB0bq7J5c0Tt3yVn9sKpLr8dEaGhUoWiXz0"}
REVOKED_EXAMPLE = EXAMPLE | {"revoked_at": "2026-03-09T08:30:00Z"}
CREATE_REFUSALS = (
    "invalid_token_name",
    "unknown_scope",
    "invalid_expiry",
    "beyond_token",
    "too_many_tokens",
    "not_member",
)
TOKENS = Listing(
    TokenShown,
    orderings=("-id", "id"),
    filters=(flag("revoked", "Only tokens that were revoked, or only others.", ""),),
)
MAKE = "A token never reaches further than its person does at the moment of a call; its scopes limit that further. "


class _Tokens(ApiView):
    def _list(self) -> HttpResponseBase:
        rows = token_list(self.access)
        if "revoked" in self.parameters:
            rows = rows.filter(revoked_at__isnull=not self.parameters["revoked"])
        return self.listed(rows)

    def _create(self) -> HttpResponseBase:
        outcome = services.token_create(by=self.access, at=timezone.now(), **self.read(NewToken))
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        context = {"secret": outcome.secret}
        return self.shown(TokenIssued, outcome.token, HTTPStatus.CREATED, context=context)

    def _revoke(self, token_id: int) -> HttpResponseBase:
        outcome = services.token_revoke(token_id=token_id, by=self.access, at=timezone.now())
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(TokenShown, outcome)


class TenantTokens(TenantView, _Tokens):
    @operation(
        "tokens_list",
        summary="Tokens of the tenant",
        description="Owners see everybody's tokens for the tenant, others their own. No secret is shown.",
        permission=Permission.TOKENS_OWN,
        listing=TOKENS,
        answer_example=EXAMPLE,
        tag="tokens",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self._list()

    @operation(
        "tokens_create",
        summary="Make a token for the tenant",
        description=MAKE + "The secret is in this answer only.",
        permission=Permission.TOKENS_OWN,
        body=NewToken,
        answer=TokenIssued,
        status=HTTPStatus.CREATED,
        request_example=REQUEST_EXAMPLE,
        answer_example=ISSUED_EXAMPLE,
        refusals=CREATE_REFUSALS,
        secret_fields=("secret",),
        tag="tokens",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self._create()


class TenantTokenRevoke(TenantView, _Tokens):
    @operation(
        "tokens_revoke",
        summary="Revoke a token",
        description="One's own; an owner anybody's of the tenant. It stops working at once. Again: nothing happens.",
        permission=Permission.TOKENS_OWN,
        answer=TokenShown,
        answer_example=REVOKED_EXAMPLE,
        refusals=("unknown_token",),
        tag="tokens",
    )
    def post(self, request: Request, tenant_slug: str, token_id: int) -> HttpResponseBase:
        return self._revoke(token_id)


class StaffTokens(StaffView, _Tokens):
    @operation(
        "staff_tokens_list",
        summary="One's own tokens for the roles over all",
        description="For auditors and operators.",
        permission=Permission.TOKENS_OWN,
        listing=TOKENS,
        answer_example=EXAMPLE,
        tag="tokens",
    )
    def get(self, request: Request) -> HttpResponseBase:
        return self._list()

    @operation(
        "staff_tokens_create",
        summary="Make a token for one's roles over all",
        description=MAKE + "It counts the person's roles as auditor or operator, at every address.",
        permission=Permission.TOKENS_OWN,
        body=NewToken,
        answer=TokenIssued,
        status=HTTPStatus.CREATED,
        request_example={"name": "monthly audit", "scopes": ["audit:read", "ledger:read"]},
        answer_example=ISSUED_EXAMPLE | {"name": "monthly audit", "scopes": ["audit:read", "ledger:read"]},
        refusals=CREATE_REFUSALS,
        secret_fields=("secret",),
        tag="tokens",
    )
    def post(self, request: Request) -> HttpResponseBase:
        return self._create()


class StaffTokenRevoke(StaffView, _Tokens):
    @operation(
        "staff_tokens_revoke",
        summary="Revoke one of one's own tokens",
        description="It stops working at once. Again: nothing happens.",
        permission=Permission.TOKENS_OWN,
        answer=TokenShown,
        answer_example=REVOKED_EXAMPLE,
        refusals=("unknown_token",),
        tag="tokens",
    )
    def post(self, request: Request, token_id: int) -> HttpResponseBase:
        return self._revoke(token_id)
