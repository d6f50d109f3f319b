"""Two at once: each promise beside the variant without its lock, which breaks it.

Threads are brought to the dangerous place by a gate in the database (an advisory lock inside ledger_post, between
looking and writing) and released when all that can come have come; nothing waits for a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import Error, connection, transaction

from tenants.ledger.audit import verify
from tenants.ledger.models import Transaction
from tenants.ledger.postings import (
    OPERATOR,
    OUTSIDE,
    InsufficientFunds,
    Posted,
    Posting,
    TenantBalances,
    available,
    earned,
    held,
)
from tenants.ledger.seals import SealBusy, Sealed, seal
from tenants.ledger.selectors import balance, balances
from tenants.ledger.services import accounts_open, balances_lock, hold, post, post_many
from tenants.scoping import scope_disabled
from tests.database import overrule, run
from tests.ledger.builders import NOON, accepted, all_accounts, grant, make_tenant, tamper
from tests.patience import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)

GATE = 424_242
LOCK = "FOR NO KEY UPDATE OF b"
WRITE = "    RETURN QUERY\n    WITH fresh"


@pytest.fixture(autouse=True)
def _all_tenants() -> Iterator[None]:
    with scope_disabled("tests of the book look at every account"):
        yield


@pytest.fixture
def posting_function() -> Iterator[Callable[..., None]]:
    """Replace pieces of ledger_post's source; the real one is back after the test."""
    ((original,),) = run("SELECT pg_get_functiondef('ledger_post'::regproc)")

    def replace(changes: dict[str, str]) -> None:
        source = original
        for old, new in changes.items():
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        overrule(source)

    yield replace
    overrule(original)


@contextmanager
def gate() -> Iterator[None]:
    """Hold the gate; the body starts threads and waits until they stand before it (or behind each other's locks)."""
    run("SELECT pg_advisory_lock(%s)", [GATE])
    try:
        yield
    finally:
        run("SELECT pg_advisory_unlock(%s)", [GATE])


WITH_GATE = {WRITE: f"    PERFORM pg_advisory_xact_lock_shared({GATE});\n{WRITE}"}


def start(pool: ThreadPoolExecutor, work: Callable[[], Any], times: int = 1) -> list[Future[Any]]:
    return [pool.submit(_alone, work) for _ in range(times)]


def _alone(work: Callable[[], Any]) -> Any:
    try:
        with scope_disabled("a thread of the test"):
            return work()
    finally:
        connection.close()


def wait_for_waiting_sessions(number: int) -> None:
    """Returns when so many other sessions of this database stand waiting for a lock."""
    limit = threading.Event()
    timer = threading.Timer(PATIENCE, limit.set)
    timer.start()
    try:
        while not limit.is_set():
            # In a transaction the sessions are listed once, and one that connects after that would never be seen.
            run("SELECT pg_stat_clear_snapshot()")
            ((waiting,),) = run(
                "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
                " AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
            )
            if waiting == number:
                return
        raise AssertionError(f"only {waiting} of {number} sessions came to wait")
    finally:
        timer.cancel()


def outcome(future: Future[Any]) -> str:
    try:
        return type(future.result(PATIENCE)).__name__
    except Error as error:
        return type(error).__name__


def two_holds_of_70_out_of_100(tenant: int) -> list[str]:
    keys = iter(["a", "b"])
    with ThreadPoolExecutor(2) as pool:
        with gate():
            futures = start(pool, lambda: hold(key=next(keys), tenant_id=tenant, amount=70, at=NOON), times=2)
            wait_for_waiting_sessions(2)
        return sorted(outcome(future) for future in futures)


def test_second_hold_sees_what_the_first_took(posting_function: Callable[..., None]) -> None:
    tenant = make_tenant(funds=100)
    posting_function(WITH_GATE)
    assert two_holds_of_70_out_of_100(tenant) == ["InsufficientFunds", "Posted"]
    assert balance(account=available(tenant)) == 30


def test_without_the_lock_only_the_last_guard_stops_the_second_hold(posting_function: Callable[..., None]) -> None:
    tenant = make_tenant(funds=100)
    posting_function(WITH_GATE | {LOCK: ""})
    assert two_holds_of_70_out_of_100(tenant) == ["IntegrityError", "Posted"]
    assert balance(account=available(tenant)) == 30


