"""What a job pays, recomputed from the stored interval that decided it and looked up in the book."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.audit.verification import charge_verify, findings_for, in_turn
from scheduling.jobs.api.jobs import job_or_404
from scheduling.models import AwardState
from tenants.access import Refused
from tenants.api.fields import Answer, Credits
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission


class FindingShown(Answer):
    where = serializers.CharField(help_text="The interval, award or pool.")
    what = serializers.CharField(help_text="What differs there, in a sentence.")


class ChargedAward(Answer):
    award = serializers.IntegerField(source="pk")
    interval = serializers.IntegerField(
        source="interval.number", allow_null=True, default=None, help_text="Null: answered at once."
    )
    state = serializers.ChoiceField(AwardState.choices)
    start_slot = serializers.IntegerField(source="start")
    end_slot = serializers.IntegerField(source="end")
    price = Credits(source="paid")
    returned = Credits()


class ChargeShown(Answer):
    job = serializers.IntegerField()
    clean = serializers.BooleanField(help_text="Whether every amount is as it was decided, and in the book.")
    awards = ChargedAward(many=True, help_text="That were looked at, the oldest first.")
    findings = FindingShown(many=True)
    hidden = serializers.IntegerField(help_text="Findings about other tenants' jobs, which are not shown.")


EXAMPLE: dict[str, Any] = {
    "job": 4711,
    "clean": True,
    "awards": [
        {
            "award": 91,
            "interval": 17,
            "state": "done",
            "start_slot": 120,
            "end_slot": 145,
            "price": "12.500000",
            "returned": "0.000000",
        }
    ],
    "findings": [],
    "hidden": 0,
}


class JobVerify(TenantView):
    @operation(
        "charges_verify",
        summary="Verify what a job pays",
        description="Decides the job's intervals again from what is stored, splits its payment again, and looks for "
        "each part in the book. Changes nothing. One verification at a time for each person.",
        permission=Permission.JOBS_VIEW,
        answer=ChargeShown,
        answer_example=EXAMPLE,
        refusals=("archived", "still_verifying", "unknown_job"),
        costly=True,
        tag="verification",
    )
    def post(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        job_or_404(job_id)  # the verification itself reads everybody's jobs
        verdict = in_turn(request.user.pk or 0, lambda: charge_verify(job_id=job_id))
        if isinstance(verdict, Refused):
            return self.refused(verdict)
        everything = self.access.allows(Permission.FAIRNESS_VIEW)
        findings = verdict.findings if everything else findings_for(verdict.findings, {job_id})
        document = {
            "job": job_id,
            "clean": not verdict.findings,
            "awards": verdict.awards,
            "findings": findings,
            "hidden": len(verdict.findings) - len(findings),
        }
        return self.shown(ChargeShown, document)
