"""What a unit of an elastic pool costs in a slot: everybody sees it, an operator sets it."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import NO_REASON, PoolView
from scheduling.market.elastic import use_prices_of
from scheduling.operator.api.pool_fields import UsePrices
from scheduling.operator.use_prices import use_prices_set
from tenants.access import Refused
from tenants.api.fields import Answer, Credits, Form, Moment, Text
from tenants.api.operations import operation
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST


class NewUsePrices(Form):
    prices = UsePrices(help_text="Resource -> credits for a unit and slot; what is not named keeps its price.")
    reason = Text(max_length=REASON_LONGEST, help_text="Why: it stands in the history.")


class UsePriceShown(Answer):
    resource = serializers.CharField()
    from_slot = serializers.IntegerField(help_text="It holds from this slot on, until a later one does.")
    starts_at = Moment()
    price = Credits(source="amount", help_text="For a unit and slot.")
    set_at = Moment()


class UsePricesShown(Answer):
    pool = serializers.CharField()
    elastic = serializers.BooleanField(help_text="Whether jobs are sized anew in every slot, and pay these prices.")
    slot = serializers.IntegerField(help_text="The next one that is not decided: the prices are those of it.")
    prices = UsePrices(help_text="Resource -> credits for a unit and slot.")
    history = UsePriceShown(many=True, help_text="The newest 100 changes, the newest first.")


REQUEST: dict[str, Any] = {"prices": {"worker": "0.050000", "ps": "0.020000"}, "reason": "Power became dearer."}
EXAMPLE: dict[str, Any] = {
    "pool": "elastic",
    "elastic": True,
    "slot": 120,
    "prices": {"worker": "0.050000", "ps": "0.020000"},
    "history": [
        {
            "resource": "worker",
            "from_slot": 120,
            "starts_at": "2026-03-02T12:20:00Z",
            "price": "0.050000",
            "set_at": "2026-03-02T12:19:51Z",
        }
    ],
}


class PoolUsePrices(PoolView):
    @operation(
        "use_prices_read",
        summary="Prices of use",
        description="What a unit costs in a slot of an elastic pool, and what it did before. Others have none.",
        permission=Permission.PRICES_VIEW,
        answer=UsePricesShown,
        answer_example=EXAMPLE,
        tag="pools",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self._prices()

    @operation(
        "use_prices_set",
        summary="Set prices of use",
        description="They hold from the next slot that is not decided; what is decided keeps its price. For operators.",
        permission=Permission.CLUSTER_CHANGE,
        body=NewUsePrices,
        answer=UsePricesShown,
        request_example=REQUEST,
        answer_example=EXAMPLE,
        refusals=("not_elastic", "invalid_price", *NO_REASON),
        tag="pools",
    )
    def post(self, request: Request, pool_slug: str) -> HttpResponseBase:
        outcome = use_prices_set(pool=self.pool, by=self.access, at=timezone.now(), **self.read(NewUsePrices))
        return self.refused(outcome) if isinstance(outcome, Refused) else self._prices()

    def _prices(self) -> HttpResponse:
        return self.shown(UsePricesShown, use_prices_of(self.pool, timezone.now()))
