"""The book obeys the tenant scope: reading one's own, taking one's own, paying anybody."""

from __future__ import annotations

import pytest

from tenants.ledger.postings import OPERATOR, OUTSIDE, AccountName, available, earned, held
from tenants.ledger.selectors import balance, balance_before, statement, transaction_view, transactions_about
from tenants.ledger.services import balances_lock, hold, post, settle
from tenants.scoping import ForeignTenant, ScopeClosed, scope, scope_disabled
from tests.ledger.builders import NOON, accepted, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenants() -> tuple[int, int]:
    with scope_disabled("the test prepares both"):
        mine, other = make_tenant("mine", funds=100), make_tenant("other", funds=100)
        accepted(hold(key="hold", tenant_id=mine, amount=50, at=NOON))
    return mine, other


READERS = {
    "balance": lambda account: balance(account=account),
    "balance_before": lambda account: balance_before(account=account, moment=NOON),
    "statement": lambda account: statement(account=account, start=NOON, end=NOON),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_reading_without_an_open_scope_raises(reader, tenants: tuple[int, int]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ScopeClosed):
        reader(available(tenants[0]))


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_rejects_reading_another_tenants_account(reader, tenants: tuple[int, int]) -> None:  # type: ignore[no-untyped-def]
    mine, other = tenants
    with scope(mine):
        reader(available(mine))
        for account in (available(other), OPERATOR):
            with pytest.raises(ForeignTenant):
                reader(account)


def test_locking_balances_needs_the_tenants_scope_and_a_transaction(tenants: tuple[int, int]) -> None:
    mine, other = tenants
    with pytest.raises(ScopeClosed):
        balances_lock(tenant_ids=[mine])
    with scope(mine):
        assert balances_lock(tenant_ids=[mine])[mine].held == 50
        with pytest.raises(ForeignTenant):
            balances_lock(tenant_ids=[mine, other])


def test_taking_money_needs_the_payers_scope(tenants: tuple[int, int]) -> None:
    mine, other = tenants
    with pytest.raises(ScopeClosed):
        hold(key="h", tenant_id=mine, amount=1, at=NOON)
    with scope(mine):
        with pytest.raises(ForeignTenant):
            hold(key="h", tenant_id=other, amount=1, at=NOON)
        accepted(settle(key="s", tenant_id=mine, parts={earned(other): 4, OPERATOR: 1}, at=NOON))


@pytest.mark.parametrize("house", [OPERATOR, OUTSIDE], ids=str)
def test_tenant_cannot_grant_itself_money(house: AccountName, tenants: tuple[int, int]) -> None:
    mine, _ = tenants
    with scope(mine), pytest.raises(ForeignTenant):
        post(key="g", kind="grant", entries=[(house, -5), (available(mine), 5)], at=NOON)


def test_tenant_sees_only_its_own_entries_of_a_transaction(tenants: tuple[int, int]) -> None:
    mine, other = tenants
    with scope(mine):
        accepted(settle(key="s", tenant_id=mine, parts={earned(other): 4, OPERATOR: 1}, at=NOON, subject="job:1"))
        (view,) = transactions_about(subject="job:1")
        assert view.entries == ((held(mine), -5),)
        assert transaction_view(key="grant:other") is None
    with scope(other):
        (view,) = transactions_about(subject="job:1")
        assert view.entries == ((earned(other), 4),)
    with pytest.raises(ScopeClosed):
        transactions_about(subject="job:1")
