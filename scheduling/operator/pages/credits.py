"""Credits from outside and back: the balances of tenants, and a grant or a withdrawal with its reason."""

from __future__ import annotations

import uuid
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from django import forms
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from scheduling.money import MOST, credits_grant, credits_withdraw, tenant_funds
from scheduling.operator.pages.changes import ChangeForm, PageChange, answer
from scheduling.operator.read_operator import entries_of
from tenants.access import AccessRequest, Refused
from tenants.form_fields import AmountField
from tenants.ledger.amounts import exported
from tenants.ledger.postings import TenantBalances
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.templatetags.look import credits
from tenants.views.gate import requires
from tenants.views.tables import Column, Table, asks_csv, csv_response, table_of

GRANT, WITHDRAW = "grant", "withdraw"
WORDS = (
    (GRANT, "Grant", "Credits come from outside into what the tenant can spend."),
    (WITHDRAW, "Withdraw", "Credits go back outside: of what was earned first, then of what is available."),
)
SERVICES = {GRANT: credits_grant, WITHDRAW: credits_withdraw}
Funds = dict[int, TenantBalances]


class CreditsForm(ChangeForm):
    """A grant or a withdrawal. By `key` the same form moves credits once, even if it is sent twice."""

    direction = forms.ChoiceField(choices=[(code, title) for code, title, _ in WORDS], initial=GRANT)
    tenant = forms.ModelChoiceField(Tenant.objects.order_by("name"), empty_label="Choose a tenant")
    amount = AmountField(label="Credits", least=1, most=MOST)
    key = forms.UUIDField(widget=forms.HiddenInput)
    fields_of = MappingProxyType({"invalid_amount": "amount", "beyond_funds": "amount"})
    options = WORDS

    def __init__(self, funds: Funds, *args: Any, **kwargs: Any) -> None:
        self.funds = funds
        super().__init__(*args, **kwargs)

    def complain(self, refused: Refused) -> None:
        if refused.code == "key_reused":
            self.data = {**dict(self.data.items()), "key": str(uuid.uuid4())}
            again = "This form was sent before with other contents. Send it again to move credits a second time."
            refused = replace(refused, sentence=again)
        super().complain(refused)

    def moves(self) -> list[PageChange]:
        fields = self.cleaned_data if self.is_bound else {}
        if not {"tenant", "amount", "direction"} <= fields.keys():
            return []
        tenant, amount = fields["tenant"], fields["amount"]
        funds = self.funds[tenant.pk]
        withdrawn = fields["direction"] == WITHDRAW
        of_earned = min(amount, funds.earned) if withdrawn else 0
        into = of_earned - amount if withdrawn else amount
        most = funds.earned + funds.available
        flaw = f"Only {credits(most)} can be paid out." if withdrawn and amount > most else ""
        moved = [(f"{tenant.name}: available", funds.available, into), ("Earned", funds.earned, -of_earned)]
        return [PageChange(what, credits(before), credits(before + by), flaw) for what, before, by in moved if by]


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Permission.TENANTS_VIEW)
def operator_credits(request: AccessRequest) -> HttpResponseBase:
    funds = tenant_funds()
    if request.method == "POST":
        return _move(request, funds)
    return _page(request, funds, CreditsForm(funds, initial={"key": uuid.uuid4(), "tenant": _tenant_of(request)}))


def _tenant_of(request: AccessRequest) -> Tenant | None:
    return Tenant.objects.filter(slug=request.GET.get("tenant", "")).first()


@requires(Permission.CREDITS_CHANGE)
def _move(request: AccessRequest, funds: Funds) -> HttpResponseBase:
    form = CreditsForm(funds, request.POST)

    def apply(change_form: ChangeForm) -> object:
        values = change_form.cleaned_data
        return SERVICES[values["direction"]](
            tenant=values["tenant"],
            amount=values["amount"],
            key=f"page:{values['key']}",
            by=request.access,
            reason=values["reason"],
            at=timezone.now(),
        )

    return answer(
        request,
        form,
        name="credits",
        apply=apply,
        done="The credits are moved. Sent twice, they are moved once.",
        back=reverse("operator_credits"),
        page=lambda change_form: _page(request, funds, change_form),
    )


def _page(request: AccessRequest, funds: Funds, form: ChangeForm) -> Any:
    rows, table = Tenant.objects.all(), _table(funds)
    if asks_csv(request):
        return csv_response(request, rows, table)
    page = table_of(request, rows, table)
    context = {
        "table": page,
        "rows": [(tenant, funds[tenant.pk]) for tenant in page.rows],
        "sums": {name: sum(getattr(fund, name) for fund in funds.values()) for name in ("available", "held", "earned")},
        "form": form,
        "entries": entries_of(["credits_grant", "credits_withdraw"]),
    }
    return render(request, "operator/credits.html", context)


def _table(funds: Funds) -> Table:
    def of(name: str) -> Any:
        return lambda row: exported(getattr(funds[row.pk], name))

    columns = (
        Column("name", "Tenant", order="name"),
        Column("slug", "Short name", order="slug"),
        Column("available", "Available", numeric=True, value=of("available")),
        Column("held", "Held", numeric=True, value=of("held")),
        Column("earned", "Earned", numeric=True, value=of("earned")),
    )
    return Table(columns, sort="name", file="credits")
