"""The form of a tenant's standing instructions: words for choices, credits for amounts, an error at its field."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django import forms

from scheduling.models import Lend, Period, Pool, Rent, ResourceKind, TenantPolicy
from scheduling.services.sharing import Sharing
from tenants.ledger.postings import MICRO

RENT = (
    (Rent.NEVER, "Never rent", "Your jobs wait for your own cells, and are always free."),
    (Rent.BUDGET, "Within a budget", "A job rents where that is worth more than home, while the budget lasts."),
    (Rent.AUTO, "Whenever it pays", "A job rents where that is worth more than home, up to what is available."),
)
LEND = (
    (Lend.KEEP, "Keep", "Idle units wait for you. Nothing is lent, nothing is earned."),
    (Lend.LEND, "Lend", "Idle units are sold by the interval, and come back at its end."),
)
MOST = Decimal(10) ** 12


class SharingForm(forms.Form):
    """One field `reserve-NAME` for each resource of the pool."""

    rent = forms.ChoiceField(choices=[(code, title) for code, title, _ in RENT])
    lend = forms.ChoiceField(choices=[(code, title) for code, title, _ in LEND])
    budget = forms.DecimalField(required=False, min_value=0, max_value=MOST, decimal_places=6)
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
        """`kinds`: the pool's resources, where they are at hand."""
        self.kinds = list(ResourceKind.objects.filter(pool=pool)) if kinds is None else kinds
        super().__init__(data, initial=_initial(policy, self.kinds) if policy else None)
        for kind in self.kinds:
            self.fields[f"reserve-{kind.name}"] = forms.DecimalField(
                required=False, min_value=0, max_value=MOST, decimal_places=6
            )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("rent") == Rent.BUDGET and cleaned.get("budget") is None and "budget" not in self.errors:
            self.add_error("budget", "Renting within a budget needs one: how many credits in each period?")
        return cleaned

    def sharing(self) -> Sharing:
        """Of a form that is valid. What was left empty is not set: no reserve price, no budget."""
        given = self.cleaned_data
        prices = {kind.name: given[f"reserve-{kind.name}"] for kind in self.kinds}
        return Sharing(
            rent=given["rent"],
            budget=None if given["budget"] is None else _micro(given["budget"]),
            budget_period=given["budget_period"],
            lend=given["lend"],
            reserve_price={name: float(price) for name, price in prices.items() if price},
        )

    @property
    def reserves(self) -> list[tuple[str, Any]]:
        """(label, bound field) in the order of the pool."""
        return [(kind.label, self[f"reserve-{kind.name}"]) for kind in self.kinds]

    @property
    def rent_choices(self) -> list[tuple[str, str, str, bool]]:
        return _choices(RENT, self["rent"].value())

    @property
    def lend_choices(self) -> list[tuple[str, str, str, bool]]:
        return _choices(LEND, self["lend"].value())


def _choices(words: Any, chosen: object) -> list[tuple[str, str, str, bool]]:
    return [(str(code), title, text, str(code) == str(chosen)) for code, title, text in words]


def _initial(policy: TenantPolicy, kinds: Sequence[ResourceKind]) -> dict[str, Any]:
    reserves = {f"reserve-{kind.name}": policy.reserve_price.get(kind.name) for kind in kinds}
    return {
        "rent": policy.rent,
        "lend": policy.lend,
        "budget": None if policy.budget is None else _plain(Decimal(policy.budget) / MICRO),
        "budget_period": policy.budget_period,
        **reserves,
    }


def _plain(credits: Decimal) -> str:
    """Without the zeros that nobody typed."""
    text = f"{credits:.6f}"
    return text.rstrip("0").rstrip(".")


def _micro(credits: Decimal) -> int:
    return int((credits * MICRO).quantize(Decimal(1), rounding=ROUND_HALF_UP))
