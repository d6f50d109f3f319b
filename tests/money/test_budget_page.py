"""The form of a budget says what is wrong in the words that its fields have, and what was typed stays in it."""

from __future__ import annotations

import re

import pytest

from scheduling.models import Budget
from tenants.roles import BILLING, OWNER, SUBMITTER
from tenants.scoping import scope
from tests.scheduling.builders import make_pool
from tests.scheduling.pages import client_as
from tests.tenants.builders import make_member, make_tenant

pytestmark = pytest.mark.django_db
ADDRESS = "/t/lumen/share/budgets/"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"soft": "-1"}, "Must be from 0.00 to"),
        ({"hard": "many"}, "Write credits as 12.5"),
        ({"soft": "5", "hard": "4"}, "The limit that gives notice (soft) must not be above the one that refuses"),
        ({}, "A budget has a limit that gives notice (soft), one that refuses (hard), or both."),
        ({"hard": "5", "period": "year"}, "year is not one of the available choices"),
    ],
)
def test_errors_stand_in_the_form(fields: dict[str, str], sentence: str) -> None:
    make_pool()
    tenant = make_tenant("lumen")
    client = client_as(OWNER, tenant)
    html = client.post(ADDRESS, {"period": "month", **fields}, secure=True).content.decode()
    assert sentence in _form(html)
    with scope(tenant):
        assert not Budget.objects.exists()


def test_what_was_typed_stays_when_a_budget_is_refused() -> None:
    """Without it, a second try with the amounts alone would set a limit for the whole tenant, by the month."""
    make_pool()
    tenant = make_tenant("lumen")
    one = make_member(tenant, SUBMITTER).user
    client = client_as(BILLING, tenant)
    typed = {"member": str(one.pk), "period": "week", "soft": "1,5", "hard": "20", "reason": "a <new> project"}
    form = _form(client.post(ADDRESS, typed, secure=True).content.decode())
    assert f'<option value="{one.pk}" selected>' in form
    assert '<option value="week" selected>' in form
    for value in ("1,5", "20", "a &lt;new&gt; project"):
        assert f'value="{value}"' in form


def test_page_with_a_refused_budget_leads_where_the_page_leads() -> None:
    """Its address is another one, so none of its own addresses begins with a question mark."""
    make_pool()
    client = client_as(OWNER, make_tenant("lumen"))
    html = client.post(ADDRESS, {"period": "month"}, secure=True).content.decode()
    main = html[html.index("<main") : html.index("</main")]
    assert not re.findall(r'(?:href|action|hx-get)="\?[^"]*"', main)


def _form(html: str) -> str:
    start = html.index("budget-form")
    return html[start : html.index("</form>", start)]
