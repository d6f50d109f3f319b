# ruff: noqa: S608  (the SQL is this file's own)
"""Raw SQL against the database's own rules: what the services never do, the database refuses from anybody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import Error, connection, transaction

from tenants.ledger.audit import verify
from tenants.ledger.models import Account
from tenants.ledger.postings import OUTSIDE, available, earned, held
from tenants.ledger.seals import seal
from tenants.ledger.services import accounts_open
from tenants.scoping import scope_disabled
from tests.database import as_superuser, run
from tests.ledger.builders import NOON, all_accounts, commit_checks, make_book

pytestmark = pytest.mark.django_db

TABLES = ("ledger_account", "ledger_transaction", "ledger_entry", "ledger_balance", "ledger_daytotal", "ledger_seal")
NOON_SQL = "timestamptz '2026-03-02 12:00+00'"


@pytest.fixture
def book() -> Iterator[tuple[int, int]]:
    with scope_disabled("the test looks at the whole book"):
        numbers = make_book()
        with as_superuser():  # the serving role has no right to most of it
            yield numbers


def write(entries: list[tuple[int, int]], *, key: str = "raw", declared: int | None = None, number: int = 0) -> int:
    """A transaction by hand with the right digest, entries (account id, amount); returns its id."""
    lines = ", ".join(f"[{account}, {amount}]" for account, amount in entries)
    ((number,),) = run(
        "INSERT INTO ledger_transaction (id, key, kind, subject, occurred_at, facts, entry_count, digest)"
        f" SELECT {number or 'nextval(pg_get_serial_sequence(%s, %s))'}, k, 'raw', '', {NOON_SQL}, '{{}}', n,"
        f" ledger_digest(k, 'raw', '', {NOON_SQL}, NULL, '{{}}', %s) FROM (VALUES (%s, %s)) v (k, n) RETURNING id",
        [*([] if number else ["ledger_transaction", "id"]), lines, key, declared or len(entries)],
    )
    for line, (account, amount) in enumerate(entries):
        add_entry(number, line, account, amount)
    return number


def add_entry(number: int, line: int, account: int, amount: int, at: str = NOON_SQL) -> None:
    run(
        "INSERT INTO ledger_entry (transaction_id, line, account_id, amount, occurred_at)"
        f" VALUES (%s, %s, %s, %s, {at})",
        [number, line, account, amount],
    )


def test_accepts_balanced_transaction_written_by_hand(book: tuple[int, int]) -> None:
    write([(OUTSIDE.id, -5), (available(book[1]).id, 5)])
    commit_checks()
    assert verify().is_clean


@pytest.mark.parametrize(
    ("entries", "declared"),
    [([(1, -5), (2, 4)], 2), ([(1, -5)], 2), ([], 2), ([(1, -5), (2, 5)], 3)],
    ids=["sum is not zero", "one entry", "no entries", "fewer than declared"],
)
def test_refuses_unbalanced_transaction_at_commit(
    book: tuple[int, int], entries: list[tuple[int, int]], declared: int
) -> None:
    write(entries, declared=declared)
    with pytest.raises(Error, match="unbalanced"):
        commit_checks()


def test_refuses_digest_of_other_contents(book: tuple[int, int]) -> None:
    number = write([(1, -5), (2, 5)])
    commit_checks()
    run(
        "INSERT INTO ledger_transaction (key, kind, subject, occurred_at, facts, entry_count, digest)"
        " SELECT 'copy', kind, subject, occurred_at, facts, entry_count, digest FROM ledger_transaction WHERE id = %s",
        [number],
    )
    ((copy,),) = run("SELECT id FROM ledger_transaction WHERE key = 'copy'")
    add_entry(copy, 0, 1, -5)
    add_entry(copy, 1, 2, 5)
    with pytest.raises(Error, match="digest of other contents"):
        commit_checks()


def test_refuses_entry_that_a_finished_transaction_never_declared(book: tuple[int, int]) -> None:
    number = write([(1, -5), (2, 5)])
    commit_checks()
    with pytest.raises(Error, match="does not belong"):
        add_entry(number, 2, 1, 7)


def test_refuses_second_entry_on_one_line(book: tuple[int, int]) -> None:
    number = write([(1, -5), (2, 5)])
    with pytest.raises(Error, match="duplicate key"):
        add_entry(number, 1, 1, 7)


def test_refuses_entry_of_no_transaction(book: tuple[int, int]) -> None:
    with pytest.raises(Error, match="does not belong"):
        add_entry(10**9, 0, 1, 7)


def test_refuses_entry_at_another_time_than_its_transaction(book: tuple[int, int]) -> None:
    number = write([(1, -5)], declared=2)
    with pytest.raises(Error, match="another time"):
        add_entry(number, 1, 2, 5, at=NOON_SQL + " + interval '1 second'")


def test_refuses_entry_of_no_account(book: tuple[int, int]) -> None:
    write([(1, -5), (8 * 10**6, 5)])
    with pytest.raises(Error, match="foreign key"):
        commit_checks()


def test_refuses_zero_entry(book: tuple[int, int]) -> None:
    with pytest.raises(Error, match="ledger_entry_not_zero"):
        write([(1, 0), (2, 0)])


def test_refuses_second_transaction_with_one_key(book: tuple[int, int]) -> None:
    with pytest.raises(Error, match="ledger_transaction_key_once"):
        write([(1, -5), (2, 5)], key="hold:j1")


def test_refuses_correction_of_a_later_transaction(book: tuple[int, int]) -> None:
    with pytest.raises(Error, match="ledger_transaction_corrects_earlier"):
        run(
            "INSERT INTO ledger_transaction (key, kind, subject, occurred_at, facts, entry_count, digest, corrects_id)"
            " SELECT 'x', 'raw', '', occurred_at, '{}', 2, digest, 1000000000 FROM ledger_transaction LIMIT 1"
        )


@pytest.mark.parametrize("account", [available, held, earned])
def test_refuses_overdraft_even_by_hand(book: tuple[int, int], account) -> None:  # type: ignore[no-untyped-def]
    owner = book[1] if account is earned else book[0]
    with pytest.raises(Error, match="ledger_balance_not_negative"):
        write([(account(owner).id, -701), (1, 701)])


def test_refuses_transaction_inside_a_sealed_block(book: tuple[int, int]) -> None:
    run("SELECT setval(pg_get_serial_sequence('ledger_transaction', 'id'), max(id) + 10) FROM ledger_transaction")
    last = write([(1, -5), (2, 5)], key="last")
    commit_checks()
    seal(at=NOON)
    write([(1, -5), (2, 5)], key="late", number=last - 3)
    with pytest.raises(Error, match="inside a sealed block"):
        commit_checks()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "change", ["UPDATE {table} SET {column} = {column}", "DELETE FROM {table}", "TRUNCATE {table} CASCADE"]
)
def test_refuses_update_delete_and_truncate(book: tuple[int, int], table: str, change: str) -> None:
    ((column,),) = run("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum = 1", [table])
    with pytest.raises(Error, match="the book only appends"):
        run(change.format(table=table, column=f'"{column}"'))


@pytest.mark.parametrize("table", ["ledger_balance", "ledger_daytotal"])
def test_refuses_cached_balance_written_by_hand(book: tuple[int, int], table: str) -> None:
    with pytest.raises(Error, match="the book only appends"):
        run(f"INSERT INTO {table} SELECT * FROM {table}")


@pytest.mark.parametrize(
    "values",
    ["(9999, 'held', NULL)", "(3, 'operator', NULL)", "({tenant} * 8, 'held', {tenant})", "(1, 'outside', NULL)"],
)
def test_refuses_account_whose_number_names_another_owner(book: tuple[int, int], values: str) -> None:
    with pytest.raises(Error, match="ledger_account_"), transaction.atomic():
        run(f"INSERT INTO ledger_account (id, kind, tenant_id) VALUES {values.format(tenant=10**6)}")
    assert not connection.needs_rollback


def test_every_account_kind_of_the_code_is_opened_by_the_database(book: tuple[int, int]) -> None:
    """The numbering stands in Python and in SQL; here they meet."""
    accounts_open(tenant_ids=book)
    stored = {(row.pk, row.kind, row.tenant_id) for row in Account.objects.all()}
    assert stored == {(name.id, name.kind, name.tenant_id) for name in all_accounts(*book)}
