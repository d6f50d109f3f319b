"""Credits from outside: granted once, by an operator, with a reason that stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from scheduling.money.credits import BeyondFunds, credits_grant, credits_withdraw, earned_collect
from tenants.access import Refused, access_of_system
from tenants.ledger.postings import Posted
from tenants.ledger.sums import earned_since
from tenants.models import AuditEntry
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.ledger.test_races import start, wait_for_waiting_sessions
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.live import (
    book_is_sound,
    events,
    fund,
    make_award,
    make_live_pool,
    member,
    moment,
    money,
    settle,
)

pytestmark = pytest.mark.django_db

GRANT = {"amount": 5_000_000, "key": "invoice-7", "by": access_of_system("the tests"), "reason": "paid", "at": NOON}


def test_a_grant_can_be_spent_and_is_remembered() -> None:
    lumen = make_tenant("lumen")
    assert isinstance(credits_grant(tenant=lumen, **GRANT), Posted)
    assert money(lumen) == (5_000_000, 0, 0)
    entry = AuditEntry.objects.get(action="credits_grant")
    assert (entry.tenant, entry.reason, entry.after) == (lumen, "paid", {"amount": 5_000_000, "key": "invoice-7"})
    assert book_is_sound()


def test_the_same_key_grants_once_also_later() -> None:
    lumen = make_tenant("lumen")
    credits_grant(tenant=lumen, **GRANT)
    for at in (NOON, moment(9)):
        answer = credits_grant(tenant=lumen, **(GRANT | {"at": at}))
        assert isinstance(answer, Posted)
        assert answer.repeated
    assert money(lumen) == (5_000_000, 0, 0)
    assert AuditEntry.objects.filter(action="credits_grant").count() == 1


@pytest.mark.parametrize("change", [{"amount": 1}, {"tenant": "castor"}])
def test_the_same_key_for_another_grant_is_refused(change) -> None:
    lumen = make_tenant("lumen")
    credits_grant(tenant=lumen, **GRANT)
    other = {"tenant": lumen} | change
    other["tenant"] = make_tenant(other["tenant"]) if isinstance(other["tenant"], str) else other["tenant"]
    answer = credits_grant(**(GRANT | other))
    assert isinstance(answer, Refused)
    assert answer.code == "key_reused"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("pay", [credits_grant, credits_withdraw])
def test_of_two_tenants_with_one_key_at_the_same_moment_one_is_refused(pay) -> None:
    """They have no account in common, so the second waits for the key alone."""
    tenants = lumen, castor = make_tenant("lumen"), make_tenant("castor")
    for tenant in tenants:
        fund(tenant)
    with ThreadPoolExecutor(1) as workers:
        with transaction.atomic():
            assert isinstance(pay(tenant=lumen, **GRANT), Posted)

            def second() -> object:
                with transaction.atomic():
                    answer = pay(tenant=castor, **GRANT)
                    assert AuditEntry.objects.filter(tenant=castor).count() == 0  # its transaction goes on
                    return answer

            (other,) = start(workers, second)
            wait_for_waiting_sessions(1)
        answer = other.result(PATIENCE)
    assert isinstance(answer, Refused)
    assert answer.code == "key_reused"
    assert money(castor) == (1_000_000_000, 0, 0)
    assert book_is_sound()


@pytest.mark.parametrize(
    ("code", "change"),
    [("invalid_amount", {"amount": 0}), ("invalid_amount", {"amount": -5}), ("reason_missing", {"reason": " "})],
)
def test_refuses_what_is_no_grant(code: str, change) -> None:
    lumen = make_tenant("lumen")
    answer = credits_grant(tenant=lumen, **(GRANT | change))
    assert isinstance(answer, Refused)
    assert money(lumen) == (0, 0, 0)
    assert answer.code == code


def test_a_tenants_owner_grants_itself_nothing() -> None:
    lumen = make_tenant("lumen")
    answer = credits_grant(tenant=lumen, **(GRANT | {"by": member(lumen, OWNER)}))
    assert isinstance(answer, Refused)
    assert answer.code == "not_allowed"


# --- back to the outside


WITHDRAWAL = GRANT | {"key": "payout-3", "reason": "asked for"}


def earner():
    """Castor has five credits to spend, three earned and two of its own held."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    fund(lumen)
    credits_grant(tenant=castor, **(GRANT | {"amount": 7_000_000}))
    make_award(pool, lumen, slots=1, charges=[[(castor, 3_000_000)]])
    make_award(pool, castor, slots=1, start=9, charges=[[(lumen, 2_000_000)]])
    settle(pool, 0)
    assert money(castor) == (5_000_000, 2_000_000, 3_000_000)
    return castor


