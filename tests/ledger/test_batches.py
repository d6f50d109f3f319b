"""Very many postings in batches are what they are in one: the same rows, locked in the same order, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as HypothesisTestCase

from tenants.ledger.audit import verify
from tenants.ledger.models import Balance, DayTotal, Entry, Transaction
from tenants.ledger.postings import OPERATOR, InsufficientFunds, Posting, earned, settlement
from tenants.ledger.services import KeyReused, hold, post_batches, post_many
from tenants.scoping import scope_disabled
from tests.ledger.builders import NOON, accepted, commit_checks, make_tenant

Payment = tuple[int, int, int]  # payer, owner, micro-credits


def postings_of(tenants: Sequence[int], payments: Sequence[Payment]) -> list[Posting]:
    return [
        settlement(
            key=f"settle:{number}",
            tenant_id=tenants[payer],
            parts={earned(tenants[owner]): amount, OPERATOR: 1},
            at=NOON,
            facts={"slot": number},
        )
        for number, (payer, owner, amount) in enumerate(payments)
    ]


def cut(postings: Sequence[Posting], size: int) -> list[Callable[[], Sequence[Posting]]]:
    return [lambda first=first: postings[first : first + size] for first in range(0, len(postings), size)]  # type: ignore[misc]


def funded() -> list[int]:
    tenants = [make_tenant(f"t{number}", funds=1_000) for number in range(4)]
    for tenant in tenants:
        accepted(hold(key=f"hold:{tenant}", tenant_id=tenant, amount=500, at=NOON))
    return tenants


def book() -> list[Any]:
    """All rows; transactions by their places in the order of their numbers, since a number that was drawn is gone."""
    transactions = Transaction.objects.order_by("pk").values_list("pk", "key", "digest")
    place = {pk: number for number, (pk, _, _) in enumerate(transactions)}
    lines = Entry.objects.order_by("pk").values_list("transaction_id", "line", "account_id", "amount")
    return [
        [(place[pk], key, bytes(digest)) for pk, key, digest in transactions],
        [(place[pk], *rest) for pk, *rest in lines],
        list(Balance.objects.order_by("pk").values_list("account_id", "stripe", "amount", "entry_count")),
        list(DayTotal.objects.order_by("pk").values_list("account_id", "day", "stripe", "amount", "entry_count")),
    ]


class TestBatches(HypothesisTestCase):
    @settings(max_examples=20)
    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 120)), min_size=1, max_size=25),
        st.integers(1, 9),
    )
    def test_are_the_same_rows_as_one_batch_or_refused_as_it_is(self, payments: list[Payment], size: int) -> None:
        with scope_disabled("the test posts for all tenants"):
            tenants = funded()
            postings = postings_of(tenants, payments)
            outcomes = []
            for way in ("one", "many"):
                with transaction.atomic():
                    if way == "one":
                        answer: object = post_many(postings=postings)
                    else:
                        answer = post_batches(batches=cut(postings, size), tenant_ids=tenants)
                    short = isinstance(answer, InsufficientFunds)
                    if not short:
                        commit_checks()
                        assert verify().is_clean
                    outcomes.append("short" if short else book())
                    transaction.set_rollback(True)
            assert outcomes[0] == outcomes[1]


pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _all_tenants() -> Any:
    with scope_disabled("the test posts for all tenants"):
        yield


def test_whose_money_ends_in_a_later_batch_is_named() -> None:
    tenants = funded()
    postings = postings_of(tenants, [(0, 1, 300), (2, 1, 10), (0, 1, 300)])
    answer = post_batches(batches=cut(postings, 1), tenant_ids=tenants)
    assert isinstance(answer, InsufficientFunds)
    assert [shortage.account.tenant_id for shortage in answer.shortages] == [tenants[0]]


def test_all_accounts_are_locked_before_the_first_batch_and_a_single_batch_locks_by_itself() -> None:
    tenants = funded()
    postings = postings_of(tenants, [(0, 1, 3), (2, 1, 4), (3, 0, 5)])
    with CaptureQueriesContext(connection) as queries:
        post_batches(batches=cut(postings, 2), tenant_ids=tenants)
    statements = [query["sql"] for query in queries]
    assert ["FOR NO KEY UPDATE" in sql for sql in statements] == [False, True, False, False]
    assert ["ledger_post" in sql for sql in statements] == [False, False, True, True]
    with CaptureQueriesContext(connection) as queries:
        post_batches(batches=cut(postings, 9), tenant_ids=tenants)
    assert len(queries) == 1


def test_batches_may_come_again_but_not_with_other_contents() -> None:
    tenants = funded()
    payments = [(0, 1, 3), (2, 1, 4), (3, 0, 5)]
    assert post_batches(batches=cut(postings_of(tenants, payments), 2), tenant_ids=tenants) is None
    before = book()
    assert post_batches(batches=cut(postings_of(tenants, payments), 1), tenant_ids=tenants) is None
    assert book() == before
    with pytest.raises(KeyReused):
        post_batches(batches=cut(postings_of(tenants, [*payments[:2], (3, 0, 6)]), 2), tenant_ids=tenants)


def test_what_goes_wrong_in_building_a_batch_is_heard() -> None:
    def broken() -> list[Posting]:
        raise ZeroDivisionError

    tenants = funded()
    with pytest.raises(ZeroDivisionError):
        post_batches(batches=[*cut(postings_of(tenants, [(0, 1, 3)]), 1), broken], tenant_ids=tenants)


def test_no_batch_is_nothing() -> None:
    assert post_batches(batches=[], tenant_ids=[]) is None
