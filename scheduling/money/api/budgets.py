"""Budgets of a tenant and of its members: list, set, lift."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.models import Period
from scheduling.money.budget_limits import UNKNOWN_BUDGET, UNKNOWN_MEMBER, budget_remove, budget_set
from scheduling.money.read_budgets import budget_list
from tenants.access import Refused
from tenants.api.fields import Answer, Credits, Form, Text, Word
from tenants.api.listing import Listing, choice
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.models import User
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST

WHOSE = "The e-mail address of a member; null, or left out: the whole tenant."


class BudgetNamed(Form):
    member = Text(required=False, allow_null=True, default=None, max_length=254, help_text=WHOSE)
    period = Word(choices=Period.choices, help_text="Of UTC.")
    reason = Text(required=False, allow_blank=True, default="", max_length=REASON_LONGEST, help_text="For the history.")


class BudgetGiven(BudgetNamed):
    soft_limit = Credits(required=False, allow_null=True, default=None, help_text="A notice when it is passed.")
    hard_limit = Credits(required=False, allow_null=True, default=None, help_text="Nothing is bought beyond it.")


class BudgetShown(Answer):
    id = serializers.IntegerField()
    member = serializers.EmailField(
        source="member.email", allow_null=True, default=None, help_text="Null: the whole tenant."
    )
    period = serializers.ChoiceField(Period.choices)
    soft_limit = Credits(allow_null=True)
    hard_limit = Credits(allow_null=True)


class BudgetGone(Answer):
    removed = serializers.BooleanField()


EXAMPLE: dict[str, Any] = {
    "id": 2,
    "member": "ada@lumen.example",
    "period": "month",
    "soft_limit": "400.000000",
    "hard_limit": "500.000000",
}
REFUSALS = ("unknown_member", "invalid_budget", "reason_too_long")


class Budgets(TenantView):
    @operation(
        "budgets_list",
        summary="Budgets of the tenant",
        description="What the tenant, and each of its members, may spend in a period.",
        permission=Permission.BUDGETS_VIEW,
        listing=Listing(
            BudgetShown,
            orderings=("id", "-id"),
            filters=(choice("period", Period.values, "Only budgets for these periods."),),
        ),
        answer_example=EXAMPLE,
        tag="budgets",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed(budget_list())

    @operation(
        "budgets_set",
        summary="Set a budget",
        description="The one budget of this member, or of the whole tenant, for this period: made, or changed. It "
        "holds from the next decision on; what was awarded before stays, and counts.",
        permission=Permission.BUDGETS_CHANGE,
        body=BudgetGiven,
        answer=BudgetShown,
        request_example={"member": "ada@lumen.example", "period": "month", "soft_limit": "400.000000"},
        answer_example=EXAMPLE,
        refusals=REFUSALS,
        tag="budgets",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(BudgetGiven)
        member = _member(body["member"])
        if isinstance(member, Refused):
            return self.refused(member)
        outcome = budget_set(
            member=member,
            period=body["period"],
            soft=body["soft_limit"],
            hard=body["hard_limit"],
            reason=body["reason"],
            by=self.access,
            at=timezone.now(),
        )
        return self.refused(outcome) if isinstance(outcome, Refused) else self.shown(BudgetShown, outcome)


class BudgetRemove(TenantView):
    @operation(
        "budgets_remove",
        summary="Lift a budget",
        description="Nothing limits this member, or the whole tenant, in this period any more.",
        permission=Permission.BUDGETS_CHANGE,
        body=BudgetNamed,
        answer=BudgetGone,
        request_example={"member": "ada@lumen.example", "period": "month"},
        answer_example={"removed": True},
        refusals=("unknown_budget", "reason_too_long"),
        tag="budgets",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(BudgetNamed)
        member = _member(body.pop("member"))
        if isinstance(member, Refused):
            return self.refused(UNKNOWN_BUDGET)
        refused = budget_remove(member=member, by=self.access, at=timezone.now(), **body)
        return self.refused(refused) if refused else self.shown(BudgetGone, {"removed": True})


def _member(email: str | None) -> User | Refused | None:
    """Return the user with this address, or None without one. An address that nobody has is refused here, as no
    member's; whether a user is a member of this tenant is for the service to check."""
    if email is None:
        return None
    return User.objects.filter(email=email.strip().lower()).first() or UNKNOWN_MEMBER
