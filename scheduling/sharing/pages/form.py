"""The form of a tenant's standing instructions: words for choices, credits for amounts, an error at its field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from scheduling.models import AlonePlan, Lend, Period, Pool, Rent, ResourceKind, TenantPolicy
from scheduling.sharing.sharing import Sharing
from tenants.form_fields import AmountField, WholeForm
from tenants.ledger.amounts import credits_of, micro

RENT = (
    (Rent.NEVER, "Never rent", "Your jobs wait for your own cells, and are always free."),
    (Rent.BUDGET, "Within a budget", "A job rents where that is worth more than home, while the budget lasts."),
    (Rent.AUTO, "Whenever it pays", "A job rents where that is worth more than home, up to what is available."),
)
LEND = (
    (Lend.KEEP, "Keep", "Idle units wait for you. Nothing is lent, nothing is earned."),
    (Lend.LEND, "Lend", "Idle units are sold by the interval, and come back at its end."),
)
PLAN = (
    (
        AlonePlan.KEEP,
        "Keep its place",
        "A job’s place at home is given when it is collected, and stays.",
    ),
    (
        AlonePlan.RENEW,
        "Plan anew",
        "At each interval what is worth most for its size comes first. Places at home are projected until jobs start.",
    ),
)


class SharingForm(WholeForm):
    """The form of a tenant's instructions, with one field `reserve-NAME` for each resource of the pool."""

    changed_meanwhile = (
        "Somebody has changed this while you looked at it. Open My share anew to see what it is now, or save once more "
        "to set what stands here."
    )

    rent = forms.ChoiceField(choices=[(code, title) for code, title, _ in RENT])
    lend = forms.ChoiceField(choices=[(code, title) for code, title, _ in LEND])
    plan = forms.ChoiceField(choices=[(code, title) for code, title, _ in PLAN], required=False)
    budget = AmountField(required=False)
    budget_period = forms.ChoiceField(choices=Period.choices)
    reason = forms.CharField(required=False, max_length=300)

    def __init__(
        self,
        pool: Pool,
        data: Any = None,
        *,
        policy: TenantPolicy | None = None,
        kinds: Sequence[ResourceKind] | None = None,
    ) -> None:
        """`policy` are the instructions as they are. `kinds` are the pool's resources, if the caller has read them
        already."""
        self.kinds = list(ResourceKind.objects.filter(pool=pool)) if kinds is None else kinds
        self.usual_plan = pool.usual_plan
        initial = _initial(policy, self.kinds) if policy else None
        super().__init__(version_of(policy) if policy else "", data, initial=initial)
        for kind in self.kinds:
            self.fields[f"reserve-{kind.name}"] = AmountField(required=False)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("rent") == Rent.BUDGET and cleaned.get("budget") is None and "budget" not in self.errors:
            self.add_error("budget", "Renting within a budget needs one: how many credits in each period?")
        return cleaned

    def sharing(self) -> Sharing:
        """Return the instructions of a valid form. A field left empty means no reserve price, or no budget."""
        fields = self.cleaned_data
        prices = {kind.name: fields[f"reserve-{kind.name}"] for kind in self.kinds}
        return Sharing(
            rent=fields["rent"],
            budget=fields["budget"],
            budget_period=fields["budget_period"],
            lend=fields["lend"],
            reserve_price={name: credits_of(price) for name, price in prices.items() if price},
            plan=fields["plan"] or None,
        )

    @property
    def reserves(self) -> list[tuple[str, Any]]:
        """Pairs (label, bound field) of the reserve prices, in the pool's order of resources."""
        return [(kind.label, self[f"reserve-{kind.name}"]) for kind in self.kinds]

    @property
    def rent_choices(self) -> list[tuple[str, str, str, bool]]:
        return _choices(RENT, self["rent"].value())

    @property
    def lend_choices(self) -> list[tuple[str, str, str, bool]]:
        return _choices(LEND, self["lend"].value())

    @property
    def plan_choices(self) -> list[tuple[str, str, str, bool]]:
        return _choices(PLAN, self["plan"].value() or self.usual_plan)


def _choices(words: Any, choice: object) -> list[tuple[str, str, str, bool]]:
    return [(str(code), title, text, str(code) == str(choice)) for code, title, text in words]


def version_of(policy: TenantPolicy) -> str:
    """Return what tells these instructions from others."""
    prices = [f"{name}.{micro(price)}" for name, price in sorted(policy.reserve_price.items())]
    return " ".join([policy.rent, str(policy.budget), policy.budget_period, policy.lend, policy.plan, *prices])


def _initial(policy: TenantPolicy, kinds: Sequence[ResourceKind]) -> dict[str, Any]:
    prices = policy.reserve_price
    reserves = {f"reserve-{kind.name}": micro(prices[kind.name]) for kind in kinds if kind.name in prices}
    return {
        "rent": policy.rent,
        "lend": policy.lend,
        "plan": policy.plan,
        "budget": policy.budget,
        "budget_period": policy.budget_period,
        **reserves,
    }
