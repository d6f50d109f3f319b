"""A tenant's three accounts as one list: each transaction once, with its amount on each account, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenants.ledger.postings import TENANT_KINDS, AccountName, TenantBalances, available, earned, held
from tenants.ledger.selectors import _facts, rows_of
from tenants.scoping import tenant_require

PAGE = 200
LONG_PAGE = 2_000  # for those who read all of them
FREQUENT = ("hold", "settle")  # the index `ledger_transaction_other` has all other kinds


@dataclass(frozen=True)
class Position:
    """A position between two transactions: everything below it happened before."""

    at: datetime
    transaction_id: int


@dataclass(frozen=True)
class MovementFilter:
    """The transactions of [start, end) that move `account` (any of the three if None), are of one of `kinds` (all if
    empty) and are about `subject` (any if empty)."""

    start: datetime
    end: datetime
    account: str | None = None
    kinds: tuple[str, ...] = ()
    subject: str = ""

    @property
    def hides_nothing(self) -> bool:
        return not (self.account or self.kinds or self.subject)


@dataclass(frozen=True)
class Movement:
    at: datetime
    transaction_id: int
    kind: str
    subject: str
    facts: Mapping[str, Any]
    corrects: int | None
    available: int
    held: int
    earned: int

    @property
    def total(self) -> int:
        return self.available + self.held + self.earned

    @property
    def position(self) -> Position:
        return Position(self.at, self.transaction_id)


def movements(
    *, tenant_id: int, choice: MovementFilter, below: Position | None = None, limit: int = PAGE
) -> list[Movement]:
    """Return one page, newest first; the next page is `below` the last one here. It reads one index range
    per account."""
    tenant_require(tenant_id)
    names = [account(tenant_id) for account in (available, held, earned)]
    accounts = [name for name in names if choice.account in (None, name.kind)]
    sql, parameters = _choice_sql(choice, accounts, below or Position(choice.end, 0), limit)
    return _moved(sql, parameters, names, "c.occurred_at DESC, t.id DESC", limit)


def movements_by(
    *, tenant_id: int, choice: MovementFilter, column: str, down: bool, limit: int = PAGE
) -> list[Movement]:
    """Return the first movements in another order, by "at" or by the amount on one account. It reads all that are
    chosen."""
    tenant_require(tenant_id)
    names = [account(tenant_id) for account in (available, held, earned)]
    accounts = [name for name in names if choice.account in (None, name.kind)]
    sql, parameters = _choice_sql(choice, accounts, Position(choice.end, 0), None)
    way = "DESC" if down else "ASC"
    return _moved(sql, parameters, names, f"{_ORDERS[column]} {way}, t.id {way}", limit)


_ORDERS = {"at": "c.occurred_at"} | {kind: str(place) for place, kind in enumerate(TENANT_KINDS, 7)}


def _moved(sql: str, parameters: list[Any], names: Sequence[AccountName], order: str, limit: int) -> list[Movement]:
    """Run the query. `order` is what follows ORDER BY, and is made of constants."""
    ids = [name.id for name in names]
    rows = rows_of(
        f"WITH chosen AS ({sql})"  # noqa: S608  made of constants; what is asked for are parameters
        " SELECT c.occurred_at, t.id, t.kind, t.subject, t.facts, t.corrects_id,"
        "        coalesce(sum(e.amount) FILTER (WHERE e.account_id = %s), 0)::bigint,"
        "        coalesce(sum(e.amount) FILTER (WHERE e.account_id = %s), 0)::bigint,"
        "        coalesce(sum(e.amount) FILTER (WHERE e.account_id = %s), 0)::bigint"
        "   FROM chosen c JOIN ledger_transaction t ON t.id = c.transaction_id"
        "   JOIN ledger_entry e ON e.transaction_id = c.transaction_id AND e.account_id = ANY(%s)"
        f"  GROUP BY c.occurred_at, t.id ORDER BY {order} LIMIT %s",
        [*parameters, *ids, ids, limit],
    )
    return [
        Movement(at, number, kind, subject, _facts(facts), corrects, *moved)
        for at, number, kind, subject, facts, corrects, *moved in rows
    ]


def movements_all(*, tenant_id: int, choice: MovementFilter) -> Iterator[list[Movement]]:
    """Yield every chosen movement, page by page, so that memory does not grow with their number."""
    below: Position | None = None
    while rows := movements(tenant_id=tenant_id, choice=choice, below=below, limit=LONG_PAGE):
        yield rows
        if len(rows) < LONG_PAGE:
            return
        below = rows[-1].position


@dataclass(frozen=True)
class Outside:
    """What moved in a period without being rent. `paid_in` came from outside, less what went out. `off_earned` left the
    earned account, to be spent or paid out; earnings are the growth of that account plus `off_earned`."""

    paid_in: int
    off_earned: int


def balances_below(*, tenant_id: int, position: Position) -> TenantBalances:
    """Return the three balances just before this position."""
    return period_sums(tenant_id=tenant_id, positions=[position], periods=[])[0][0]


def period_sums(
    *, tenant_id: int, positions: Sequence[Position], periods: Sequence[tuple[datetime, datetime]]
) -> tuple[list[TenantBalances], list[Outside]]:
    """Return the three balances just below each position, with whole days from their totals and the rest from entries.
    And for each period [start, end) return what came from outside, less what went out: everything but rent that changes
    a tenant's total. It is one query."""
    tenant_require(tenant_id)
    ids = [AccountName(kind, tenant_id).id for kind in TENANT_KINDS]
    days = [place.at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) for place in positions]
    rows = rows_of(
        "WITH outside AS (SELECT p.n, sums.amount, sums.earned"
        "  FROM unnest(%s::timestamptz[], %s::timestamptz[]) WITH ORDINALITY AS p (low, high, n)"
        " CROSS JOIN LATERAL (SELECT coalesce(sum(e.amount), 0)::bigint AS amount,"
        "   coalesce(-sum(e.amount) FILTER (WHERE e.account_id = %s), 0)::bigint AS earned FROM ledger_transaction t"
        "  JOIN ledger_entry e ON e.transaction_id = t.id AND e.account_id = ANY(%s)"
        " WHERE NOT (t.kind IN ('hold', 'settle')) AND t.kind NOT IN ('cancel', 'refund', 'release')"
        "   AND t.occurred_at >= p.low AND t.occurred_at < p.high) AS sums)"
        " SELECT place.n, a.id,"
        "  (SELECT coalesce(sum(amount), 0) FROM ledger_daytotal WHERE account_id = a.id AND day < place.day::date)"
        "  ::bigint + (SELECT coalesce(sum(amount), 0) FROM ledger_entry WHERE account_id = a.id"
        "    AND occurred_at >= place.day AND (occurred_at, transaction_id) < (place.at, place.number))::bigint,"
        "  (SELECT array_agg(amount ORDER BY n) FROM outside), (SELECT array_agg(earned ORDER BY n) FROM outside)"
        "  FROM unnest(%s::timestamptz[], %s::timestamptz[], %s::bigint[]) WITH ORDINALITY"
        "       AS place (day, at, number, n)"
        " CROSS JOIN unnest(%s::bigint[]) AS a (id)",
        [
            [low for low, _ in periods],
            [high for _, high in periods],
            earned(tenant_id).id,
            ids,
            days,
            [p.at for p in positions],
            [p.transaction_id for p in positions],
            ids,
        ],
    )
    sums = {(number, account_id): amount for number, account_id, amount, *_ in rows}
    places = range(1, len(positions) + 1)
    balances = [TenantBalances(*(sums[place, account_id] for account_id in ids)) for place in places]
    came, off_earned = rows[0][3:]
    return balances, [Outside(*amounts) for amounts in zip(came or (), off_earned or (), strict=True)]


