"""Use over time for programs: what became of all units, and of a tenant's own, by hour and by day of UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import PoolView, TenantPoolView
from scheduling.market.reads.prices import resource_kinds
from scheduling.market.reads.use import HOUR, MOST_HOURS, UseColumn, UseStep, hour_of, use_over_time
from scheduling.models import Pool
from tenants.api.fields import Answer, CoreCredits, Moment
from tenants.api.listing import Filter, Listing, moment, word
from tenants.api.operations import operation
from tenants.api.problems import FieldError, Problem, ProblemRaised
from tenants.roles import Permission

USUAL = timedelta(days=1)


@dataclass(frozen=True)
class UseLine:
    resource: str
    column: UseColumn


class UseShown(Answer):
    starts_at = Moment(source="column.starts_at")
    ends_at = Moment(source="column.ends_at", help_text="Up to here slots are counted.")
    resource = serializers.CharField()
    slots = serializers.IntegerField(source="column.slots", help_text="That are counted.")
    capacity = serializers.FloatField(
        source="column.capacity_unit_slots", help_text="Units times slots, as is all that follows: the sum of the four."
    )
    used = serializers.FloatField(source="column.unit_slots.used", help_text="By their owner's own jobs.")
    unsold = serializers.FloatField(source="column.unit_slots.unsold", help_text="Idle, for sale or not.")
    down = serializers.FloatField(
        source="column.unit_slots.down", help_text="The server was lost, or the market stood still."
    )
    price = CoreCredits(
        source="column.price", allow_null=True, help_text="The mean of the batch lane's prices; null: none was posted."
    )


class PoolUseShown(UseShown):
    rented = serializers.FloatField(source="column.unit_slots.rented", help_text="By jobs that pay their owners.")


class OwnUseShown(UseShown):
    lent = serializers.FloatField(source="column.unit_slots.lent", help_text="To jobs that pay for them.")
    rented = serializers.FloatField(
        source="column.rented_unit_slots", help_text="By the tenant, beside what is its own: no part of the capacity."
    )


EXAMPLE: dict[str, Any] = {
    "starts_at": "2026-03-02T12:00:00Z",
    "ends_at": "2026-03-02T13:00:00Z",
    "resource": "worker",
    "slots": 360,
    "capacity": 5760.0,
    "used": 3000.0,
    "unsold": 1160.0,
    "down": 0.0,
    "price": "0.250000",
}


def _step(text: str) -> UseStep:
    if text not in set(UseStep):
        raise ValueError(f"must be one of {', '.join(UseStep)}")
    return UseStep(text)


FILTERS = (
    Filter(
        "by",
        "",
        {"type": "string", "enum": [str(step) for step in UseStep], "default": str(UseStep.HOUR)},
        "One line for each hour, or for each day of UTC.",
        _step,
    ),
    moment("from", "The first hour is the one that holds this time. Else: a day before the end.", ""),
    moment("before", f"Only hours that begin before this time, at most {MOST_HOURS} of them. Else: now.", ""),
    word("resource", "Only this resource.", ""),
)


def use_asked(pool: Pool, parameters: Any, tenant_id: int | None = None) -> tuple[list[UseLine], dict[str, str]]:
    """Return the lines, and the span as parameters of an address, so that the next page is of the same hours."""
    end = parameters.get("before") or timezone.now()
    first = hour_of(parameters["from"] if "from" in parameters else end - USUAL)
    if not timedelta() < end - first <= MOST_HOURS * HOUR:
        sentence = f"Must be at most {MOST_HOURS} hours after the first."
        errors = [FieldError("before", "invalid_parameter", sentence)]
        raise ProblemRaised(Problem(400, "invalid_request", f"before: {sentence}", errors=errors))
    names = {kind.pk: kind.name for kind in resource_kinds(pool)}
    step = parameters.get("by", UseStep.HOUR)
    columns = use_over_time(pool=pool, first=first, end=end, step=step, tenant_id=tenant_id, zone=UTC)
    wanted = parameters.get("resource")
    lines = [UseLine(names[column.resource_id], column) for column in columns]
    span = {"from": first.isoformat(), "before": end.isoformat()}
    return [line for line in lines if wanted in (None, line.resource)], span


class PoolUse(PoolView):
    @operation(
        "pool_use_list",
        summary="Use over time",
        description="What became of all units of a pool: used by their owners, rented, unsold, down. The four add up "
        "to the capacity exactly. Counted within a minute of the end of each slot.",
        permission=Permission.QUOTA_VIEW,
        listing=Listing(PoolUseShown, filters=FILTERS),
        answer_example=EXAMPLE | {"rented": 1600.0},
        tag="calendar",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.listed_values(*use_asked(self.pool, self.parameters))


class OwnUse(TenantPoolView):
    @operation(
        "own_use_list",
        summary="Use of a tenant's own units over time",
        description="What became of the units in the tenant's cells: used, lent, unsold, down, which add up to the "
        "capacity exactly; and what the tenant rented beside them.",
        permission=Permission.QUOTA_VIEW,
        listing=Listing(OwnUseShown, filters=FILTERS),
        answer_example=EXAMPLE | {"lent": 1600.0, "rented": 720.0},
        tag="calendar",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        return self.listed_values(*use_asked(self.pool, self.parameters, self.tenant.pk))
