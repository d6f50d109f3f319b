# ruff: noqa: S608  (the SQL is this file's own)
"""Somebody who can switch the triggers off changes the book; the audit names what was touched."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from tenants import history
from tenants.access import access_of_system
from tenants.ledger.audit import Audit, verify
from tenants.ledger.models import Transaction
from tenants.ledger.postings import OPERATOR, OUTSIDE, AccountName, Posted, available, earned, held
from tenants.ledger.seals import ChainHead, Sealed, head, noted_heads, seal
from tenants.ledger.services import post, reverse
from tenants.scoping import scope_disabled
from tests.database import overrule, run
from tests.ledger.builders import NOON, commit_checks, grant, make_book, tamper

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def book() -> Iterator[tuple[int, int]]:
    with scope_disabled("the audit reads the whole book"):
        yield make_book()


def number_of(key: str) -> int:
    return Transaction.objects.get(key=key).pk


def culprits_by_check(audit: Audit | None = None) -> dict[str, set[str]]:
    """Culprits by check."""
    answer: dict[str, set[str]] = {}
    for finding in (audit or verify()).findings:
        answer.setdefault(finding.check, set()).add(finding.culprit)
    return answer


def follow_in_caches() -> None:
    """The thief also makes the cached figures agree with the entries."""
    tamper(
        "UPDATE ledger_balance b SET (amount, entry_count) ="
        " (SELECT coalesce(sum(amount), 0), count(*) FROM ledger_entry WHERE account_id = b.account_id)"
        " WHERE stripe = 0"
    )
    tamper("UPDATE ledger_balance SET (amount, entry_count) = (0, 0) WHERE stripe > 0")
    tamper("DELETE FROM ledger_daytotal")
    tamper(
        "INSERT INTO ledger_daytotal (day, stripe, amount, entry_count, account_id)"
        " SELECT (occurred_at AT TIME ZONE 'UTC')::date, 0, sum(amount), count(*), account_id"
        " FROM ledger_entry GROUP BY 1, account_id"
    )


def redigest(key: str) -> None:
    """The thief also writes the digest that fits the changed row."""
    tamper(
        "UPDATE ledger_transaction t SET digest = ledger_digest(t.key, t.kind, t.subject, t.occurred_at, t.corrects_id,"
        " t.facts, (SELECT string_agg(ledger_line(account_id, amount), ', ' ORDER BY line) FROM ledger_entry"
        " WHERE transaction_id = t.id)) WHERE key = %s",
        [key],
    )


def test_untouched_book_is_clean_sealed_or_not(book: tuple[int, int]) -> None:
    assert culprits_by_check() == {}
    assert isinstance(seal(at=NOON), Sealed)
    audit = verify()
    assert (culprits_by_check(audit), audit.transactions, audit.entries, audit.sealed) == ({}, 5, 12, 5)


def test_names_transaction_whose_amounts_were_changed_in_a_pair(book: tuple[int, int]) -> None:
    tamper(
        "UPDATE ledger_entry SET amount = amount + CASE line WHEN 1 THEN -5 ELSE 5 END"
        " WHERE transaction_id = %s AND line > 0",
        [number_of("slot:1")],
    )
    follow_in_caches()
    assert culprits_by_check() == {"digest": {f"transaction {number_of('slot:1')} (slot:1)"}}
    assert f"{number_of('slot:1')}.1" in verify().findings[0].detail


def test_names_transaction_whose_amount_was_changed_alone(book: tuple[int, int]) -> None:
    tamper("UPDATE ledger_entry SET amount = 95 WHERE transaction_id = %s AND line = 1", [number_of("slot:1")])
    answer = culprits_by_check()
    assert answer["balance"] == answer["digest"] == {f"transaction {number_of('slot:1')} (slot:1)"}
    assert answer["day total"] == {f"account {earned(book[1]).id} (earned of tenant {book[1]}) on 2026-03-02"}


def test_names_transaction_whose_entry_went_to_another_account(book: tuple[int, int]) -> None:
    renter, _ = book
    tamper(
        "UPDATE ledger_entry SET account_id = %s WHERE transaction_id = %s AND line = 1",
        [available(renter).id, number_of("slot:1")],
    )
    follow_in_caches()
    assert culprits_by_check() == {"digest": {f"transaction {number_of('slot:1')} (slot:1)"}}


@pytest.mark.parametrize("change", ["key = 'slot:9'", "subject = 'job:2'", "facts = '{\"a\": 1}'", "kind = 'grant'"])
def test_names_transaction_whose_story_was_changed(change: str) -> None:
    number = number_of("slot:1")
    tamper(f"UPDATE ledger_transaction SET {change} WHERE id = %s", [number])
    (culprits,) = culprits_by_check().values()
    assert [culprit.startswith(f"transaction {number} ") for culprit in culprits] == [True]


def test_names_transaction_moved_to_another_day(book: tuple[int, int]) -> None:
    for table in ("ledger_entry WHERE transaction_id", "ledger_transaction WHERE id"):
        name, where = table.split(" WHERE ")
        tamper(
            f"UPDATE {name} SET occurred_at = occurred_at - interval '1 day' WHERE {where} = %s", [number_of("slot:1")]
        )
    follow_in_caches()
    assert culprits_by_check() == {"digest": {f"transaction {number_of('slot:1')} (slot:1)"}}


def test_names_transaction_that_lost_an_entry(book: tuple[int, int]) -> None:
    tamper("DELETE FROM ledger_entry WHERE transaction_id = %s AND line = 2", [number_of("slot:1")])
    assert culprits_by_check()["entries"] == {f"transaction {number_of('slot:1')} (slot:1)"}


def test_names_entries_whose_transaction_is_gone(book: tuple[int, int]) -> None:
    number = number_of("slot:1")
    tamper("DELETE FROM ledger_transaction WHERE id = %s", [number])
    assert culprits_by_check() == {"orphan": {f"entry {number}.{line}" for line in range(3)}}


def test_names_transaction_that_was_put_before_the_first(book: tuple[int, int]) -> None:
    """Whole, with its digest, and with all figures that follow from it: no seal closes over what stands there."""
    assert isinstance(seal(at=NOON), Sealed)
    tamper(
        "INSERT INTO ledger_transaction (id, key, kind, subject, occurred_at, facts, entry_count, digest)"
        " SELECT -7, 'slot:before', kind, subject, occurred_at, facts, entry_count, digest"
        " FROM ledger_transaction WHERE key = 'slot:1'"
    )
    tamper(
        "INSERT INTO ledger_entry (transaction_id, line, account_id, amount, occurred_at)"
        " SELECT -7, line, account_id, amount, occurred_at FROM ledger_entry WHERE transaction_id = %s",
        [number_of("slot:1")],
    )
    redigest("slot:before")
    follow_in_caches()
    assert culprits_by_check() == {"number": {"transaction -7"}}


STRANGE = {
    "available to available": lambda mine, other: [(available(mine), -5), (available(other), 5)],
    "available to the operator": lambda mine, other: [(available(mine), -5), (OPERATOR, 5)],
    "available to earned": lambda mine, other: [(available(mine), -5), (earned(other), 5)],
    "held to available of another": lambda mine, other: [(held(mine), -5), (available(other), 5)],
    "held to held": lambda mine, other: [(held(mine), -5), (held(other), 5)],
    "earned to available of another": lambda mine, other: [(earned(other), -5), (available(mine), 5)],
    "earned to held": lambda mine, other: [(earned(other), -5), (held(other), 5)],
    "outside to earned": lambda mine, other: [(OUTSIDE, -5), (earned(other), 5)],
    "outside to held": lambda mine, other: [(OUTSIDE, -5), (held(other), 5)],
    "operator to available": lambda mine, other: [(OPERATOR, -5), (available(other), 5)],
    "one entry of three": lambda mine, other: [(held(mine), -7), (available(mine), 2), (available(other), 5)],
    "two payers": lambda mine, other: [(available(mine), -2), (earned(other), -3), (available(other), 5)],
}


@pytest.mark.parametrize("entries", STRANGE.values(), ids=STRANGE)
def test_names_a_transfer_that_the_product_never_makes_though_it_is_sealed_with_the_right_digest(
    book: tuple[int, int], entries: Callable[[int, int], list[tuple[AccountName, int]]]
) -> None:
    assert isinstance(post(key="gift", kind="settle", entries=entries(*book), at=NOON), Posted)
    commit_checks()
    seal(at=NOON)
    assert culprits_by_check() == {"movement": {f"transaction {number_of('gift')} (gift)"}}


def test_what_is_undone_goes_back_as_it_came(book: tuple[int, int]) -> None:
    renter, lender = book
    entries = [(held(renter), -5), (earned(lender), 5)]
    assert isinstance(post(key="paid", kind="settle", entries=entries, at=NOON), Posted)
    assert isinstance(reverse(key="undone", original_key="paid", at=NOON), Posted)
    assert verify().is_clean
    for key, amount in (("more", 6), ("less", 4)):  # not what came
        entries = [(earned(lender), -amount), (held(renter), amount)]
        answer = post(key=key, kind="reverse", entries=entries, at=NOON, corrects=number_of("paid"))
        assert isinstance(answer, Posted)
        assert culprits_by_check()["movement"] >= {f"transaction {number_of(key)} ({key})"}


def test_names_zero_entries(book: tuple[int, int]) -> None:
    overrule("ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_not_zero")
    tamper("UPDATE ledger_entry SET amount = 0 WHERE transaction_id = %s", [number_of("slot:1")])
    assert culprits_by_check()["zero"] == {f"transaction {number_of('slot:1')} (slot:1)"}


def test_names_key_used_twice(book: tuple[int, int]) -> None:
    overrule("ALTER TABLE ledger_transaction DROP CONSTRAINT ledger_transaction_key_once")
    tamper("UPDATE ledger_transaction SET key = 'slot:0' WHERE key = 'slot:1'")
    answer = culprits_by_check()
    assert answer["key"] == {
        f"transactions {sorted(Transaction.objects.filter(key='slot:0').values_list('pk', flat=True))}"
    }
    assert answer["rule"] == {"ledger_transaction_key_once"}


@pytest.mark.parametrize("table", ["ledger_balance", "ledger_daytotal"])
def test_names_account_whose_cached_figure_was_changed(book: tuple[int, int], table: str) -> None:
    _, owner = book
    tamper(f"UPDATE {table} SET amount = amount + 7 WHERE account_id = %s", [earned(owner).id])
    answer = culprits_by_check()
    assert {culprit.partition(" on ")[0] for culprits in answer.values() for culprit in culprits} - {"the book"} == {
        f"account {earned(owner).id} (earned of tenant {owner})"
    }


def test_names_account_below_zero(book: tuple[int, int]) -> None:
    overrule("ALTER TABLE ledger_balance DROP CONSTRAINT ledger_balance_not_negative")
    tamper("UPDATE ledger_balance SET amount = -1 WHERE account_id = %s", [earned(book[1]).id])
    assert culprits_by_check()["below zero"] == {f"account {earned(book[1]).id} (earned of tenant {book[1]})"}


def test_names_account_given_to_another_tenant(book: tuple[int, int]) -> None:
    renter, owner = book
    overrule("ALTER TABLE ledger_account DROP CONSTRAINT ledger_account_id_names_owner")
    tamper("UPDATE ledger_account SET tenant_id = %s WHERE id = %s", [renter, earned(owner).id])
    assert culprits_by_check()["account"] == {f"account {earned(owner).id}"}


@pytest.mark.parametrize(
    ("table", "trigger"),
    [("ledger_entry", "ledger_entry_appends"), ("ledger_transaction", "ledger_transaction_balances")],
)
def test_names_rule_that_was_switched_off(table: str, trigger: str) -> None:
    overrule(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
    assert culprits_by_check() == {"rule": {trigger}}


def test_names_function_that_was_replaced() -> None:
    """A digest that always agrees would let everything pass."""
    ((source,),) = run("SELECT pg_get_functiondef('ledger_line'::regproc)")
    overrule(source.replace("account_id::text", "'1'"))
    assert culprits_by_check()["rule"] == {"ledger_line"}


def test_names_function_that_is_missing() -> None:
    overrule("ALTER FUNCTION ledger_open_accounts RENAME TO elsewhere")
    assert culprits_by_check() == {"rule": {"ledger_open_accounts"}}


def remove(key: str) -> int:
    """A transaction without a trace in entries and cached figures."""
    number = number_of(key)
    tamper("DELETE FROM ledger_entry WHERE transaction_id = %s", [number])
    tamper("DELETE FROM ledger_transaction WHERE id = %s", [number])
    follow_in_caches()
    return number


def test_names_sealed_transaction_that_was_removed(book: tuple[int, int]) -> None:
    seal(at=NOON)
    number = remove("slot:1")
    assert {finding.detail for finding in verify().findings if finding.culprit == f"transaction {number}"} == {
        "was removed after seal 1 closed over it"
    }


def test_removal_of_an_unsealed_transaction_leaves_no_trace(book: tuple[int, int]) -> None:
    """What seals are for, and why they are made often: this is what cannot be seen without one."""
    remove("slot:1")
    assert culprits_by_check() == {}


def test_names_sealed_transaction_that_was_changed_with_its_digest(book: tuple[int, int]) -> None:
    seal(at=NOON)
    tamper(
        "UPDATE ledger_entry SET amount = amount + CASE line WHEN 1 THEN -5 ELSE 5 END"
        " WHERE transaction_id = %s AND line > 0",
        [number_of("slot:1")],
    )
    follow_in_caches()
    redigest("slot:1")
    assert culprits_by_check() == {"seal": {f"transaction {number_of('slot:1')}"}}


def test_names_seal_that_was_changed_or_removed(book: tuple[int, int]) -> None:
    for number in range(3):
        grant(book[0], 5, key=f"more:{number}")
        commit_checks()
        seal(at=NOON)
    tamper("UPDATE ledger_seal SET sealed_at = sealed_at + interval '1 second' WHERE number = 1")
    assert culprits_by_check() == {"seal": {"seal 1"}}
    tamper("DELETE FROM ledger_seal WHERE number = 1")
    assert "seal 2" in culprits_by_check()["seal"]


def three_seals(renter: int) -> str:
    """And what each entry of the history said that was written meanwhile; the head of the last seal."""
    for number in range(3):
        grant(renter, 5, key=f"more:{number}")
        commit_checks()
        seal(at=NOON)
    return head()


@pytest.mark.parametrize(("last", "culprit"), [(2, 3), (1, 2), (0, 1)], ids=["the last", "the last two", "all"])
def test_names_seals_that_were_removed_from_the_end(book: tuple[int, int], last: int, culprit: int) -> None:
    three_seals(book[0])
    tamper("DELETE FROM ledger_seal WHERE number > %s", [last])
    assert culprits_by_check() == {"seal": {f"seal {culprit}"}}
    assert "the seals went on to number 3" in verify().findings[0].detail


@pytest.mark.parametrize("last", [0, 1])
def test_names_seals_that_were_removed_with_their_end_put_back(book: tuple[int, int], last: int) -> None:
    """The history has noted one of them."""
    three_seals(book[0])
    with transaction.atomic():
        history.append(at=NOON, by=access_of_system("a test"), action="server_drain", subject="s01")
    tamper("DELETE FROM ledger_seal WHERE number > %s", [last])
    tamper("DELETE FROM ledger_sealhead")
    tamper("INSERT INTO ledger_sealhead SELECT 1, number, digest FROM ledger_seal ORDER BY number DESC LIMIT 1")
    assert culprits_by_check()["seal"] == {"seal 3"}
    assert "entry 1 of the history noted it" in str(verify().findings)
    seal(at=NOON)
    assert "seal 3" in culprits_by_check()["seal"], "nor do other seals in their place help"


def test_names_the_end_of_the_seals_when_it_was_changed_or_removed(book: tuple[int, int]) -> None:
    three_seals(book[0])
    for change in ("UPDATE ledger_sealhead SET digest = ''", "UPDATE ledger_sealhead SET number = 2"):
        with transaction.atomic():
            tamper(change)
            assert culprits_by_check() == {"seal": {"the end of the seals"}}
            transaction.set_rollback(True)
    tamper("DELETE FROM ledger_sealhead")
    assert culprits_by_check() == {"seal": {"the end of the seals"}}


def test_names_what_a_seal_says_of_other_chains_when_it_was_changed(book: tuple[int, int]) -> None:
    seal(at=NOON, heads={"history": ChainHead(7, "ab" * 32)})
    assert culprits_by_check() == {}
    for change in ("heads = NULL", """heads = '{"history": [6, "ab"]}'"""):
        with transaction.atomic():
            tamper(f"UPDATE ledger_seal SET {change}")
            assert culprits_by_check() == {"seal": {"seal 1"}}
            transaction.set_rollback(True)


def test_seal_without_transactions_says_that_other_chains_moved(book: tuple[int, int]) -> None:
    first = seal(at=NOON, heads={"history": ChainHead(7, "ab" * 32)})
    assert isinstance(first, Sealed)
    assert (first.blocks, first.transactions) == (1, 5)
    assert seal(at=NOON, heads={"history": ChainHead(7, "ab" * 32)}) == Sealed(0, 0, first.head), "nothing has moved"
    second = seal(at=NOON, heads={"history": ChainHead(8, "cd" * 32)})
    assert isinstance(second, Sealed)
    assert (second.blocks, second.transactions) == (1, 0)
    grant(book[0], 5, key="more")
    commit_checks()
    assert isinstance(seal(at=NOON), Sealed)
    assert culprits_by_check() == {}
    assert [(one.seal, one.head.height) for one in noted_heads("history")] == [(1, 7), (2, 8)]
    assert noted_heads("pool:1") == []


@pytest.mark.parametrize("change", ["guarded = false", "stripe = 1, guarded = false"])
def test_names_a_tenants_balance_that_lost_its_guard(book: tuple[int, int], change: str) -> None:
    tamper(f"UPDATE ledger_balance SET {change} WHERE account_id = %s", [earned(book[1]).id])
    assert culprits_by_check()["guard"] == {f"account {earned(book[1]).id} (earned of tenant {book[1]})"}


def test_names_balance_rows_that_were_removed_or_guarded_without_need(book: tuple[int, int]) -> None:
    tamper("DELETE FROM ledger_balance WHERE account_id = %s AND stripe = 9", [OPERATOR.id])
    tamper("UPDATE ledger_balance SET guarded = true, amount = 0 WHERE account_id = %s AND stripe = 0", [OUTSIDE.id])
    assert culprits_by_check()["guard"] == {"account 1 (operator)", "account 2 (outside)"}


def test_rewritten_chain_is_seen_by_who_noted_an_earlier_head(book: tuple[int, int]) -> None:
    seal(at=NOON)
    noted = head()
    remove("slot:1")
    tamper("DELETE FROM ledger_seal")
    tamper("DELETE FROM ledger_sealhead")
    seal(at=NOON)
    assert culprits_by_check() == {}, "consistent in itself, for nothing else was written since the first seal"
    assert culprits_by_check(verify(known_heads=[noted])) == {"seal": {f"head {noted}"}}


def test_seals_are_cut_into_blocks_and_start_where_the_last_ended(
    book: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.ledger.seals.BLOCK", 2)
    answer = seal(at=NOON)
    assert isinstance(answer, Sealed)
    assert (answer.blocks, answer.transactions) == (3, 5)
    assert seal(at=NOON) == Sealed(0, 0, answer.head)
    assert culprits_by_check() == {}


def test_command_says_the_book_is_in_order(book: tuple[int, int]) -> None:
    out, err = io.StringIO(), io.StringIO()
    call_command("seal_ledger", stdout=out)
    call_command("verify_ledger", "--head", head(), stdout=out, stderr=err)
    assert out.getvalue().splitlines() == [
        f"5 transactions in 1 blocks, head {head()}",
        f"the book is in order: 5 transactions, 12 entries, 5 sealed, head {head()}",
    ]
    assert err.getvalue() == ""


def test_command_exits_1_and_names_the_culprit(book: tuple[int, int]) -> None:
    tamper("UPDATE ledger_entry SET amount = 95 WHERE transaction_id = %s AND line = 1", [number_of("slot:1")])
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as stop:
        call_command("verify_ledger", stdout=out, stderr=err)
    assert stop.value.code == 1
    assert f"transaction {number_of('slot:1')} (slot:1)" in err.getvalue()
    assert f"{number_of('slot:1')}.1" in err.getvalue()


def test_command_refuses_what_is_no_head() -> None:
    with pytest.raises(CommandError, match="64 hexadecimal"):
        call_command("verify_ledger", "--head", "abc")
