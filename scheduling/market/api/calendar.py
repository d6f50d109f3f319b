"""The reservation calendar: what is free by slot and resource, and what a tenant has booked by server."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.spans import SlotSpan, span_filters, span_read
from scheduling.common.api.views import PoolView, TenantPoolView
from scheduling.market.reads.awards import own_bookings
from scheduling.market.reads.free import free_units
from scheduling.models import AwardState, Lane, Pool
from tenants.access import Refused
from tenants.api.fields import Answer, Moment
from tenants.api.listing import Listing
from tenants.api.operations import operation
from tenants.roles import Permission

USUAL_SLOTS, MOST_SLOTS, MOST_AWARDS = 96, 1_000, 2_000
TOO_MANY = Refused(
    "invalid_span", f"More than {MOST_AWARDS:,} awards have units in these slots. Ask for fewer slots at once."
)


class FreeShown(Answer):
    slot = serializers.IntegerField()
    starts_at = Moment(source="at")
    resource = serializers.CharField()
    units = serializers.IntegerField(help_text="On all servers that are not lost.")
    batch = serializers.FloatField(help_text="Of them, taken by the batch lane.")
    instant = serializers.FloatField(help_text="Of them, taken by the instant lane.")
    free = serializers.FloatField(help_text="Of them, taken by neither.")
    decided = serializers.BooleanField(help_text="Whether the batch lane's plans reach this slot.")


class BookingShown(Answer):
    server = serializers.CharField()
    start_slot = serializers.IntegerField(source="placed.start")
    end_slot = serializers.IntegerField(source="placed.end", help_text="The first slot after it.")
    workers = serializers.IntegerField(source="placed.workers")
    parameter_servers = serializers.IntegerField(source="placed.ps")
    award = serializers.IntegerField(source="award.pk")
    job = serializers.IntegerField(source="award.job_id")
    job_name = serializers.CharField(source="award.job.name")
    lane = serializers.ChoiceField(Lane.choices, source="award.lane")
    phase = serializers.CharField(source="award.phase", help_text="`own`: on the tenant's cells; `shared`: rented.")
    state = serializers.ChoiceField(AwardState.choices, source="award.state")


FREE_EXAMPLE: dict[str, Any] = {
    "slot": 120,
    "starts_at": "2026-03-02T12:20:00Z",
    "resource": "worker",
    "units": 100,
    "batch": 64.0,
    "instant": 8.0,
    "free": 28.0,
    "decided": True,
}
BOOKING_EXAMPLE: dict[str, Any] = {
    "server": "s03",
    "start_slot": 120,
    "end_slot": 145,
    "workers": 4,
    "parameter_servers": 1,
    "award": 91,
    "job": 4711,
    "job_name": "nightly",
    "lane": "batch",
    "phase": "shared",
    "state": "running",
}
SPAN = span_filters(f"{USUAL_SLOTS} slots from the running one on", MOST_SLOTS)


def span_asked(pool: Pool, parameters: Any) -> SlotSpan:
    now = max(pool.slot_at(timezone.now()), 0)
    return span_read(pool, parameters, usual=SlotSpan(now, now + USUAL_SLOTS), most=MOST_SLOTS)


class Calendar(PoolView):
    @operation(
        "calendar_list",
        summary="Free units by slot and resource",
        description="What both lanes hold of the pool in each slot, and what neither does.",
        permission=Permission.QUOTA_VIEW,
        listing=Listing(FreeShown, filters=SPAN),
        answer_example=FREE_EXAMPLE,
        tag="calendar",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        span = span_asked(self.pool, self.parameters)
        return self.listed_values(free_units(self.pool, span.first, span.end), span.parameters())


class Bookings(TenantPoolView):
    @operation(
        "bookings_list",
        summary="Own bookings by server",
        description="What the tenant's jobs hold on each server in the slots asked for, by server and slot.",
        permission=Permission.JOBS_VIEW,
        listing=Listing(BookingShown, filters=SPAN),
        answer_example=BOOKING_EXAMPLE,
        refusals=("invalid_span",),
        tag="calendar",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        span = span_asked(self.pool, self.parameters)
        bookings = own_bookings(self.pool, span.first, span.end, most=MOST_AWARDS)
        return self.refused(TOO_MANY) if bookings is None else self.listed_values(bookings, span.parameters())
