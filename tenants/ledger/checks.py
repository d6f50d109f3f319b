"""The checks of an audit that compare rows with rows. Each yields its findings, and nothing when all is well."""

from __future__ import annotations

from collections.abc import Iterator

from tenants.common.guards import flaws
from tenants.ledger.findings import MOST, LedgerFinding, rows_of
from tenants.ledger.guards import GUARDS
from tenants.ledger.postings import AccountName


def transactions(after: int, upto: int) -> Iterator[LedgerFinding]:
    """Check transactions: complete, balanced, without zero entries, and equal to their digests."""
    rows = rows_of(
        """
        SELECT t.id, t.key, t.entry_count, count(e.line), coalesce(sum(e.amount), 0),
               string_agg(e.transaction_id || '.' || e.line, ' ' ORDER BY e.line) FILTER (WHERE e.amount = 0),
               string_agg(e.transaction_id || '.' || e.line, ' ' ORDER BY e.line)
          FROM ledger_transaction t LEFT JOIN ledger_entry e
            ON e.transaction_id = t.id AND e.transaction_id > %s AND e.transaction_id <= %s
         WHERE t.id > %s AND t.id <= %s
         GROUP BY t.id
        HAVING count(e.line) <> t.entry_count OR coalesce(sum(e.amount), 0) <> 0 OR bool_or(e.amount = 0)
            OR bool_or(e.occurred_at <> t.occurred_at)
            OR t.digest IS DISTINCT FROM ledger_digest(
                t.key, t.kind, t.subject, t.occurred_at, t.corrects_id, t.facts,
                string_agg(ledger_line(e.account_id, e.amount), ', ' ORDER BY e.line))
         ORDER BY t.id LIMIT %s
        """,
        after, upto, after, upto, MOST,
    )  # fmt: skip
    for number, key, declared, total_found, total, zeros, entries in rows:
        who = f"transaction {number} ({key})"
        if total_found != declared:
            yield LedgerFinding("entries", who, f"{total_found} entries instead of {declared}: {entries or 'none'}")
        if total:
            yield LedgerFinding("balance", who, f"entries {entries} sum to {total}")
        if zeros:
            yield LedgerFinding("zero", who, f"zero entries {zeros}")
        yield LedgerFinding("digest", who, f"not what was posted; entries {entries or 'none'}")


# Where money goes, by the numbers of accounts (`postings.AccountName`): from outside to what a tenant may spend; from
# the operator outside; what is available is set aside or leaves; what is set aside comes back, or pays owners and the
# operator; what was earned becomes available or leaves. So what a tenant has moves to somebody else only once it was
# set aside, and what is set aside belongs to an award.
_STRANGE = """
WITH moved AS (
    SELECT p.transaction_id, p.account_id AS payer, g.account_id AS payee
      FROM ledger_entry p JOIN ledger_entry g ON g.transaction_id = p.transaction_id AND g.amount > 0
     WHERE p.amount < 0 AND p.transaction_id > %s AND p.transaction_id <= %s
), strange AS (
    SELECT DISTINCT ON (transaction_id) transaction_id, payer, payee
      FROM moved
     WHERE NOT CASE WHEN payer = 2 THEN payee >= 8 AND payee %% 8 = 0
                    WHEN payer < 8 THEN payee = 2
                    WHEN payer %% 8 = 0 THEN payee IN (payer + 1, 2)
                    WHEN payer %% 8 = 1 THEN payee IN (payer - 1, 1) OR (payee >= 8 AND payee %% 8 = 2)
                    ELSE payee IN (payer - 2, 2) END
     ORDER BY 1, 2, 3
)
SELECT t.id, t.key, payer, payee
  FROM strange JOIN ledger_transaction t ON t.id = transaction_id
 WHERE t.corrects_id IS NULL
    OR (SELECT string_agg(ledger_line(account_id, -amount), ', ' ORDER BY line)
          FROM ledger_entry WHERE transaction_id = t.id) IS DISTINCT FROM
       (SELECT string_agg(ledger_line(account_id, amount), ', ' ORDER BY line)
          FROM ledger_entry WHERE transaction_id = t.corrects_id)
 ORDER BY 1 LIMIT %s
"""


