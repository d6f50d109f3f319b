"""What the services promise: balanced, once per key, never below zero, only under the payer's scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.ledger.audit import verify
from tenants.ledger.models import Transaction
from tenants.ledger.postings import (
    OPERATOR,
    OUTSIDE,
    AccountName,
    BadPosting,
    InsufficientFunds,
    Posted,
    Posting,
    Shortage,
    available,
    earned,
    held,
    settlement,
)
from tenants.ledger.selectors import balance, balances, balances_of_tenant, transaction_view
from tenants.ledger.services import (
    KeyReused,
    UnknownTransaction,
    hold,
    post,
    post_many,
    release,
    reverse,
    settle,
)
from tenants.scoping import scope_disabled
from tests.ledger.builders import NOON, accepted, all_accounts, commit_checks, grant, make_book, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _all_tenants() -> Iterator[None]:
    with scope_disabled("tests of the book look at every account"):
        yield


def test_money_flows_from_grant_to_earnings() -> None:
    renter, owner = make_book()
    assert vars(balances_of_tenant(tenant_id=renter)) == {"available": 700, "held": 100, "earned": 0}
    assert vars(balances_of_tenant(tenant_id=owner)) == {"available": 500, "held": 0, "earned": 180}
    assert balances(accounts=[OPERATOR, OUTSIDE]) == {OPERATOR: 20, OUTSIDE: -1_500}
    assert verify().is_clean


def test_same_key_and_contents_return_the_earlier_transaction() -> None:
    tenant = make_tenant(funds=100)
    first = accepted(hold(key="hold:1", tenant_id=tenant, amount=80, at=NOON, facts={"job": "a", "n": 1}))
    again = hold(key="hold:1", tenant_id=tenant, amount=80, at=NOON, facts={"n": 1, "job": "a"})
    assert again == Posted("hold:1", first.transaction_id, repeated=True)
    assert balance(account=held(tenant)) == 80


@pytest.mark.parametrize(
    "change",
    [{"amount": 79}, {"at": NOON + timedelta(microseconds=1)}, {"subject": "job:2"}, {"facts": {"a": 1}}],
    ids=lambda change: next(iter(change)),
)
def test_same_key_with_other_contents_raises(change: dict[str, object]) -> None:
    tenant = make_tenant(funds=1_000)
    words: dict[str, object] = {"key": "hold:1", "tenant_id": tenant, "amount": 80, "at": NOON}
    accepted(hold(**words))  # type: ignore[arg-type]
    with pytest.raises(KeyReused, match="hold:1"):
        hold(**(words | change))  # type: ignore[arg-type]
    assert balance(account=held(tenant)) == 80


def test_refuses_hold_beyond_the_balance_with_numbers() -> None:
    tenant = make_tenant(funds=100)
    answer = hold(key="hold:1", tenant_id=tenant, amount=101, at=NOON)
    assert answer == InsufficientFunds((Shortage(available(tenant), 100, 101),))
    assert str(answer) == f"available of tenant {tenant} has 100, needs 101"
    assert not Transaction.objects.filter(key="hold:1").exists()


def test_refuses_first_hold_of_a_tenant_without_accounts() -> None:
    tenant = make_tenant()
    assert isinstance(hold(key="hold:1", tenant_id=tenant, amount=1, at=NOON), InsufficientFunds)


def test_refuses_release_and_settlement_of_more_than_is_held() -> None:
    renter, owner = make_book()
    for answer in (
        release(key="r", tenant_id=renter, amount=101, at=NOON),
        settle(key="s", tenant_id=renter, parts={earned(owner): 101}, at=NOON),
    ):
        assert answer == InsufficientFunds((Shortage(held(renter), 100, 101),))


def test_batch_is_written_whole_or_not_at_all() -> None:
    rich, poor = make_tenant("rich", funds=100), make_tenant("poor", funds=10)
    wishes = [_hold_of(rich, 60, "a"), _hold_of(poor, 11, "b"), _hold_of(rich, 41, "c")]
    answer = post_many(postings=wishes)
    assert isinstance(answer, InsufficientFunds)
    assert {(s.account, s.balance, s.needed) for s in answer.shortages} == {
        (available(rich), 100, 101),
        (available(poor), 10, 11),
    }
    assert Transaction.objects.filter(kind="hold").count() == 0


def test_batch_answers_in_the_order_asked_and_repeats_what_was_written() -> None:
    tenant = make_tenant(funds=100)
    accepted(post_many(postings=[_hold_of(tenant, 100, "b")])[0])  # type: ignore[index]
    grant(tenant, 30, key="more")
    answer = post_many(postings=[_hold_of(tenant, 10, "c"), _hold_of(tenant, 100, "b"), _hold_of(tenant, 20, "a")])
    assert isinstance(answer, tuple)
    assert [(posted.key, posted.repeated) for posted in answer] == [("c", False), ("b", True), ("a", False)]
    assert balance(account=held(tenant)) == 130


def test_repeated_batch_is_not_refused_after_the_money_is_gone() -> None:
    tenant = make_tenant(funds=100)
    accepted(hold(key="h", tenant_id=tenant, amount=100, at=NOON))
    assert accepted(hold(key="h", tenant_id=tenant, amount=100, at=NOON)).repeated


def test_refund_in_the_same_batch_pays_for_a_hold() -> None:
    tenant = make_tenant(funds=100)
    accepted(hold(key="h", tenant_id=tenant, amount=100, at=NOON))
    back = Posting(key="r", kind="release", entries=((held(tenant), -100), (available(tenant), 100)), at=NOON)
    yesterday = NOON - timedelta(days=1)
    assert isinstance(post_many(postings=[_hold_of(tenant, 90, "h2", at=yesterday), back]), tuple)
    assert verify().is_clean


def test_batch_may_not_name_a_key_twice() -> None:
    tenant = make_tenant(funds=100)
    with pytest.raises(BadPosting, match="same key twice"):
        post_many(postings=[_hold_of(tenant, 1, "a"), _hold_of(tenant, 1, "a")])


def test_empty_batch_is_nothing() -> None:
    assert post_many(postings=[]) == ()


def test_reversal_names_what_it_corrects_and_undoes_it() -> None:
    renter, owner = make_book()
    before = balances(accounts=all_accounts(renter, owner))
    wrong = accepted(settle(key="wrong", tenant_id=renter, parts={earned(owner): 100}, at=NOON, subject="job:1"))
    accepted(reverse(key="undo", original_key="wrong", at=NOON, facts={"why": "counted twice"}))
    view = transaction_view(key="undo")
    assert view is not None
    assert (view.corrects, view.subject, view.facts) == (wrong.transaction_id, "job:1", {"why": "counted twice"})
    assert balances(accounts=all_accounts(renter, owner)) == before
    assert verify().is_clean


def test_reversal_is_refused_when_the_money_is_gone() -> None:
    tenant = make_tenant(funds=100)
    accepted(hold(key="h", tenant_id=tenant, amount=60, at=NOON))
    answer = reverse(key="undo", original_key="grant:lumen", at=NOON)
    assert answer == InsufficientFunds((Shortage(available(tenant), 40, 100),))


def test_reversal_of_the_unknown_raises() -> None:
    with pytest.raises(UnknownTransaction, match="nobody"):
        reverse(key="undo", original_key="nobody", at=NOON)


def test_settlement_leaves_out_owners_without_a_part() -> None:
    posting = settlement(key="s", tenant_id=1, parts={earned(3): 7, earned(2): 0, OPERATOR: 3}, at=NOON)
    assert posting.entries == ((held(1), -10), (earned(3), 7), (OPERATOR, 3))


@pytest.mark.parametrize(
    ("entries", "key", "at"),
    [
        (((available(1), -5), (held(1), 4)), "k", NOON),
        (((available(1), -5), (held(1), 5), (OPERATOR, 0)), "k", NOON),
        ((), "k", NOON),
        (((available(1), -1.5), (held(1), 1.5)), "k", NOON),
        (((available(1), -(2**63)), (held(1), 2**63)), "k", NOON),
        (((available(1), -5), (held(1), 5)), "", NOON),
        (((available(1), -5), (held(1), 5)), "two words", NOON),
        (((available(1), -5), (held(1), 5)), 'quo"te', NOON),
        (((available(1), -5), (held(1), 5)), "back\\slash", NOON),
        (((available(1), -5), (held(1), 5)), "line\n", NOON),
        (((available(1), -5), (held(1), 5)), "x" * 201, NOON),
        (((available(1), -5), (held(1), 5)), "k", NOON.replace(tzinfo=None)),
    ],
)
def test_broken_posting_cannot_be_built(entries: tuple[tuple[AccountName, int], ...], key: str, at: datetime) -> None:
    with pytest.raises(BadPosting):
        Posting(key=key, kind="hold", entries=entries, at=at)


def test_there_are_no_other_accounts() -> None:
    for kind, tenant_id in (("available", None), ("operator", 3), ("savings", 3)):
        with pytest.raises(BadPosting):
            AccountName(kind, tenant_id)
    for account in all_accounts(1, 7_000_000):
        assert AccountName.of(account.id) == account


@given(
    key=st.from_regex(r"[!#-\[\]-~]{1,200}", fullmatch=True),
    facts=st.dictionaries(
        st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")),
        st.one_of(
            st.integers(-(10**30), 10**30),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")),
            st.none(),
            st.lists(st.booleans()),
        ),
        max_size=4,
    ),
    at=st.datetimes(datetime(1980, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001  (the zone follows)
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_posted_passes_its_digest(key: str, facts: dict[str, object], at: datetime) -> None:
    moment = at.replace(tzinfo=NOON.tzinfo)
    with transaction.atomic():
        entries = [(OUTSIDE, -5), (OPERATOR, 5)]
        accepted(post(key=key, kind="grant", entries=entries, at=moment, facts=facts))
        commit_checks()
        assert accepted(post(key=key, kind="grant", entries=entries, at=moment, facts=facts)).repeated
        assert Transaction.objects.get(key=key).occurred_at == moment
        transaction.set_rollback(True)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "hold", "release", "settle", "withdraw", "again"]),
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(1, 60),
        st.integers(0, 3),
    ),
    max_size=30,
)


@given(steps=STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_book_equals_a_plain_dictionary(steps: list[tuple[str, int, int, int, int]]) -> None:
    """Any sequence of postings, some refused and some repeated, leaves what a dictionary of balances holds."""
    with transaction.atomic():
        tenants = [make_tenant(slug) for slug in ("one", "two", "three")]
        expected: Counter[AccountName] = Counter()
        earlier: list[Posting] = []
        for number, (what, payer, owner, amount, day) in enumerate(steps):
            posting = _step(what, tenants[payer], tenants[owner], amount, number, NOON + timedelta(days=day))
            if what == "again":
                posting = earlier[amount % len(earlier)] if earlier else None
            if posting is not None:
                _apply(posting, expected, earlier)
        commit_checks()
        assert balances(accounts=all_accounts(*tenants)) == {a: expected[a] for a in all_accounts(*tenants)}
        assert verify().findings == ()
        transaction.set_rollback(True)


def _apply(posting: Posting, expected: Counter[AccountName], earlier: list[Posting]) -> None:
    affordable = all(a.tenant_id is None or amount > 0 or expected[a] + amount >= 0 for a, amount in posting.entries)
    answer = post_many(postings=[posting])
    assert isinstance(answer, tuple) == (affordable or posting in earlier)
    if isinstance(answer, tuple) and not answer[0].repeated:
        assert posting not in earlier
        earlier.append(posting)
        for account, amount in posting.entries:
            expected[account] += amount


def _step(what: str, payer: int, owner: int, amount: int, number: int, at: datetime) -> Posting | None:
    entries = {
        "grant": ((OUTSIDE, -amount), (available(payer), amount)),
        "hold": ((available(payer), -amount), (held(payer), amount)),
        "release": ((held(payer), -amount), (available(payer), amount)),
        "settle": ((held(payer), -amount - 1), (earned(owner), amount), (OPERATOR, 1)),
        "withdraw": ((earned(owner), -amount), (OUTSIDE, amount)),
    }.get(what)
    return Posting(key=f"step:{number}", kind=what, entries=entries, at=at) if entries else None


def _hold_of(tenant_id: int, amount: int, key: str, *, at: datetime = NOON) -> Posting:
    return Posting(key=key, kind="hold", entries=((available(tenant_id), -amount), (held(tenant_id), amount)), at=at)
