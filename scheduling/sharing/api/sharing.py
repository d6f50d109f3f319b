"""A tenant's standing instructions in a pool: what it may rent by itself, and what it lends at what price."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import TenantPoolView
from scheduling.models import AlonePlan, Lend, Period, Rent, TenantPolicy
from scheduling.sharing.read_sharing import sharing_of
from scheduling.sharing.sharing import Sharing, sharing_change
from tenants.access import Refused
from tenants.api.fields import Answer, Credits, Form, Text, Word
from tenants.api.operations import operation
from tenants.ledger.amounts import credits_of, exported, micro
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST

MOST_RESOURCES = 100


class ReservePrices(serializers.DictField):
    """Resource -> credits, as everywhere in decimal texts."""

    child = Credits()

    def to_internal_value(self, data: Any) -> dict[str, float]:
        if isinstance(data, dict) and len(data) > MOST_RESOURCES:
            raise serializers.ValidationError(f"Must name at most {MOST_RESOURCES} resources.", "max_length")
        return {name: credits_of(amount) for name, amount in super().to_internal_value(data).items()}


class NewSharing(Form):
    rent = Word(choices=Rent.choices, help_text="`never`, `auto`, or `budget`: up to the budget in each period.")
    budget = Credits(required=False, allow_null=True, help_text="For rent in the batch lane, in each period.")
    budget_period = Word(choices=Period.choices, required=False, help_text="Of UTC; else `month`.")
    lend = Word(choices=Lend.choices, help_text="`lend`: idle cells are for sale; `keep`: they are not.")
    plan = Word(
        choices=AlonePlan.choices,
        required=False,
        help_text="Of jobs collected from now on: `keep`, places at home are given once; `renew`, they are planned "
        "anew at each interval until jobs start, and what is rented meanwhile is settled then. Else as the pool "
        "has it for those who said nothing.",
    )
    reserve_price = ReservePrices(
        required=False, help_text="Resource -> credits per unit and slot below which idle cells are not for sale."
    )
    reason = Text(max_length=REASON_LONGEST, required=False, allow_blank=True, help_text="For the history.")


class SharingShown(Answer):
    rent = serializers.ChoiceField(Rent.choices)
    budget = Credits(allow_null=True)
    budget_period = serializers.ChoiceField(Period.choices)
    lend = serializers.ChoiceField(Lend.choices)
    plan = serializers.ChoiceField(AlonePlan.choices)
    reserve_price = serializers.SerializerMethodField(help_text="Not named: no reserve.")

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
    def get_reserve_price(self, row: TenantPolicy) -> dict[str, str]:
        return {name: exported(micro(price)) for name, price in sorted(row.reserve_price.items())}


EXAMPLE: dict[str, Any] = {
    "rent": "budget",
    "budget": "250.000000",
    "budget_period": "month",
    "lend": "lend",
    "plan": "renew",
    "reserve_price": {"worker": "0.050000"},
}


class SharingOfTenant(TenantPoolView):
    @operation(
        "sharing_read",
        summary="The tenant's rent and lend policy",
        description="As it is now; without one the tenant rents automatically, lends everything, and has the pool's "
        "`usual_plan`.",
        permission=Permission.QUOTA_VIEW,
        answer=SharingShown,
        answer_example=EXAMPLE,
        tag="sharing",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        return self.shown(SharingShown, sharing_of(self.tenant, self.pool))

    @operation(
        "sharing_change",
        summary="Change the rent and lend policy",
        description="The whole policy: what is left out is as if it had never been said. It holds from the next "
        "interval on; what was awarded before stays.",
        permission=Permission.SHARING_CHANGE,
        body=NewSharing,
        answer=SharingShown,
        request_example=EXAMPLE,
        answer_example=EXAMPLE,
        refusals=("invalid_sharing",),
        tag="sharing",
    )
    def put(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        body = self.read(NewSharing)
        reason = body.pop("reason", "")
        outcome = sharing_change(
            pool=self.pool, sharing=Sharing(**body), by=self.access, at=timezone.now(), reason=reason
        )
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(SharingShown, outcome)