def _choice_sql(
    choice: MovementFilter, names: Sequence[AccountName], below: Position, limit: int | None
) -> tuple[str, list[Any]]:
    """Return SQL for (occurred_at, transaction_id), newest first, and its parameters. `limit` None means
    all of them."""
    within = [choice.start, choice.end, below.at, below.transaction_id]
    if choice.subject:
        source, values = _of_subject(choice, names, within, limit)
    elif choice.kinds and not set(choice.kinds) & set(FREQUENT):
        source, values = _of_rare_kinds(choice, names, within, limit)
    else:
        source, values = _of_accounts(choice, names, within, limit)
    return (
        f"SELECT DISTINCT occurred_at, transaction_id FROM ({source}) AS found ORDER BY 1 DESC, 2 DESC LIMIT %s",  # noqa: S608
        [*values, limit],
    )


_WITHIN = (
    "e.occurred_at >= %s AND e.occurred_at < %s AND (e.occurred_at, e.transaction_id) < (%s, %s)"
    " ORDER BY 1 DESC, 2 DESC LIMIT %s"
)


def _of_accounts(
    choice: MovementFilter, names: Sequence[AccountName], within: list[Any], limit: int | None
) -> tuple[str, list[Any]]:
    """Select the newest of each account, each from its own index range."""
    kinds, values = "", []
    if choice.kinds:
        kinds, values = (
            "(SELECT t.kind FROM ledger_transaction t WHERE t.id = e.transaction_id) = ANY(%s) AND ",
            [list(choice.kinds)],
        )
    branch = (
        "(SELECT DISTINCT e.occurred_at, e.transaction_id FROM ledger_entry e WHERE e.account_id = %s"  # noqa: S608
        f" AND {kinds}{_WITHIN})"
    )
    parameters = [value for name in names for value in (name.id, *values, *within, limit)]
    return " UNION ALL ".join([branch] * len(names)), parameters


def _of_subject(
    choice: MovementFilter, names: Sequence[AccountName], within: list[Any], limit: int | None
) -> tuple[str, list[Any]]:
    """Select the transactions about one job: they are few, and have an index of their own."""
    kinds, values = ("t.kind = ANY(%s) AND ", [list(choice.kinds)]) if choice.kinds else ("", [])
    sql = (
        "SELECT DISTINCT e.occurred_at, e.transaction_id FROM ledger_transaction t"  # noqa: S608
        " JOIN ledger_entry e ON e.transaction_id = t.id AND e.account_id = ANY(%s)"
        f" WHERE t.subject = %s AND {kinds}{_WITHIN}"
    )
    return sql, [[name.id for name in names], choice.subject, *values, *within, limit]


def _of_rare_kinds(
    choice: MovementFilter, names: Sequence[AccountName], within: list[Any], limit: int | None
) -> tuple[str, list[Any]]:
    """Select kinds that are few among very many holds and settlements, by the index that leaves those out."""
    sql = (
        "SELECT DISTINCT t.occurred_at, t.id AS transaction_id FROM ledger_transaction t"
        " JOIN ledger_entry e ON e.transaction_id = t.id AND e.account_id = ANY(%s)"
        " WHERE NOT (t.kind IN ('hold', 'settle')) AND t.kind = ANY(%s)"
        "   AND t.occurred_at >= %s AND t.occurred_at < %s AND (t.occurred_at, t.id) < (%s, %s)"
        " ORDER BY 1 DESC, 2 DESC LIMIT %s"
    )
    return sql, [[name.id for name in names], list(choice.kinds), *within, limit]
