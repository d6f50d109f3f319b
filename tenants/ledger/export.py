"""Read the whole book of a period as plain rows, as its digests were computed. Needs the scope of all tenants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tenants.ledger.selectors import rows_of
from tenants.scoping import tenant_require

CHUNK = 2_000

_ROWS = """
SELECT t.id, t.key, t.kind, t.subject, (extract(epoch FROM t.occurred_at) * 1000000)::bigint, t.corrects_id,
       t.facts::text, encode(t.digest, 'hex'),
       (SELECT jsonb_agg(jsonb_build_array(e.account_id, e.amount) ORDER BY e.line)::text
          FROM ledger_entry e WHERE e.transaction_id = t.id)
  FROM ledger_transaction t
 WHERE t.occurred_at >= %s AND t.occurred_at < %s AND t.id > %s ORDER BY t.id LIMIT %s
"""
_NAMES = ("id", "key", "kind", "subject", "at", "corrects", "facts", "digest")


def transactions_between(*, start: datetime, end: datetime) -> Iterator[dict[str, Any]]:
    """Yield the transactions about [start, end), by id. `at` is microseconds since 1970; `facts` is the text in the
    digest."""
    tenant_require(None)
    last = 0
    while rows := rows_of(_ROWS, [start, end, last, CHUNK]):
        for *values, entries in rows:
            yield {**dict(zip(_NAMES, values, strict=True)), "entries": json.loads(entries or "[]")}
        last = rows[-1][0]


def awards_between(*, start: datetime, end: datetime) -> list[int]:
    """List the awards that transactions about [start, end) name."""
    tenant_require(None)
    sql = (
        "SELECT DISTINCT (facts ->> 'award')::bigint FROM ledger_transaction"
        " WHERE occurred_at >= %s AND occurred_at < %s AND facts ? 'award'"
    )
    return [award for (award,) in rows_of(sql, [start, end])]


def balances_at(*, moment: datetime) -> dict[int, int]:
    """Return account id -> micro-credits from all transactions about a time before the moment, without accounts at
    zero."""
    tenant_require(None)
    sql = "SELECT account_id, sum(amount)::bigint FROM ledger_entry WHERE occurred_at < %s GROUP BY 1 ORDER BY 1"
    return {account: amount for account, amount in rows_of(sql, [moment]) if amount}