@pytest.mark.parametrize(
    ("amount", "balances"),
    [
        (2_000_000, (5_000_000, 2_000_000, 1_000_000)),
        (3_000_000, (5_000_000, 2_000_000, 0)),
        (4_000_000, (4_000_000, 2_000_000, 0)),
        (8_000_000, (0, 2_000_000, 0)),
    ],
)
def test_a_withdrawal_takes_what_was_earned_first_and_never_what_is_held(amount: int, balances) -> None:
    castor = earner()
    answer = credits_withdraw(tenant=castor, **(WITHDRAWAL | {"amount": amount}))
    assert isinstance(answer, Posted)
    assert money(castor) == balances
    entry = AuditEntry.objects.get(action="credits_withdraw")
    assert (entry.tenant, entry.reason, entry.after) == (castor, "asked for", {"amount": amount, "key": "payout-3"})
    (event,) = events("credits_withdrawn")
    assert (event.tenant_id, event.data["amount"]) == (castor.pk, amount)
    assert book_is_sound()


def test_beyond_its_funds_nothing_is_withdrawn() -> None:
    castor = earner()
    answer = credits_withdraw(tenant=castor, **(WITHDRAWAL | {"amount": 8_000_001}))
    assert isinstance(answer, BeyondFunds)
    assert (answer.code, answer.asked, answer.left) == ("beyond_funds", 8_000_001, 8_000_000)
    assert money(castor) == (5_000_000, 2_000_000, 3_000_000)


def test_the_same_key_withdraws_once_also_later_and_when_nothing_is_left() -> None:
    castor = earner()
    whole = WITHDRAWAL | {"amount": 8_000_000}
    credits_withdraw(tenant=castor, **whole)
    answer = credits_withdraw(tenant=castor, **(whole | {"at": moment(9)}))
    assert isinstance(answer, Posted)
    assert answer.repeated
    assert money(castor) == (0, 2_000_000, 0)
    assert AuditEntry.objects.filter(action="credits_withdraw").count() == 1


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("invalid_amount", {"amount": 0}),
        ("reason_missing", {"reason": " "}),
        ("not_allowed", {"by": member(None, OWNER)}),
        ("key_reused", {"amount": 1}),
    ],
)
def test_refuses_what_is_no_withdrawal(code: str, change) -> None:
    castor = earner()
    credits_withdraw(tenant=castor, **(WITHDRAWAL | {"amount": 2_000_000}))
    before = money(castor)
    answer = credits_withdraw(tenant=castor, **(WITHDRAWAL | {"amount": 2_000_000} | change))
    assert isinstance(answer, Refused)
    assert (answer.code, money(castor)) == (code, before)


# --- what was earned can be spent


def test_what_was_earned_can_be_spent_from_the_next_collection_on() -> None:
    castor = earner()
    assert earned_collect(at=moment(2)) == 3_000_000
    assert money(castor) == (8_000_000, 2_000_000, 0)
    assert book_is_sound()


def test_earnings_are_collected_once_an_hour() -> None:
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    fund(lumen)
    make_award(pool, lumen, slots=2, charges=[[(castor, 5)]] * 2)
    settle(pool, 0)
    assert (earned_collect(at=moment(1)), earned_collect(at=moment(1))) == (5, 0)
    settle(pool, 1)
    assert (earned_collect(at=moment(359)), money(castor)) == (0, (5, 0, 5))
    assert (earned_collect(at=moment(360)), money(castor)) == (5, (10, 0, 0))


def test_what_is_paid_out_was_earned_all_the_same() -> None:
    """As the ledger page and statements say it, so do the staff's overview and the gauges."""
    castor = earner()
    with scope_disabled("the staff sees what everybody earned"):
        before = earned_since(tenant_ids=[castor.pk], day=NOON.date())
        assert before == {castor.pk: 3_000_000}
        assert isinstance(credits_withdraw(tenant=castor, **(WITHDRAWAL | {"amount": 2_000_000})), Posted)
        assert earned_since(tenant_ids=[castor.pk], day=NOON.date()) == before
        assert earned_collect(at=moment(2)) == 1_000_000
        assert earned_since(tenant_ids=[castor.pk], day=NOON.date()) == before
