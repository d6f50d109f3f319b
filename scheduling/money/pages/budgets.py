"""The form of a budget, which stands on the page of the tenant's share."""

from __future__ import annotations

from datetime import datetime

from django import forms

from scheduling.models import Budget, Period
from scheduling.money.budget_limits import budget_remove, budget_set
from tenants.access import Access, Refused
from tenants.form_fields import AmountField
from tenants.models import User


class BudgetForm(forms.Form):
    """The form of a budget. `member` is a person's id, or empty for the whole tenant."""

    member = forms.ModelChoiceField(User.objects.all(), required=False)
    period = forms.ChoiceField(choices=Period.choices, initial=Period.MONTH)
    soft = AmountField(label="Notice at", required=False)
    hard = AmountField(label="Refuse at", required=False)
    reason = forms.CharField(required=False, max_length=300)

    def set_budget(self, *, by: Access, at: datetime) -> Budget | Refused:
        """Set the budget of a valid form."""
        return budget_set(by=by, at=at, **self.cleaned_data)

    def lift_budget(self, *, by: Access, at: datetime) -> Refused | None:
        """Remove the budget that a valid form names."""
        fields = self.cleaned_data
        return budget_remove(member=fields["member"], period=fields["period"], by=by, at=at, reason=fields["reason"])
