"""Posted prices of a pool: now, ahead, and as they were. For dashboards, and for whoever decides what to submit."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.spans import FARTHEST, SlotSpan, span_filters, span_read
from scheduling.common.api.views import PoolView
from scheduling.market.reads.prices import PricesOfSlots, posted_until, prices_now, resource_kinds
from scheduling.models import Lane, ResourceKind
from tenants.api.fields import Answer, CoreCredits, Moment
from tenants.api.listing import Filter, Listing, whole, word
from tenants.api.operations import operation
from tenants.roles import Permission

USUAL_SLOTS, MOST_SLOTS = 200, 20_000


class PriceShown(Answer):
    slot = serializers.IntegerField()
    starts_at = Moment(source="at")
    lane = serializers.ChoiceField(Lane.choices)
    resource = serializers.CharField()
    price = CoreCredits(
        allow_null=True, help_text="For one unit in this slot; null where none is posted, or no unit is for sale."
    )
    offered = serializers.FloatField(help_text="Units for sale.")
    sold = serializers.FloatField(help_text="Of them, units that are sold.")


EXAMPLE: dict[str, Any] = {
    "slot": 120,
    "starts_at": "2026-03-02T12:20:00Z",
    "lane": "batch",
    "resource": "worker",
    "price": "0.250000",
    "offered": 24.0,
    "sold": 16.0,
}


def _lane(text: str) -> str:
    if text not in Lane.values:
        raise ValueError(f"must be one of {', '.join(Lane.values)}")
    return text


LANE = Filter(
    "lane",
    "",
    {"type": "string", "enum": list(Lane.values), "default": Lane.BATCH.value},
    "Whose prices; else those of the batch lane.",
    _lane,
)
RESOURCE = word("resource", "Only this resource.", "")
NOW = Listing(PriceShown)
FROM_SLOT = whole("from_slot", "The first slot. Else: the one after the running one.", "", most=FARTHEST)
AHEAD = Listing(PriceShown, filters=(LANE, RESOURCE, FROM_SLOT))
HISTORY = Listing(
    PriceShown, filters=(LANE, RESOURCE, *span_filters(f"the last {USUAL_SLOTS} with the running one", MOST_SLOTS))
)


class _Prices(PoolView):
    @property
    def lane(self) -> str:
        return str(self.parameters.get("lane", Lane.BATCH))

    def kinds(self) -> list[ResourceKind]:
        """Those asked for; a resource that the pool does not have is none."""
        wanted = self.parameters.get("resource")
        return [kind for kind in resource_kinds(self.pool) if wanted in (None, kind.name)]


class PricesNow(PoolView):
    @operation(
        "prices_now",
        summary="Prices of the running slot",
        description="Of both lanes. The batch lane's were published with the plan of an interval; the instant lane's "
        "are those of one unit more, and rise with every sale.",
        permission=Permission.PRICES_VIEW,
        listing=NOW,
        answer_example=EXAMPLE,
        tag="prices",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.listed_values(prices_now(self.pool, self.pool.slot_at(timezone.now())))


class PricesAhead(_Prices):
    @operation(
        "prices_ahead",
        summary="Prices of the slots to come",
        description="As far as the lane has posted them: the batch lane to the end of its last plan, the instant lane "
        "as many slots as the pool publishes.",
        permission=Permission.PRICES_VIEW,
        listing=AHEAD,
        answer_example=EXAMPLE | {"slot": 121, "starts_at": "2026-03-02T12:20:10Z"},
        tag="prices",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        kinds, usual = self.kinds(), max(self.pool.slot_at(timezone.now()) + 1, 0)
        first = self.parameters.get("from_slot", usual)
        end = min(posted_until(self.pool, self.lane, kinds, first), first + MOST_SLOTS)
        lines = PricesOfSlots(self.pool, self.lane, kinds, first, end)
        return self.listed_values(lines, {"from_slot": str(first)})


class PricesHistory(_Prices):
    @operation(
        "prices_history",
        summary="Prices as they were posted",
        description="Slot by slot, the oldest first, as they stood at last.",
        permission=Permission.PRICES_VIEW,
        listing=HISTORY,
        answer_example=EXAMPLE,
        tag="prices",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        now = max(self.pool.slot_at(timezone.now()), 0)
        usual = SlotSpan(max(now + 1 - USUAL_SLOTS, 0), now + 1)
        span = span_read(self.pool, self.parameters, usual=usual, most=MOST_SLOTS)
        lines = PricesOfSlots(self.pool, self.lane, self.kinds(), span.first, span.end)
        return self.listed_values(lines, span.parameters())
