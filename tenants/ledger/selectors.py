"""Reads of the book. Amounts are micro-credits; a tenant's account needs that tenant's scope, the house's needs all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from tenants.ledger.models import Entry, Transaction
from tenants.ledger.postings import AccountName, TenantBalances, available, earned, held
from tenants.scoping import scope_current, tenant_require

PAGE = 500


@dataclass(frozen=True)
class StatementCursor:
    """The end of a page of a statement, and the balance there."""

    at: datetime
    transaction_id: int
    line: int
    balance: int


@dataclass(frozen=True)
class StatementLine:
    at: datetime
    transaction_id: int
    line: int
    key: str
    kind: str
    subject: str
    facts: Mapping[str, Any]
    amount: int
    balance: int  # after this line

    @property
    def cursor(self) -> StatementCursor:
        return StatementCursor(self.at, self.transaction_id, self.line, self.balance)


@dataclass(frozen=True)
class Statement:
    """One page of an account's movements in [start, end); `opening` and `closing` are those of the whole period."""

    account: AccountName
    start: datetime
    end: datetime
    opening: int
    closing: int
    lines: tuple[StatementLine, ...]
    next: StatementCursor | None


@dataclass(frozen=True)
class TransactionView:
    """A transaction as the open scope may see it: under one tenant's scope, only with that tenant's entries."""

    id: int
    key: str
    kind: str
    subject: str
    at: datetime
    corrects: int | None
    facts: Mapping[str, Any]
    entries: tuple[tuple[AccountName, int], ...]


def balance(*, account: AccountName) -> int:
    return balances(accounts=[account])[account]


def balances(*, accounts: Iterable[AccountName]) -> dict[AccountName, int]:
    """Return the balances, in one query. An account that was never used has 0."""
    by_id = {account.id: account for account in accounts}
    for account in by_id.values():
        tenant_require(account.tenant_id)
    rows = rows_of(
        "SELECT account_id, sum(amount)::bigint FROM ledger_balance WHERE account_id = ANY(%s) GROUP BY 1",
        [list(by_id)],
    )
    return dict.fromkeys(by_id.values(), 0) | {by_id[account_id]: amount for account_id, amount in rows}


def balances_of_tenant(*, tenant_id: int) -> TenantBalances:
    names = (available(tenant_id), held(tenant_id), earned(tenant_id))
    balances_now = balances(accounts=names)
    return TenantBalances(*(balances_now[name] for name in names))


def balance_before(*, account: AccountName, moment: datetime) -> int:
    """Return the sum of all entries that happened before the moment: whole days from their totals, the rest from
    entries."""
    tenant_require(account.tenant_id)
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    ((amount,),) = rows_of(
        "SELECT (SELECT coalesce(sum(amount), 0) FROM ledger_daytotal WHERE account_id = %s AND day < %s)"
        " + (SELECT coalesce(sum(amount), 0) FROM ledger_entry"
        "     WHERE account_id = %s AND occurred_at >= %s AND occurred_at < %s)",
        [account.id, day.date(), account.id, day, moment],
    )
    return int(amount)


def statement(
    *, account: AccountName, start: datetime, end: datetime, after: StatementCursor | None = None, limit: int = PAGE
) -> Statement:
    """Return one page, in order of time; the next page starts `after` this one's `next`. It reads one index range."""
    opening = balance_before(account=account, moment=start)
    lines = _lines(account, start, end, after or _before(start, opening), limit)
    return Statement(
        account=account,
        start=start,
        end=end,
        opening=opening,
        closing=balance_before(account=account, moment=end),
        lines=lines,
        next=lines[-1].cursor if len(lines) == limit else None,
    )


def statement_lines(
    *, account: AccountName, start: datetime, end: datetime, page: int = 5_000
) -> Iterator[StatementLine]:
    """Yield every line of the period, page by page, so that memory does not grow with it (for CSV)."""
    cursor: StatementCursor | None = _before(start, balance_before(account=account, moment=start))
    while cursor is not None:
        lines = _lines(account, start, end, cursor, page)
        yield from lines
        cursor = lines[-1].cursor if len(lines) == page else None


def transaction_view(*, key: str) -> TransactionView | None:
    return next(iter(_views(Transaction.objects.filter(key=key))), None)


def transactions_about(*, subject: str) -> tuple[TransactionView, ...]:
    """Return everything posted about one job (or interval), in order."""
    return _views(Transaction.objects.filter(subject=subject).exclude(subject="").order_by("pk"))


def transactions_about_all(*, subjects: Iterable[str]) -> tuple[TransactionView, ...]:
    """Return everything posted about many jobs, in order, in two queries."""
    return _views(Transaction.objects.filter(subject__in=[name for name in subjects if name]).order_by("pk"))


def _lines(
    account: AccountName, start: datetime, end: datetime, after: StatementCursor, limit: int
) -> tuple[StatementLine, ...]:
    tenant_require(account.tenant_id)
    rows = rows_of(
        "SELECT e.occurred_at, e.transaction_id, e.line, t.key, t.kind, t.subject, t.facts, e.amount,"
        "       (sum(e.amount) OVER (ORDER BY e.occurred_at, e.transaction_id, e.line) + %s)::bigint"
        "  FROM (SELECT * FROM ledger_entry WHERE account_id = %s AND occurred_at >= %s AND occurred_at < %s"
        "           AND (occurred_at, transaction_id, line) > (%s, %s, %s)"
        "         ORDER BY occurred_at, transaction_id, line LIMIT %s) e"
        "  JOIN ledger_transaction t ON t.id = e.transaction_id"
        " ORDER BY e.occurred_at, e.transaction_id, e.line",
        [after.balance, account.id, start, end, after.at, after.transaction_id, after.line, limit],
    )
    return tuple(
        StatementLine(at, transaction_id, line, key, kind, subject, _facts(facts), amount, after_it)
        for at, transaction_id, line, key, kind, subject, facts, amount, after_it in rows
    )


def _before(start: datetime, opening: int) -> StatementCursor:
    return StatementCursor(start - timedelta(microseconds=1), 0, 0, opening)


def _facts(stored: Any) -> Mapping[str, Any]:
    """Return the facts as a mapping: outside its own fields, Django reads jsonb as text."""
    return json.loads(stored) if isinstance(stored, str) else stored


def _views(transactions: QuerySet[Transaction]) -> tuple[TransactionView, ...]:
    rows = list(transactions.values_list(*_VIEWED))
    entries: dict[int, list[tuple[AccountName, int]]] = {number: [] for number, *_ in rows}
    lines = Entry.objects.filter(transaction__in=entries).order_by("transaction_id", "line")
    for transaction_id, account_id, amount in lines.values_list("transaction_id", "account_id", "amount"):
        entries[transaction_id].append((AccountName.of(account_id), amount))  # a payment may have a line per owner
    tenant_id = scope_current().tenant_id
    if tenant_id is not None:
        entries = {
            number: [line for line in lines if line[0].tenant_id == tenant_id] for number, lines in entries.items()
        }
    return tuple(
        TransactionView(number, key, kind, subject, at, corrects, facts, tuple(entries[number]))
        for number, key, kind, subject, at, corrects, facts in rows
        if entries[number]
    )


_VIEWED = ("pk", "key", "kind", "subject", "occurred_at", "corrects_id", "facts")


def rows_of(sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query in SQL."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