def movements(after: int, upto: int) -> Iterator[LedgerFinding]:
    """Check that money went only where the product ever moves it, or back as it came, in a transaction that names the
    one that it undoes."""
    for number, key, payer, payee in rows_of(_STRANGE, after, upto, MOST):
        who, detail = f"transaction {number} ({key})", f"moves money from {named(payer)} to {named(payee)}"
        yield LedgerFinding("movement", who, detail)


def orphans(after: int, upto: int) -> Iterator[LedgerFinding]:
    rows = rows_of(
        "SELECT e.transaction_id, e.line FROM ledger_entry e WHERE e.transaction_id > %s AND e.transaction_id <= %s"
        " AND NOT EXISTS (SELECT FROM ledger_transaction t WHERE t.id = e.transaction_id) LIMIT %s",
        after, upto, MOST,
    )  # fmt: skip
    for transaction_id, line in rows:
        yield LedgerFinding("orphan", f"entry {transaction_id}.{line}", f"transaction {transaction_id} is gone")


def numbers() -> Iterator[LedgerFinding]:
    """Check that nothing stands before transaction 1, where no seal closes over it."""
    rows = rows_of(
        "SELECT id FROM ledger_transaction WHERE id < 1 UNION SELECT transaction_id FROM ledger_entry"
        " WHERE transaction_id < 1 ORDER BY 1 LIMIT %s",
        MOST,
    )
    for (number,) in rows:
        yield LedgerFinding("number", f"transaction {number}", "stands before the first one, which is number 1")


def keys() -> Iterator[LedgerFinding]:
    rows = rows_of(
        "SELECT key, array_agg(id ORDER BY id) FROM ledger_transaction GROUP BY key HAVING count(*) > 1 LIMIT %s", MOST
    )
    for key, numbers in rows:
        yield LedgerFinding("key", f"transactions {numbers}", f"posted under one key, {key}")


def accounts() -> Iterator[LedgerFinding]:
    rows = rows_of(
        """
        SELECT a.id, a.kind, a.tenant_id FROM ledger_account a
         WHERE (a.id < 8 AND (a.kind, a.id) NOT IN (('operator', 1), ('outside', 2)))
            OR (a.id < 8) <> (tenant_id IS NULL)
            OR (a.id >= 8 AND (tenant_id <> a.id / 8 OR a.kind IS DISTINCT FROM
                               (ARRAY['available', 'held', 'earned'])[a.id %% 8 + 1]))
         LIMIT %s
        """,
        MOST,
    )
    for number, kind, tenant_id in rows:
        yield LedgerFinding(
            "account", f"account {number}", f"says {kind} of tenant {tenant_id}; its number says otherwise"
        )
    orphans = rows_of(
        "SELECT DISTINCT account_id FROM ledger_balance b"
        " WHERE NOT EXISTS (SELECT FROM ledger_account a WHERE a.id = b.account_id) ORDER BY 1 LIMIT %s",
        MOST,
    )
    for (number,) in orphans:
        yield LedgerFinding("account", f"account {number}", "is gone; it has a balance")


def day_totals() -> Iterator[LedgerFinding]:
    rows = rows_of(
        """
        SELECT account_id, day, coalesce(e.amount, 0), coalesce(e.entries, 0), coalesce(t.amount, 0),
               coalesce(t.entries, 0)
          FROM (SELECT account_id, (occurred_at AT TIME ZONE 'UTC')::date AS day, sum(amount) AS amount,
                       count(*) AS entries
                  FROM ledger_entry GROUP BY 1, 2) e
          FULL JOIN (SELECT account_id, day, sum(amount) AS amount, sum(entry_count) AS entries
                       FROM ledger_daytotal GROUP BY 1, 2) t USING (account_id, day)
         WHERE e.amount IS DISTINCT FROM t.amount OR e.entries IS DISTINCT FROM t.entries
         ORDER BY 1, 2 LIMIT %s
        """,
        MOST,
    )
    for account_id, day, amount, entries, cached, cached_entries in rows:
        yield LedgerFinding(
            "day total",
            f"{named(account_id)} on {day}",
            f"{entries} entries sum to {amount}, cached as {cached_entries} entries and {cached}",
        )


