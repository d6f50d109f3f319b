"""Sums over entries for statements and for the check of an interval. Amounts are micro-credits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from tenants.ledger.postings import OUTSIDE, TENANT_KINDS, AccountName, available, earned, held
from tenants.ledger.selectors import rows_of
from tenants.scoping import tenant_require


@dataclass(frozen=True)
class EarnedFrom:
    """What one award brought the tenant in a period; `award_id` is None for anything else."""

    award_id: int | None
    kind: str
    payments: int
    first_slot: int | None
    last_slot: int | None
    amount: int
    first_at: datetime


@dataclass(frozen=True)
class MovedBy:
    """What transactions of one kind about one subject moved on available and held in a period."""

    subject: str
    kind: str
    payments: int
    available: int
    held: int
    last_at: datetime

    @property
    def spent(self) -> int:
        """Return what left the two accounts together: a hold or a refund only moves money between them."""
        return -(self.available + self.held)


@dataclass(frozen=True)
class PaidFor:
    """What was paid under one award before a period and in it, and what was returned in it for one cause."""

    award_id: int
    before: int
    within: int
    returned: int


@dataclass(frozen=True)
class Payments:
    """The payments of all tenants: how much was paid, and to whom."""

    payments: int
    paid: int
    to_tenant: int
    to_others: int
    to_operator: int

    @property
    def difference(self) -> int:
        return self.paid - self.to_tenant - self.to_others - self.to_operator


NOTHING_PAID = Payments(0, 0, 0, 0, 0)


def earned_by_award(*, tenant_id: int, start: datetime, end: datetime) -> list[EarnedFrom]:
    """Return what came in by each award, in the order of the first payment."""
    tenant_require(tenant_id)
    rows = rows_of(
        "SELECT (t.facts ->> 'award')::bigint, t.kind, count(*), min((t.facts ->> 'slot')::bigint),"
        "       max((t.facts ->> 'slot')::bigint), sum(e.amount)::bigint, min(e.occurred_at)"
        "  FROM ledger_entry e JOIN ledger_transaction t ON t.id = e.transaction_id"
        " WHERE e.account_id = %s AND e.occurred_at >= %s AND e.occurred_at < %s AND t.kind IN ('settle', 'cancel')"
        " GROUP BY 1, 2 ORDER BY 7, 1, 2",
        [earned(tenant_id).id, start, end],
    )
    return [EarnedFrom(*row) for row in rows]


def moved_by_subject(*, tenant_id: int, start: datetime, end: datetime) -> list[MovedBy]:
    """Return what each job moved, in the order of its last payment."""
    tenant_require(tenant_id)
    ids = [available(tenant_id).id, held(tenant_id).id]
    rows = rows_of(
        "SELECT t.subject, t.kind, count(DISTINCT t.id), coalesce(sum(e.amount) FILTER (WHERE e.account_id = %s), 0)"
        "       ::bigint, coalesce(sum(e.amount) FILTER (WHERE e.account_id = %s), 0)::bigint, max(e.occurred_at)"
        "  FROM ledger_entry e JOIN ledger_transaction t ON t.id = e.transaction_id"
        " WHERE e.account_id = ANY(%s) AND e.occurred_at >= %s AND e.occurred_at < %s"
        " GROUP BY 1, 2 ORDER BY 6, 1, 2",
        [*ids, ids, start, end],
    )
    return [MovedBy(*row) for row in rows]


def moved_by_month(*, tenant_id: int) -> list[tuple[date, int]]:
    """Return (first day of the month, what it added to the three accounts together), oldest first, from day totals."""
    tenant_require(tenant_id)
    ids = [AccountName(kind, tenant_id).id for kind in TENANT_KINDS]
    return [
        (first, int(amount))
        for first, amount in rows_of(
            "SELECT date_trunc('month', day)::date, sum(amount)::bigint FROM ledger_daytotal"
            " WHERE account_id = ANY(%s) GROUP BY 1 ORDER BY 1",
            [ids],
        )
    ]


def payments_under(*, prefixes: Sequence[str], tenant_id: int) -> list[Payments]:
    """Sum all transactions whose key begins with each prefix, in the order of prefixes; `tenant_id` is shown apart.

    The sums include everybody's payments, so this needs the scope of all tenants. It returns no single row.
    """
    tenant_require(None)
    # Each prefix is a range of the index of keys, and each transaction one of the entries' key. The SQL says so step by
    # step, because the planner cannot know how few keys begin alike, and would read the whole book instead.
    rows = rows_of(
        "SELECT p.n, count(*), coalesce(sum(e.paid), 0)::bigint, coalesce(sum(e.own), 0)::bigint,"
        "       coalesce(sum(e.others), 0)::bigint, coalesce(sum(e.operator), 0)::bigint"
        "  FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS p (low, high, n)"
        " CROSS JOIN LATERAL (SELECT id FROM ledger_transaction"
        '                      WHERE key >= p.low COLLATE "C" AND key < p.high COLLATE "C" OFFSET 0) t'
        " CROSS JOIN LATERAL (SELECT -sum(amount) FILTER (WHERE amount < 0) AS paid,"
        "                            sum(amount) FILTER (WHERE amount > 0 AND account_id = %s) AS own,"
        "                            sum(amount) FILTER (WHERE amount > 0 AND account_id >= 8 AND account_id <> %s)"
        "                                AS others,"
        "                            sum(amount) FILTER (WHERE amount > 0 AND account_id = 1) AS operator"
        "                       FROM ledger_entry WHERE transaction_id = t.id) e GROUP BY 1",
        [list(prefixes), [prefix + "~" for prefix in prefixes], earned(tenant_id).id, earned(tenant_id).id],
    )
    payments = {number: Payments(*sums) for number, *sums in rows}
    return [payments.get(number, NOTHING_PAID) for number in range(1, len(prefixes) + 1)]


def paid_by_award(
    *, tenant_id: int, subjects: Sequence[str], start: datetime, end: datetime, cause: str
) -> list[PaidFor]:
    """Sum by award everything about these subjects up to `end`. `cause` is the cause of the refunds that are summed."""
    tenant_require(tenant_id)
    accounts = [available(tenant_id).id, held(tenant_id).id]
    rows = rows_of(
        "SELECT award, -sum(amount) FILTER (WHERE kind <> 'refund' AND occurred_at < %s),"
        "       -sum(amount) FILTER (WHERE kind <> 'refund' AND occurred_at >= %s),"
        "       sum(amount) FILTER (WHERE kind = 'refund' AND occurred_at >= %s AND account_id = %s AND cause = %s)"
        "  FROM (SELECT (t.facts ->> 'award')::bigint AS award, t.facts ->> 'cause' AS cause, t.kind, t.occurred_at,"
        "               e.account_id, e.amount"
        "          FROM ledger_transaction t JOIN ledger_entry e ON e.transaction_id = t.id"
        "         WHERE t.subject = ANY(%s) AND t.facts ? 'award' AND t.kind IN ('settle', 'cancel', 'refund')"
        "           AND t.occurred_at < %s AND e.account_id = ANY(%s)) moved GROUP BY 1 ORDER BY 1",
        [start, start, start, accounts[0], cause, list(subjects), end, accounts],
    )
    return [PaidFor(award, *(int(amount or 0) for amount in amounts)) for award, *amounts in rows]


def earned_since(*, tenant_ids: Sequence[int], day: date) -> dict[int, int]:
    """Return tenant id -> what it earned since the beginning of this UTC day: from day totals, plus what left the
    account meanwhile, to be spent or paid out."""
    tenant_require(None)
    accounts = {tenant_id: earned(tenant_id).id for tenant_id in tenant_ids}
    rows = rows_of(
        "SELECT account, sum(amount)::bigint FROM ("
        "  SELECT account_id AS account, amount FROM ledger_daytotal WHERE account_id = ANY(%s) AND day >= %s"
        "  UNION ALL"
        "  SELECT e.account_id, -e.amount FROM ledger_transaction t"
        "    JOIN ledger_entry e ON e.transaction_id = t.id AND e.account_id = ANY(%s)"
        "   WHERE NOT (t.kind IN ('hold', 'settle')) AND t.kind NOT IN ('cancel', 'refund', 'release')"
        "     AND t.occurred_at >= %s) parts GROUP BY 1",
        [list(accounts.values()), day, list(accounts.values()), datetime.combine(day, time(), UTC)],
    )
    earned_by_account = dict(rows)
    return {tenant_id: earned_by_account.get(account, 0) for tenant_id, account in accounts.items()}


def book_difference() -> int:
    """Return the sum of all balances. What leaves one account enters another, so it is 0, or the book is broken."""
    tenant_require(None)
    return int(rows_of("SELECT coalesce(sum(amount), 0) FROM ledger_balance", [])[0][0])


def held_by_award(*, tenant_ids: Sequence[int]) -> dict[tuple[int, int | None], int]:
    """Return (tenant, award) -> what the tenant holds for it, without awards for which nothing is held. What its
    transactions hold that name no award stands under None. It reads all entries of the tenants' held accounts."""
    for tenant_id in tenant_ids:
        tenant_require(tenant_id)
    rows = rows_of(
        "SELECT entry.account_id / 8, (about.facts ->> 'award')::bigint, sum(entry.amount)::bigint"
        "  FROM ledger_entry AS entry JOIN ledger_transaction AS about ON about.id = entry.transaction_id"
        " WHERE entry.account_id = ANY(%s) GROUP BY 1, 2 HAVING sum(entry.amount) <> 0",
        [[held(tenant_id).id for tenant_id in tenant_ids]],
    )
    return {(tenant_id, award): amount for tenant_id, award, amount in rows}


def from_outside() -> dict[int, int]:
    """Return tenant -> what came from outside for it, less what went there, in micro-credits. Needs the scope of all
    tenants."""
    tenant_require(None)
    rows = rows_of(
        "SELECT mine.account_id / 8, sum(mine.amount)::bigint"
        "  FROM ledger_entry AS outside JOIN ledger_entry AS mine USING (transaction_id)"
        " WHERE outside.account_id = %s AND mine.account_id >= 8 GROUP BY 1",
        [OUTSIDE.id],
    )
    return dict(rows)
