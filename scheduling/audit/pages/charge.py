"""The page of what a job pays, for its own tenant: the arithmetic, and a button that verifies it."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods

from scheduling.audit.verification import ChargeVerified, charge_verify, findings_for, in_turn
from scheduling.books import charge_account
from scheduling.models import TrainingJob
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.views.gate import costly, open_tenant, requires


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.LEDGER_VIEW)
@requires(Permission.JOBS_VIEW)
def job_charge(request: AccessRequest, tenant_slug: str, pk: int) -> HttpResponse:
    """Show what a job pays. A POST verifies it and shows the same page with the verdict; it changes nothing."""
    job = get_object_or_404(TrainingJob.objects.select_related("pool"), pk=pk)
    context = {"tenant": open_tenant(request), "pool": job.pool, "job": job, "awards": charge_account(job)}
    if request.method == "POST":
        context |= _verdict(request, job)
    return render(request, "audit/job_charge.html", context)


def _verdict(request: AccessRequest, job: TrainingJob) -> dict[str, Any]:
    with costly(request) as refused:
        person = request.user.pk or 0
        verdict: ChargeVerified | Refused = (
            refused if refused else in_turn(person, lambda: charge_verify(job_id=job.pk))
        )
    if isinstance(verdict, Refused):
        return {"refusal": verdict.sentence}
    everything = request.access.allows(Permission.FAIRNESS_VIEW)
    findings = verdict.findings if everything else findings_for(verdict.findings, {job.pk})
    number = len(verdict.findings)
    again = "Decided again, split again and looked for in the book."
    return {
        "verified": True,
        "clean": not number,
        "findings": findings,
        "hidden": number - len(findings),
        "sentence": f"{again} {number} difference{'' if number == 1 else 's'}.",
    }
