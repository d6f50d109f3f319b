"""Ledger, statements, share and intervals as pages: who may open them, and what never stands on them."""

from __future__ import annotations

import pytest

from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tests.scheduling.builders import make_tenant
from tests.scheduling.money_world import SECRET, busiest, client, read, text, traded

pytestmark = pytest.mark.django_db

MONEY = ("ledger/", "statements/", "statements/period/", "statements/period/?print", "statements/period/?format=csv")
QUOTA = ("share/", "intervals/", "intervals/main/1/")


@pytest.mark.parametrize("role", [VIEWER, SUBMITTER, BILLING, OWNER, AUDITOR, OPERATOR])
def test_pages_open_for_whom_they_are_for_and_say_why_else(role: str) -> None:
    world = traded(4)
    browser = client(world.lumen, role)
    reads_money = role not in (VIEWER, SUBMITTER)
    for page in MONEY:
        answer = read(browser, world.lumen, page)
        assert answer.status_code == (200 if reads_money else 403), page
        if not reads_money:
            assert "are for billing and owners" in answer.content.decode()
    for page in QUOTA:
        html = text(read(browser, world.lumen, page))
        assert ("Does it add up?" in html or "Payments in" in html or "Who pays me" in html) == reads_money, page


@pytest.mark.parametrize("page", [*MONEY, *QUOTA])
def test_another_tenants_pages_are_not_there(page: str) -> None:
    world = traded(2)
    browser = client(make_tenant("orrin"), OWNER)
    assert read(browser, world.lumen, page).status_code == 404


@pytest.mark.parametrize("page", [*MONEY, *QUOTA, "ledger/?each=on", "ledger/?format=csv", "share/?part=money"])
def test_another_tenants_job_names_stand_nowhere(page: str) -> None:
    world = traded()
    browser = client(world.lumen, OWNER)
    assert SECRET not in text(read(browser, world.lumen, page))
    number = busiest(world.pool).number
    assert SECRET not in text(read(browser, world.lumen, f"intervals/main/{number}/"))


def test_own_job_names_stand_where_they_belong() -> None:
    world = traded()
    browser = client(world.castor, OWNER)
    assert SECRET in text(read(browser, world.castor, "statements/period/"))
    assert SECRET in text(read(browser, world.castor, "intervals/main/1/"))


def test_billing_sees_no_bids() -> None:
    world = traded(3)
    assert "Bids of mine" not in text(read(client(world.lumen, BILLING), world.lumen, "intervals/main/1/"))


@pytest.mark.parametrize("page", ["intervals/main/999/", "intervals/nowhere/1/", "ledger/?below=nonsense"])
def test_what_does_not_exist_is_not_found(page: str) -> None:
    world = traded(2)
    assert read(client(world.lumen, OWNER), world.lumen, page).status_code == 404


@pytest.mark.parametrize("page", [*MONEY[:4], *QUOTA])
def test_pages_stand_where_nothing_happened_yet(page: str) -> None:
    tenant = make_tenant("orrin")
    if not page.startswith("intervals/main"):
        assert read(client(tenant, OWNER), tenant, page).status_code == 200


@pytest.mark.parametrize("page", [*MONEY, *QUOTA])
def test_pages_need_few_queries_whatever_is_on_them(page: str, django_assert_max_num_queries) -> None:
    world = traded()
    browser = client(world.lumen, OWNER)
    read(browser, world.lumen, page)
    with django_assert_max_num_queries(25 if not page.startswith("share") else 30):
        text(read(browser, world.lumen, page))


@pytest.mark.parametrize("page", [*MONEY[:4], *QUOTA])
def test_pages_need_no_style_or_script_that_the_policy_forbids(page: str) -> None:
    world = traded(4)
    html = text(read(client(world.lumen, OWNER), world.lumen, page))
    assert " style=" not in html
    assert "<script>" not in html
    assert "onclick" not in html