def test_without_lock_and_guard_the_account_is_overdrawn(posting_function: Callable[..., None]) -> None:
    tenant = make_tenant(funds=100)
    posting_function(WITH_GATE | {LOCK: ""})
    ((guard,),) = run(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'ledger_balance_not_negative'"
    )
    overrule("ALTER TABLE ledger_balance DROP CONSTRAINT ledger_balance_not_negative")
    try:
        assert two_holds_of_70_out_of_100(tenant) == ["Posted", "Posted"]
        assert balance(account=available(tenant)) == -40
        assert "below zero" in {finding.check for finding in verify().findings}
    finally:
        with transaction.atomic():
            tamper("UPDATE ledger_balance SET amount = 0 WHERE amount < 0 AND guarded")
        overrule(f"ALTER TABLE ledger_balance ADD CONSTRAINT ledger_balance_not_negative {guard}")


def test_locked_balance_cannot_be_spent_by_others_until_commit() -> None:
    tenant = make_tenant(funds=100)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert balances_lock(tenant_ids=[tenant]) == {tenant: TenantBalances(available=100, held=0, earned=0)}
            (other,) = start(pool, lambda: hold(key="other", tenant_id=tenant, amount=70, at=NOON))
            wait_for_waiting_sessions(1)
            accepted(hold(key="mine", tenant_id=tenant, amount=70, at=NOON))
        assert isinstance(other.result(PATIENCE), InsufficientFunds)


@pytest.mark.parametrize("guarded", [True, False], ids=["tenant's account", "house accounts only"])
def test_one_key_posted_by_eight_at_once_is_written_once(guarded: bool) -> None:
    tenant = make_tenant(funds=1_000)
    source, target = (available(tenant), held(tenant)) if guarded else (OUTSIDE, OPERATOR)
    together = threading.Barrier(8)

    def work() -> object:
        together.wait(PATIENCE)
        return post(key="once", kind="hold", entries=[(source, -5), (target, 5)], at=NOON)

    with ThreadPoolExecutor(8) as pool:
        answers = [accepted(future.result(PATIENCE)) for future in start(pool, work, times=8)]
    assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7
    assert {answer.transaction_id for answer in answers} == {Transaction.objects.get(key="once").pk}
    assert balance(account=target) == 5


def test_writers_with_crossing_accounts_never_deadlock() -> None:
    tenants = [make_tenant(f"t{number}", funds=10_000) for number in range(6)]
    for tenant in tenants:
        accepted(hold(key=f"hold:{tenant}", tenant_id=tenant, amount=10_000, at=NOON))
    together = threading.Barrier(6)

    def work(writer: int) -> list[object]:
        together.wait(PATIENCE)
        return [post_many(postings=_crossing(tenants, writer, step)) for step in range(40)]

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(_alone, lambda writer=writer: work(writer)) for writer in range(6)]
        answers = [answer for future in futures for answer in future.result(PATIENCE)]
    assert all(isinstance(answer, tuple) for answer in answers)
    assert sum(balances(accounts=all_accounts(*tenants)).values()) == 0
    assert verify().findings == ()


def _crossing(tenants: list[int], writer: int, step: int) -> list[Posting]:
    """Each writer walks the tenants in another order; every account is somebody's first and somebody's last."""
    order = tenants[writer:] + tenants[:writer]
    order = order if writer % 2 else order[::-1]
    pairs = zip(order, [*order[1:], order[0]], strict=True)
    return [
        Posting(
            key=f"{writer}:{step}:{payer}",
            kind="cross",
            entries=((held(payer), -3), (earned(payee), 2), (OPERATOR, 1)),
            at=NOON,
        )
        for payer, payee in pairs
    ]


def test_two_calls_in_one_transaction_can_deadlock_which_is_why_the_rule_says_one() -> None:
    one, two = make_tenant("one", funds=100), make_tenant("two", funds=100)
    halfway = threading.Barrier(2)

    def work(first: int, second: int) -> str:
        with transaction.atomic():
            accepted(hold(key=f"{first}a", tenant_id=first, amount=5, at=NOON))
            halfway.wait(PATIENCE)
            return type(hold(key=f"{first}b", tenant_id=second, amount=5, at=NOON)).__name__

    with ThreadPoolExecutor(2) as pool:
        futures = [*start(pool, lambda: work(one, two)), *start(pool, lambda: work(two, one))]
        assert sorted(outcome(future) for future in futures) == ["OperationalError", "str"]
    assert verify().is_clean, "the one that was stopped left nothing"


