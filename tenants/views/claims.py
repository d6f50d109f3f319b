"""The page of claims: which tenants and roles single sign-on gives. The operator edits and tries them there."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from tenants import selectors, services
from tenants.access import AccessRequest, Refused
from tenants.claims import EMAIL, ClaimStep
from tenants.forms import ClaimMappingForm, ClaimRoleForm, ClaimTrialForm, reason_in
from tenants.models import Tenant, User
from tenants.roles import TENANT_ROLES, Permission
from tenants.views.gate import posted_from, requires, tell

FIELD_OF = {
    "invalid_claim": "claim",
    "invalid_claim_value": "value",
    "claim_mapped": "value",
    "unknown_tenant": "tenant",
    "unknown_role": "role",
    "reason_missing": "reason",
    "reason_too_long": "reason",
}


@require_safe
@requires(Permission.TENANTS_VIEW)
def claims(request: AccessRequest) -> HttpResponse:
    return _page(request)


@posted_from("claims")
@requires(Permission.TENANTS_VIEW)
def claims_try(request: AccessRequest) -> HttpResponse:
    """Show on the same page what a log-in with the pasted claims would do. Nothing is changed, and nothing is kept."""
    trial = ClaimTrialForm(request.POST)
    if not trial.is_valid():
        return _page(request, trial=trial)
    pasted = trial.cleaned_data["claims"]
    address = trial.cleaned_data["person"] or pasted.get(EMAIL)
    person = selectors.owner_of_address(address.strip()) if isinstance(address, str) and "\0" not in address else None
    steps = services.claims_try(user=person, claims=pasted)
    return _page(request, trial=trial, steps=steps, person=person, address=address or "")


@posted_from("claims")
@requires(Permission.TENANTS_CHANGE)
def claim_mapping_add(request: AccessRequest) -> HttpResponse:
    form = ClaimMappingForm(request.POST)
    if not form.is_valid():
        return _page(request, form=form)
    outcome = services.claim_mapping_add(by=request.access, at=timezone.now(), **form.cleaned_data)
    if isinstance(outcome, Refused):
        form.add_error(FIELD_OF.get(outcome.code), outcome.sentence)
        return _page(request, form=form)
    tell(request, outcome, f"Whoever logs in with {outcome} is {outcome.role} of {outcome.tenant} from now on.")
    return redirect("claims")


@posted_from("claims")
@requires(Permission.TENANTS_CHANGE)
def claim_mapping_change(request: AccessRequest, pk: int) -> HttpResponse:
    form = ClaimRoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose a role, and say why in 300 characters at most.")
        return redirect("claims")
    outcome = services.claim_mapping_change(pk=pk, by=request.access, at=timezone.now(), **form.cleaned_data)
    tell(request, outcome, f"The role is {form.cleaned_data['role']} now, from each person's next log-in on.")
    return redirect("claims")


@posted_from("claims")
@requires(Permission.TENANTS_CHANGE)
def claim_mapping_remove(request: AccessRequest, pk: int) -> HttpResponse:
    reason = reason_in(request.POST)
    outcome = services.claim_mapping_remove(pk=pk, by=request.access, reason=reason, at=timezone.now())
    tell(request, outcome, "The mapping is removed. Memberships that it made end at each person's next log-in.")
    return redirect("claims")


def _page(
    request: AccessRequest,
    *,
    form: forms.Form | None = None,
    trial: forms.Form | None = None,
    steps: list[ClaimStep] | None = None,
    person: User | None = None,
    address: str = "",
) -> HttpResponse:
    rows = selectors.claim_mapping_list()
    context: dict[str, Any] = {
        "rows": rows,
        "tenants": len({row.mapping.tenant_id for row in rows}),
        "roles": TENANT_ROLES,
        "slugs": Tenant.objects.values_list("slug", flat=True),
        "form": form or ClaimMappingForm(),
        "trial": trial or ClaimTrialForm(),
        "steps": steps,
        "person": person,
        "address": address,
        "has_provider": bool(settings.SOCIALACCOUNT_PROVIDERS),
    }
    return render(request, "staff/claims.html", context)
