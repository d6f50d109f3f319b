"""Statements: what the entries say, whatever the period and the page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.ledger.models import Entry
from tenants.ledger.postings import OPERATOR, OUTSIDE, Posting, available
from tenants.ledger.selectors import StatementLine, balance, balance_before, statement, statement_lines
from tenants.ledger.services import hold, post_many
from tenants.scoping import scope_disabled
from tests.ledger.builders import NOON, accepted, grant, make_tenant

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
MOMENTS = st.integers(0, 4 * 48).map(lambda half_hours: NOON + timedelta(minutes=30 * half_hours))


@pytest.fixture(autouse=True)
def _all_tenants() -> Iterator[None]:
    with scope_disabled("tests of the book look at every account"):
        yield


def test_statement_of_a_day_opens_with_what_was_there_and_closes_with_what_is_left() -> None:
    tenant = make_tenant(funds=100)
    accepted(hold(key="h1", tenant_id=tenant, amount=30, at=NOON + DAY, subject="job:1", facts={"slot": 3}))
    accepted(hold(key="h2", tenant_id=tenant, amount=20, at=NOON + DAY))
    accepted(hold(key="h3", tenant_id=tenant, amount=1, at=NOON + 2 * DAY))
    page = statement(account=available(tenant), start=NOON + DAY, end=NOON + 2 * DAY)
    assert (page.opening, page.closing, page.next) == (100, 50, None)
    assert [(line.key, line.amount, line.balance) for line in page.lines] == [("h1", -30, 70), ("h2", -20, 50)]
    assert (page.lines[0].subject, page.lines[0].facts, page.lines[0].kind) == ("job:1", {"slot": 3}, "hold")


def test_late_posting_appears_at_the_time_it_is_about() -> None:
    tenant = make_tenant(funds=100)
    accepted(hold(key="today", tenant_id=tenant, amount=30, at=NOON + DAY))
    grant(tenant, 7, key="late", at=NOON + timedelta(hours=1))
    assert statement(account=available(tenant), start=NOON + DAY, end=NOON + 2 * DAY).opening == 107
    assert balance_before(account=available(tenant), moment=NOON + timedelta(hours=1)) == 100


def test_statement_of_an_unused_account_is_empty() -> None:
    page = statement(account=available(make_tenant()), start=NOON, end=NOON + DAY)
    assert (page.opening, page.closing, page.lines) == (0, 0, ())


def test_page_that_ends_exactly_at_the_end_is_followed_by_an_empty_one() -> None:
    tenant = make_tenant(funds=100)
    page = statement(account=available(tenant), start=NOON, end=NOON + DAY, limit=1)
    assert page.next is not None
    last = statement(account=available(tenant), start=NOON, end=NOON + DAY, after=page.next, limit=1)
    assert (last.lines, last.next) == ((), None)


@given(
    postings=st.lists(st.tuples(st.integers(-50, 50).filter(bool), MOMENTS), max_size=25),
    period=st.tuples(MOMENTS, MOMENTS).map(sorted),
    limit=st.integers(1, 7),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_equal_the_entries(postings: list[tuple[int, datetime]], period: list[datetime], limit: int) -> None:
    """The house's account, in stripes and several days: opening + lines = closing, page by page and streamed."""
    start, end = period
    with transaction.atomic():
        for number, (amount, at) in enumerate(postings):
            entries = ((OPERATOR, amount), (OUTSIDE, -amount))
            post_many(postings=[Posting(key=f"p{number}", kind="grant", entries=entries, at=at)])
        pages = list(_pages(start, end, limit))
        lines = [line for page in pages for line in page.lines]
        expected = Entry.objects.filter(account_id=OPERATOR.id, occurred_at__gte=start, occurred_at__lt=end)
        in_order = expected.order_by("occurred_at", "transaction_id", "line").values_list("transaction_id", "amount")
        assert [(line.transaction_id, line.amount) for line in lines] == list(in_order)
        assert lines == list(statement_lines(account=OPERATOR, start=start, end=end, page=limit))
        assert pages[0].opening == sum(amount for amount, at in postings if at < start)
        assert _running(pages[0].opening, lines) == [line.balance for line in lines]
        assert {page.closing for page in pages} == {sum(amount for amount, at in postings if at < end)}
        assert balance(account=OPERATOR) == sum(amount for amount, _ in postings)
        transaction.set_rollback(True)


def _pages(start: datetime, end: datetime, limit: int):  # type: ignore[no-untyped-def]
    page = statement(account=OPERATOR, start=start, end=end, limit=limit)
    yield page
    while page.next is not None:
        page = statement(account=OPERATOR, start=start, end=end, after=page.next, limit=limit)
        yield page


def _running(opening: int, lines: list[StatementLine]) -> list[int]:
    return [opening + sum(line.amount for line in lines[: count + 1]) for count in range(len(lines))]