def test_writers_of_the_operators_account_do_not_wait_for_each_other() -> None:
    """While one transaction with operator income is open, another commits; a single row would make it wait."""
    renter, other = make_tenant("renter", funds=100), make_tenant("other", funds=100)
    for tenant in (renter, other):
        accepted(hold(key=f"hold:{tenant}", tenant_id=tenant, amount=100, at=NOON))
    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        accepted(post(key="open", kind="fee", entries=[(held(renter), -5), (OPERATOR, 5)], at=NOON))
        entries = [(held(other), -3), (OPERATOR, 3)]
        (future,) = start(pool, lambda: post(key="quick", kind="fee", entries=entries, at=NOON))
        assert isinstance(future.result(PATIENCE), Posted)
    assert balance(account=OPERATOR) == 8
    assert verify().is_clean


def test_with_a_single_row_for_the_operator_the_second_writer_waits() -> None:
    renter, other = make_tenant("renter", funds=100), make_tenant("other", funds=100)
    with transaction.atomic():
        tamper("DELETE FROM ledger_balance WHERE account_id = %s AND stripe > 0", [OPERATOR.id])
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            accepted(post(key="open", kind="fee", entries=[(available(renter), -5), (OPERATOR, 5)], at=NOON))
            entries = [(available(other), -3), (OPERATOR, 3)]
            (future,) = start(pool, lambda: post(key="quick", kind="fee", entries=entries, at=NOON))
            wait_for_waiting_sessions(1)
        assert isinstance(future.result(PATIENCE), Posted)


def open_writer(key: str, tenant: int, write_event: threading.Event, finish: threading.Event) -> str:
    with transaction.atomic():
        accepted(grant(tenant, 5, key=key))
        write_event.set()
        assert finish.wait(PATIENCE)
    return "committed"


@contextmanager
def writer_in_the_middle(tenant: int) -> Iterator[Future[Any]]:
    """Another session has drawn a transaction id and has not committed."""
    write_event, finish = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        (future,) = start(pool, lambda: open_writer("early", tenant, write_event, finish))
        assert write_event.wait(PATIENCE)
        try:
            yield future
        finally:
            finish.set()


def test_seal_waits_for_a_writer_with_a_lower_id() -> None:
    tenant, other = make_tenant(funds=100), make_tenant("other", funds=100)
    with writer_in_the_middle(tenant) as future:
        grant(other, 7, key="later")
        assert seal(at=NOON, patience_ms=20) == SealBusy(20)
        grant(other, 7, key="not-held-up")
    assert outcome(future) == "str"
    answer = seal(at=NOON)
    assert isinstance(answer, Sealed)
    assert answer.transactions == 5
    assert verify().findings == ()


def test_without_the_writers_lock_a_seal_closes_over_a_lower_id() -> None:
    """Then the database's last rule, no commit into a sealed block, has to stop an honest writer."""
    tenant, other = make_tenant(funds=100), make_tenant("other", funds=100)
    overrule("ALTER TABLE ledger_transaction DISABLE TRIGGER ledger_transaction_enters")
    try:
        with writer_in_the_middle(tenant) as future:
            grant(other, 7, key="later")
            assert isinstance(seal(at=NOON, patience_ms=20), Sealed)
        assert outcome(future) == "IntegrityError"
    finally:
        overrule("ALTER TABLE ledger_transaction ENABLE TRIGGER ledger_transaction_enters")


def test_seal_does_not_hold_up_writers_after_it_found_its_end() -> None:
    tenant = make_tenant(funds=100)
    accounts_open(tenant_ids=[tenant])
    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        assert isinstance(seal(at=NOON), Sealed)  # its transaction is still open
        (future,) = start(pool, lambda: grant(tenant, 5, key="meanwhile"))
        assert isinstance(future.result(PATIENCE), Posted)
    assert verify().findings == ()
