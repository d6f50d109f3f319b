"""Ledger, statements, share and intervals as pages: who may open them, and what never stands on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, timedelta
from html import unescape
from typing import Any

import pytest
from django.utils import timezone

from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tests.books.money_world import SECRET, World, busiest, client, read, standing, text
from tests.scheduling.builders import make_pool, make_tenant
from tests.scheduling.pages import text_of

pytestmark = pytest.mark.django_db

MONEY = ("ledger/", "statements/", "statements/period/", "statements/period/?print", "statements/period/?format=csv")
QUOTA = ("share/", "intervals/", "intervals/main/1/")
PARTS = ("ledger/?each=on", "ledger/?format=csv", "ledger/?part=entries", "share/?part=money", "share/?part=units")


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    with django_db_blocker.unblock(), standing() as money_world:
        yield money_world


@pytest.mark.parametrize("role", [VIEWER, SUBMITTER, BILLING, OWNER, AUDITOR, OPERATOR])
def test_pages_open_for_whom_they_are_for_and_say_why_else(world: World, role: str) -> None:
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


def test_another_tenants_pages_are_not_there(world: World) -> None:
    browser = client(make_tenant("orrin"), OWNER)
    for page in (*MONEY, *QUOTA, *PARTS):
        assert read(browser, world.lumen, page).status_code == 404, page


def test_another_tenants_job_names_stand_nowhere(world: World) -> None:
    browser = client(world.lumen, OWNER)
    for page in (*MONEY, *QUOTA, *PARTS, f"intervals/main/{busiest(world.pool).number}/"):
        assert SECRET not in text(read(browser, world.lumen, page)), page


def test_own_job_names_stand_where_they_belong(world: World) -> None:
    browser = client(world.castor, OWNER)
    assert SECRET in text(read(browser, world.castor, "statements/period/"))
    assert SECRET in text(read(browser, world.castor, "intervals/main/1/"))


def test_with_several_pools_each_sum_says_of_which_and_each_interval_too(world: World) -> None:
    """Every pool numbers its intervals from 1, and what a tenant earned today came from all of them."""
    browser, number = client(world.castor, OWNER), busiest(world.pool).number
    pages = {page: text_of(text(read(browser, world.castor, page))) for page in ("market/", "share/", "ledger/")}
    assert f"Interval {number}" in pages["ledger/"]
    for page, words in pages.items():
        assert "all pools" not in words, page
    assert "in Main" not in pages["ledger/"]
    make_pool("zeta", name="Zeta runs")
    pages = {page: text_of(text(read(browser, world.castor, page + "?pool=main"))) for page in pages}
    assert re.search(r"Earned today \S+ Spent today \S+ in all pools", pages["market/"])
    assert re.search(r"\S+ this month, in all pools", pages["share/"])
    assert "idle and offered in Main, but not rented" in pages["share/"]
    assert re.search(rf"Interval {number} ?, \S+ – \S+ in Main", pages["ledger/"])
    assert re.search(r"\d+ Main renter 1", text_of(text(read(browser, world.castor, "statements/period/"))))


def test_a_statement_leads_to_no_month_that_has_not_begun(world: World) -> None:
    browser = client(world.castor, OWNER)
    this = text(read(browser, world.castor, "statements/period/"))
    last = timezone.now().astimezone(UTC).replace(day=1) - timedelta(days=1)
    assert f"{last:%B %Y}" in this
    coming = (last + timedelta(days=40)).strftime("%B %Y")
    assert coming not in this
    before = text(read(browser, world.castor, "statements/period/", month=f"{last:%Y-%m}"))
    assert (last + timedelta(days=1)).strftime("%B %Y") in before


def test_a_statement_of_days_that_go_on_has_not_closed(world: World) -> None:
    browser = client(world.castor, OWNER)
    today, yesterday = (timezone.now().astimezone(UTC).date() - timedelta(days=days) for days in (0, 1))
    for last, word, other in ((today, "so far", "closed with"), (yesterday, "closed with", "so far")):
        for printed in ({}, {"print": ""}):
            days = {"from": str(yesterday), "to": str(last)} | printed
            words = text_of(text(read(browser, world.castor, "statements/period/", **days))).lower()
            assert word in words
            assert other not in words
    assert text_of(text(read(browser, world.castor, "statements/"))).count("so far") == 1


def test_a_statement_of_days_that_have_not_begun_says_so(world: World) -> None:
    browser = client(world.castor, OWNER)
    for printed in ({}, {"print": ""}):
        words = text_of(text(read(browser, world.castor, "statements/period/", month="2040-01", **printed)))
        assert "has not begun" in words
        assert "Not begun yet" in words
        assert "pened" not in words
        assert "losed" not in words
    file = read(browser, world.castor, "statements/period/", month="2040-01", format="csv")
    assert ",Not begun yet," in text(file)


def test_billing_sees_no_bids(world: World) -> None:
    assert "My bids" not in text(read(client(world.lumen, BILLING), world.lumen, "intervals/main/1/"))


def test_page_of_an_interval_lists_the_first_of_many_bids_and_says_how_many_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = busiest(world.pool).number
    browser, page = client(world.lumen, OWNER), f"intervals/main/{number}/"
    whole = text(read(browser, world.lumen, page))
    count = whole.count('<td data-h="Answer">')
    assert count > 1
    assert "in the order of the queue" not in whole
    monkeypatch.setattr("scheduling.market.reads.intervals.MOST_BIDS", 1)
    short_page = text(read(browser, world.lumen, page))
    assert f"These are the first 1 of {count} in the order of the queue." in " ".join(short_page.split())
    assert short_page.count('<td data-h="Answer">') == 1
    foot = [html[html.index("<tfoot>") : html.index("</tfoot>")] for html in (whole, short_page)]
    assert foot[0] == foot[1]


def test_what_does_not_exist_is_not_found(world: World) -> None:
    browser = client(world.lumen, OWNER)
    for page in ("intervals/main/999/", "intervals/nowhere/1/", "ledger/?below=nonsense", "share/?pool=nowhere"):
        assert read(browser, world.lumen, page).status_code == 404, page


def test_older_leads_from_page_to_page_to_the_first_payment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, first = client(world.lumen, OWNER), "ledger/?each=on&from=2000-01-01&to=2099-12-31"
    entry = 'class="entry"'
    whole = text(read(browser, world.lumen, first)).count(entry)
    monkeypatch.setattr("scheduling.books.pages.ledger.PAGE_ROWS", 2)
    counts, page = [], first
    while page:
        html = text(read(browser, world.lumen, page))
        counts.append(html.count(entry))
        older = re.search(r'href="([?][^"]*below=[^"]*)">\s*Older', html)
        page = f"ledger/{unescape(older[1])}" if older else ""
    assert sum(counts) == whole > 2
    assert len(counts) == -(-whole // 2)


def test_pages_stand_where_nothing_happened_yet() -> None:
    tenant = make_tenant("orrin")
    browser = client(tenant, OWNER)
    for page in (*MONEY, *QUOTA[:2]):
        assert read(browser, tenant, page).status_code == 200, page


def test_pages_need_few_queries_whatever_is_on_them(world: World, django_assert_max_num_queries: Any) -> None:
    """Fifteen of them are the log-in's and the frame's."""
    browser = client(world.lumen, OWNER)
    for page in (*MONEY, *QUOTA):
        with django_assert_max_num_queries(32 if page.startswith("share") else 25, info=page):
            text(read(browser, world.lumen, page))


def test_pages_need_no_style_or_script_that_the_policy_forbids(world: World) -> None:
    browser = client(world.lumen, OWNER)
    for page in (*MONEY[:4], *QUOTA):
        html = text(read(browser, world.lumen, page))
        assert " style=" not in html
        assert "<script>" not in html
        assert "onclick" not in html


def test_billing_sets_and_lifts_a_budget_and_a_wrong_one_changes_nothing(world: World) -> None:
    browser, address = client(world.lumen, BILLING), f"/t/{world.lumen.slug}/share/budgets/"
    for fields in ({"period": "week", "soft": "9", "hard": "5"}, {"period": "year", "hard": "5"}):
        browser.post(address, fields, secure=True)
        assert "No budget is set" in text(read(browser, world.lumen, "share/"))
    browser.post(address, {"period": "week", "soft": "5", "hard": "9.5"}, secure=True)
    html = text(read(browser, world.lumen, "share/"))
    assert "No budget is set" not in html
    assert "9.50" in html
    assert client(world.lumen, OWNER).post(address, {"period": "week", "remove": "1"}, secure=True).status_code == 302
    assert "No budget is set" in text(read(browser, world.lumen, "share/"))