def sheets(part: int) -> Iterator[LedgerFinding]:
    """Check every SHEET_PARTS-th day sheet, from `part` on: those that a statement would use must equal the entries."""
    rows = rows_of(
        """
        SELECT s.tenant_id, s.day FROM ledger_daysheet s
         WHERE (s.tenant_id + (s.day - date 'epoch')) %% %s = %s
           AND s.entries = (SELECT sum(entry_count) FROM ledger_daytotal t WHERE t.day = s.day AND t.account_id IN
                            (8 * s.tenant_id, 8 * s.tenant_id + 1, 8 * s.tenant_id + 2))
           AND s IS DISTINCT FROM ledger_sheet_of_day(s.tenant_id, s.day)
         ORDER BY 1, 2 LIMIT %s
        """,
        SHEET_PARTS, part, MOST,
    )  # fmt: skip
    for tenant_id, day in rows:
        yield LedgerFinding(
            "day sheet", f"sheet of tenant {tenant_id} on {day}", "does not sum up the entries of that day"
        )


def balances() -> Iterator[LedgerFinding]:
    """Check that balances equal the day totals (which equal the entries), and that no tenant's is below zero."""
    rows = rows_of(
        """
        SELECT account_id, coalesce(b.amount, 0), coalesce(t.amount, 0), coalesce(b.entries, 0), coalesce(t.entries, 0)
          FROM (SELECT account_id, sum(amount) AS amount, sum(entry_count) AS entries
                  FROM ledger_balance GROUP BY 1) b
          FULL JOIN (SELECT account_id, sum(amount) AS amount, sum(entry_count) AS entries
                       FROM ledger_daytotal GROUP BY 1) t USING (account_id)
         WHERE coalesce(b.amount, 0) <> coalesce(t.amount, 0) OR coalesce(b.entries, 0) <> coalesce(t.entries, 0)
            OR (account_id >= 8 AND b.amount < 0)
         ORDER BY 1 LIMIT %s
        """,
        MOST,
    )
    for account_id, amount, days, entries, day_entries in rows:
        if amount < 0 and account_id >= 8:
            yield LedgerFinding("below zero", named(account_id), f"balance {amount}")
        if (amount, entries) != (days, day_entries):
            yield LedgerFinding(
                "cached balance",
                named(account_id),
                f"{amount} after {entries} entries; days give {days}, {day_entries}",
            )


def sum_of_all() -> Iterator[LedgerFinding]:
    ((total,),) = rows_of("SELECT coalesce(sum(amount), 0) FROM ledger_balance")
    if total:
        yield LedgerFinding("sum of all", "the book", f"all balances sum to {total} instead of 0")


def guarded() -> Iterator[LedgerFinding]:
    """Check that every account has the balance rows with which it was opened, and that a tenant's is guarded."""
    rows = rows_of(
        """
        SELECT a.id, array_agg(b.stripe ORDER BY b.stripe) FILTER (WHERE b.stripe IS NOT NULL),
               bool_or(b.guarded IS DISTINCT FROM (a.id >= 8)) FILTER (WHERE b.stripe IS NOT NULL)
          FROM ledger_account a FULL JOIN ledger_balance b ON b.account_id = a.id
         GROUP BY 1
        HAVING array_agg(b.stripe::int ORDER BY b.stripe)
               IS DISTINCT FROM ARRAY(SELECT generate_series(0, CASE WHEN a.id >= 8 THEN 0 ELSE 15 END))
            OR bool_or(b.guarded IS DISTINCT FROM (a.id >= 8)) OR a.id IS NULL
         ORDER BY 1 LIMIT %s
        """,
        MOST,
    )
    for account_id, stripes, is_other in rows:
        who = named(account_id) if account_id is not None else "a balance of no account"
        if is_other:
            yield LedgerFinding(
                "guard", who, "its guard was changed: a tenant's balance is guarded, and the house's is not"
            )
        else:
            yield LedgerFinding(
                "guard", who, f"has balance rows {stripes or 'none'}, not those with which it was opened"
            )


def rules() -> Iterator[LedgerFinding]:
    """Check that the triggers, functions, checks and unique keys that guard the book exist, are switched on, and are
    those that we shipped: the audit itself relies on some of them."""
    for flaw in flaws(GUARDS):
        yield LedgerFinding("rule", flaw.name, flaw.what)


SHEET_PARTS = 16  # the day sheets are checked in this many steps


def named(account_id: int) -> str:
    try:
        return f"account {account_id} ({AccountName.of(account_id)})"
    except (KeyError, IndexError):
        return f"account {account_id} (nobody's)"
