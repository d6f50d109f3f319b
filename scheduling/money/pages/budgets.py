"""Set and remove budgets from the page of the tenant's share."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from scheduling.models import Period
from scheduling.money.budget_limits import budget_remove, budget_set
from tenants.access import AccessRequest
from tenants.form_fields import AmountField
from tenants.models import User
from tenants.roles import Permission
from tenants.views.gate import open_tenant, posted_from, requires, tell


class BudgetForm(forms.Form):
    """The form of a budget. `member` is a person's id, or empty for the whole tenant."""

    member = forms.ModelChoiceField(User.objects.all(), required=False)
    period = forms.ChoiceField(choices=Period.choices)
    soft = AmountField(label="Notice at", required=False)
    hard = AmountField(label="Refuse at", required=False)
    reason = forms.CharField(required=False, max_length=300)


@posted_from("tenant_share")
@requires(Permission.BUDGETS_CHANGE)
def budget_change(request: AccessRequest, tenant_slug: str) -> HttpResponse:
    """Set a budget, or remove it if the button `remove` was pressed."""
    form = BudgetForm(request.POST)
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        messages.error(request, f"Nothing was changed. {form.fields[field].label or field.capitalize()}: {errors[0]}")
        return _back(request)
    fields, by, at = form.cleaned_data, request.access, timezone.now()
    member, period, reason = fields["member"], fields["period"], fields["reason"]
    if "remove" in request.POST:
        refusal = budget_remove(member=member, period=period, by=by, at=at, reason=reason)
        tell(request, refusal, "The budget is lifted.")
    else:
        soft, hard = fields["soft"], fields["hard"]
        outcome = budget_set(member=member, period=period, soft=soft, hard=hard, by=by, at=at, reason=reason)
        tell(request, outcome, "The budget is set. It holds from the next decision on.")
    return _back(request)


def _back(request: AccessRequest) -> HttpResponse:
    return redirect(f"{reverse('tenant_share', args=[open_tenant(request).slug])}#budgets")
