"""An amount is read by the letter wherever it comes in: by the interface, by forms, by texts of jobs."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms

from scheduling.models import Budget, UsePrice
from scheduling.money.pages.budgets import BudgetForm
from scheduling.operator.pages.credits import CreditsForm
from scheduling.operator.pages.pool_forms import PricesField
from scheduling.quotes.pages.submit_form import JobForm
from scheduling.quotes.pages.submit_text import read_job
from scheduling.sharing.pages.form import SharingForm
from tenants.form_fields import AmountField, NumberField, WholeField
from tenants.ledger.selectors import balances_of_tenant
from tenants.models import Tenant
from tenants.roles import OPERATOR, OWNER
from tenants.scoping import scope, scope_disabled
from tests.api.builders import problem, program_of
from tests.scheduling.builders import make_pool, make_tenant

WRONG = ["1_000", "1e3", " 1", "1 ", "+1", "1.", ".5", "1,5", "\N{ARABIC-INDIC DIGIT ONE}", "\N{FULLWIDTH DIGIT ONE}"]
TOO_FINE = "0.0000001"


def bodies(amount: Any) -> list[tuple[str, str, str, dict[str, Any]]]:
    """(role, method, address, body) of every request that names an amount."""
    sharing = {"rent": "budget", "lend": "lend", "budget": "1"}
    return [
        (OPERATOR, "post", "tenants/lumen/credits/grant/", {"amount": amount, "key": "k", "reason": "why"}),
        (OPERATOR, "post", "tenants/lumen/credits/withdraw/", {"amount": amount, "key": "k", "reason": "why"}),
        (OPERATOR, "post", "pools/main/use-prices/", {"prices": {"worker": amount}, "reason": "why"}),
        (OWNER, "post", "tenants/lumen/budgets/", {"period": "day", "soft_limit": amount}),
        (OWNER, "post", "tenants/lumen/budgets/", {"period": "day", "hard_limit": amount}),
        (OWNER, "put", "tenants/lumen/pools/main/sharing/", sharing | {"budget": amount}),
        (OWNER, "put", "tenants/lumen/pools/main/sharing/", sharing | {"reserve_price": {"worker": amount}}),
    ]


@pytest.mark.django_db
def test_interface_reads_amounts_by_the_letter() -> None:
    make_pool("main")
    lumen = make_tenant("lumen")
    callers = {role: program_of(role, lumen) for role in (OPERATOR, OWNER)}
    for amount in [*WRONG, TOO_FINE, "", "NaN", "1" * 14, 1, 1.5, True, ["1"]]:
        for role, method, address, body in bodies(amount):
            document = problem(getattr(callers[role], method)(address, body), 400, "invalid_request")
            assert document["errors"][0]["field"].split(".")[0] in body, (address, amount)
    with scope_disabled("the test looks at all"):
        assert not Budget.objects.exists()
        assert not UsePrice.objects.exists()
        assert balances_of_tenant(tenant_id=lumen.pk).available == 0


@pytest.mark.django_db
def test_interface_takes_an_amount_with_fewer_digits() -> None:
    lumen = make_tenant("lumen")
    caller = program_of(OPERATOR, lumen)
    answer = caller.post("tenants/lumen/credits/grant/", {"amount": "12.5", "key": "k", "reason": "why"})
    assert answer.json()["amount"] == "12.500000"


def flawed(form: forms.Form) -> set[str]:
    form.is_valid()
    return set(form.errors)


@pytest.mark.django_db
@pytest.mark.parametrize("amount", WRONG, ids=ascii)
def test_forms_read_amounts_by_the_letter(amount: str) -> None:
    pool, lumen = make_pool("main"), make_tenant("lumen")
    kinds = list(pool.resources.all())
    with scope(lumen):
        budget = BudgetForm({"period": "day", "soft": amount, "hard": amount})
        assert {"soft", "hard"} <= flawed(budget)
        sharing = SharingForm(pool, {"budget": amount, "reserve-worker": amount})
        assert {"budget", "reserve-worker"} <= flawed(sharing)
    assert "amount" in flawed(CreditsForm({}, {"amount": amount, "tenant": Tenant.objects.get().pk}))
    names = {"worth", "loss", "max_price", "epochs", "worker_takes_worker", "minibatch_seconds"}
    assert names <= flawed(JobForm(dict.fromkeys(names, amount), kinds=kinds))


@pytest.mark.parametrize("amount", [amount for amount in WRONG if amount == amount.strip()], ids=ascii)
def test_lines_of_prices_read_amounts_by_the_letter(amount: str) -> None:
    with pytest.raises(forms.ValidationError, match="is not a number of credits"):
        PricesField().clean(f"worker: {amount}")


def test_fields_read_what_they_show() -> None:
    for value in (0, 1, 12_500_000, 10**18):
        assert AmountField().clean(AmountField().prepare_value(value)) == value
    for number in (0.0, 1e-7, 12.5, 3.0, 1e22, -0.25):
        assert NumberField().clean(NumberField().prepare_value(number)) == number
    assert WholeField().clean("-12") == -12
    for empty in ("", None):
        assert AmountField(required=False).clean(empty) is None


def test_amount_field_keeps_its_bounds() -> None:
    field = AmountField(most=2_000_000)
    assert (field.clean("0"), field.clean("2.000000")) == (0, 2_000_000)
    for amount in ("-0.000001", "2.000001"):
        with pytest.raises(forms.ValidationError, match=r"Must be from 0\.00 to 2\.00 credits"):
            field.clean(amount)


@pytest.mark.parametrize("number", ["1_000", "1:30", "010", "0x10", "0o7", "+1", "1.", ".5"])
def test_text_of_a_job_has_numbers_by_the_letter_of_json(number: str) -> None:
    assert read_job(f"max_price: {number}").spec["max_price"] == number  # a text, which the service will refuse


@pytest.mark.parametrize(("number", "meaning"), [("12", 12), ("-0.5", -0.5), ("1e3", 1000.0), ("1.5E-3", 0.0015)])
def test_text_of_a_job_has_the_numbers_of_json(number: str, meaning: float) -> None:
    value = read_job(f"max_price: {number}").spec["max_price"]
    assert (value, type(value)) == (meaning, type(meaning))
