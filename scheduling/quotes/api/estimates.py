"""How well the market's estimates of starts and prices held."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import TenantPoolView
from scheduling.jobs import LOOKED_AT, estimates_record
from tenants.api.fields import Answer
from tenants.api.operations import operation
from tenants.roles import Permission


class EstimatesShown(Answer):
    estimates = serializers.IntegerField(help_text=f"Whose jobs have begun; the last {LOOKED_AT} at most.")
    started_in_range = serializers.IntegerField(help_text="Of them, how many began within the range that was said.")
    paid_in_range = serializers.IntegerField(help_text="Of them, how many paid within the range that was said.")


EXAMPLE: dict[str, Any] = {"estimates": 100, "started_in_range": 93, "paid_in_range": 97}


class Estimates(TenantPoolView):
    @operation(
        "estimates_read",
        summary="How well estimates held",
        description="When a job of the batch lane is submitted, the market says when it will probably start and what "
        "it will probably cost. This is how often that came true for the tenant's jobs.",
        permission=Permission.JOBS_VIEW,
        answer=EstimatesShown,
        answer_example=EXAMPLE,
        tag="estimates",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        return self.shown(EstimatesShown, estimates_record(self.pool))
