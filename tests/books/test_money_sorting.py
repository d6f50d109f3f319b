"""Ledger and statements sort by their columns like every other table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import timezone

from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.books.money_world import World, client, read, standing, text
from tests.ledger.builders import grant

pytestmark = pytest.mark.django_db
Page = Callable[[str], str]


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    with django_db_blocker.unblock(), standing() as money_world:
        with scope_disabled("credits come from outside"):
            for key, amount in (("one", 5), ("two", 3), ("three", 9)):
                grant(money_world.lumen.pk, amount, key=key, at=timezone.now())
        yield money_world


@pytest.fixture
def page(world: World) -> Page:
    """As the owner of Lumen, which rents."""
    browser = client(world.lumen, OWNER)
    return lambda path: text(read(browser, world.lumen, path))


def amounts(html: str, heading: str) -> list[float]:
    """What stands in the cells under this heading, in order; empty cells left out."""
    body = re.sub(r"<tfoot.*?</tfoot>", "", html, flags=re.DOTALL)
    cells = re.findall(rf'data-h="{heading}">(.*?)</td>', body, re.DOTALL)
    words = [re.sub(r"<[^>]*>|\s", "", cell).replace("\N{MINUS SIGN}", "-") for cell in cells]
    return [float(word) for word in words if word]


@pytest.mark.parametrize("account", ["available", "held"])
def test_ledger_sorts_by_what_an_account_moved_without_losing_any(page: Page, account: str) -> None:
    heading = account.capitalize()
    stands = amounts(page("ledger/?each=on"), heading)
    assert len(stands) > 1
    up = amounts(page(f"ledger/?sort={account}"), heading)
    down = amounts(page(f"ledger/?sort=-{account}"), heading)
    assert up == sorted(stands)
    assert down == sorted(stands, reverse=True)


def test_ledger_in_another_order_has_no_intervals_and_no_balance(page: Page) -> None:
    stands, by_time = page("ledger/"), page("ledger/?sort=time")
    assert 'scope="rowgroup"' in stands
    assert 'scope="rowgroup"' not in by_time
    assert amounts(by_time, "Balance") == []
    assert re.search(r'aria-sort="ascending">\s*<a class="sort" href="\?sort=-time"', by_time)
    times = re.findall(r'<td class="faint nowrap"><time datetime="([^"]*)"', by_time)
    assert times == sorted(times)
    assert len(times) > 1


@pytest.mark.parametrize("sort", ["balance", "what", "-nothing", "id"])
def test_ledger_ignores_an_order_that_it_has_not(page: Page, sort: str) -> None:
    assert 'scope="rowgroup"' in page(f"ledger/?sort={sort}")


def test_long_period_stands_in_the_order_of_time_alone(page: Page) -> None:
    html = page("ledger/?from=2000-01-01&to=2040-01-01&sort=-held")
    assert 'scope="rowgroup"' in html
    assert 'class="sort"' not in html


def test_list_of_a_statement_sorts_by_itself(page: Page) -> None:
    def of(sort: str) -> list[float]:
        html = page(f"statements/period/{sort}")
        return amounts(html[html.index('id="h-jobs"') :].split("</section>")[0], "Charge")

    stands = of("")
    assert len(stands) > 1
    assert of("?sort=jobs.charge") == sorted(stands)
    assert of("?sort=-jobs.charge") == sorted(stands, reverse=True)
    assert of("?sort=-earned.amount") == stands


def test_months_sort_and_keep_their_links(page: Page) -> None:
    html = page("statements/?sort=-months.closed")
    assert 'aria-sort="descending"' in html
    assert "format=csv" in html
