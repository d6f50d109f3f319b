"""What each choice of a plan would change for the tenant's waiting jobs."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import TenantPoolView
from scheduling.models import AlonePlan
from scheduling.quotes.plans import MOST_SHOWN, plans_compare
from tenants.access import Refused
from tenants.api.fields import Answer, Credits, Moment
from tenants.api.operations import operation
from tenants.roles import Permission


class PlaceShown(Answer):
    start_slot = serializers.IntegerField(source="start")
    end_slot = serializers.IntegerField(source="end", help_text="The first slot after it.")
    worth = Credits(help_text="To the tenant, ended then.")
    projected = serializers.BooleanField(help_text="Whether later intervals may still move it.")


class PlannedJobShown(Answer):
    id = serializers.IntegerField(source="job.pk")
    name = serializers.CharField(source="job.name")
    collected = serializers.BooleanField(
        help_text="An interval has planned it before: it keeps the plan that it has, whatever is chosen now."
    )
    keep = PlaceShown(allow_null=True, help_text="Null: no place at home is worth anything to it.")
    renew = PlaceShown(allow_null=True)


class PlansShown(Answer):
    chosen = serializers.ChoiceField(AlonePlan.choices, help_text="What holds now.")
    slot = serializers.IntegerField(help_text="Before it the interval is decided that was looked ahead to.")
    decided_at = Moment()
    waiting = serializers.IntegerField(help_text="Jobs that this interval looks at.")
    free = serializers.IntegerField(help_text="Of them, those that the choice is about.")
    keep_worth = Credits(help_text="Of all their places at home, if places are kept.")
    renew_worth = Credits(help_text="And if they are planned anew.")
    jobs = PlannedJobShown(many=True, help_text=f"{MOST_SHOWN} at most; those first whose places differ.")


EXAMPLE: dict[str, Any] = {
    "chosen": "keep",
    "slot": 128,
    "decided_at": "2026-03-02T12:21:20Z",
    "waiting": 1,
    "free": 1,
    "keep_worth": "18.000000",
    "renew_worth": "27.500000",
    "jobs": [
        {
            "id": 4711,
            "name": "nightly",
            "collected": False,
            "keep": {"start_slot": 160, "end_slot": 168, "worth": "18.000000", "projected": False},
            "renew": {"start_slot": 130, "end_slot": 138, "worth": "27.500000", "projected": True},
        }
    ],
}


class PlansOfTenant(TenantPoolView):
    @operation(
        "sharing_plans",
        summary="What each plan would change",
        description="The places at home of the tenant's waiting jobs, as the next interval would plan them if places "
        "were kept, and if they were planned anew. They depend on the tenant's own jobs alone, so only jobs that come "
        "or are cancelled meanwhile change them. Nothing is changed by asking.",
        permission=Permission.JOBS_VIEW,
        also=(Permission.QUOTA_VIEW,),
        answer=PlansShown,
        answer_example=EXAMPLE,
        refusals=("no_plans",),
        costly=True,
        tag="sharing",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        outcome = plans_compare(pool=self.pool, by=self.access, at=timezone.now())
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(PlansShown, outcome)
