"""Credits from outside and back, by an operator who says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.validators import RegexValidator
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.shown import refusal_numbers
from scheduling.money.credits import credits_grant, credits_withdraw
from tenants.access import Refused
from tenants.api.fields import Answer, Credits, Form, Text
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.ledger.postings import Posted
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST

LONGEST_KEY = 100
PLAIN = RegexValidator(r"^[!#-\[\]-~]+\Z", "Printable ASCII characters without blanks, quotes and backslashes.")


class Payment(Form):
    amount = Credits()
    key = Text(
        max_length=LONGEST_KEY,
        validators=[PLAIN],
        help_text="Of this payment and no other, such as the number of an invoice: the same key pays once, for good.",
    )
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class PaymentShown(Answer):
    tenant = serializers.CharField()
    amount = Credits()
    key = serializers.CharField()
    transaction = serializers.IntegerField(help_text="Its number in the book.")
    repeated = serializers.BooleanField(help_text="Whether it was in the book already; then nothing was paid now.")


REQUEST_EXAMPLE: dict[str, Any] = {
    "amount": "500.000000",
    "key": "invoice-2026-0117",
    "reason": "Invoice 2026-0117, paid.",
}
EXAMPLE: dict[str, Any] = {
    "tenant": "lumen",
    "amount": "500.000000",
    "key": "invoice-2026-0117",
    "transaction": 80211,
    "repeated": False,
}


class _Payments(TenantView):
    def pay(self, service: Callable[..., Posted | Refused]) -> HttpResponse:
        body = self.read(Payment)
        outcome = service(tenant=self.tenant, by=self.access, at=timezone.now(), **body)
        if isinstance(outcome, Refused):
            return self.refused(outcome, refusal_numbers(outcome))
        payment = {
            "tenant": self.tenant.slug,
            "amount": body["amount"],
            "key": body["key"],
            "transaction": outcome.transaction_id,
            "repeated": outcome.repeated,
        }
        return self.shown(PaymentShown, payment)


class CreditsGrant(_Payments):
    @operation(
        "credits_grant",
        summary="Pay credits in",
        description="From outside into what the tenant can spend. For operators.",
        permission=Permission.CREDITS_CHANGE,
        body=Payment,
        answer=PaymentShown,
        request_example=REQUEST_EXAMPLE,
        answer_example=EXAMPLE,
        refusals=("reason_missing", "invalid_amount", "key_reused"),
        tag="credits",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.pay(credits_grant)


class CreditsWithdraw(_Payments):
    @operation(
        "credits_withdraw",
        summary="Pay credits out",
        description="To the outside: of what the tenant has earned first, then of what it can spend. What is held for "
        "its jobs stays held. For operators.",
        permission=Permission.CREDITS_CHANGE,
        body=Payment,
        answer=PaymentShown,
        request_example=REQUEST_EXAMPLE | {"key": "payout-2026-0031", "reason": "Earnings of February."},
        answer_example=EXAMPLE | {"key": "payout-2026-0031"},
        refusals=("reason_missing", "invalid_amount", "key_reused", "beyond_funds"),
        tag="credits",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.pay(credits_withdraw)
