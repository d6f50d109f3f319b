"""Read a tenant's period: balances, sums by kind, by award that earned, and by subject that was paid for. It is one
statement of SQL, so that all figures are of one moment of the book and add up, whatever is posted meanwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from tenants.ledger.postings import TENANT_KINDS, AccountName, TenantBalances
from tenants.ledger.sums import EarnedFrom, MovedBy
from tenants.scoping import tenant_require

DAY = timedelta(days=1)


@dataclass(frozen=True)
class PeriodRead:
    """What a period's read returns, in micro-credits. Lists may be cut, counts and sums never."""

    opening: TenantBalances
    closing: TenantBalances
    by_kind: Mapping[str, TenantBalances]
    payments_by_kind: Mapping[str, int]  # transactions that moved available or held
    earned: Sequence[EarnedFrom]  # by award and kind, in the order of the first payment
    earned_rows: int
    earned_sum: int
    paid: Sequence[MovedBy]  # by subject and kind, in the order of the last payment; of the listed subjects only
    paid_rows: int  # subjects
    subjects: Mapping[str, int]  # each subject for which available or held moved -> what was paid for it


def period_read(*, tenant_id: int, start: datetime, end: datetime, most: int | None = None) -> PeriodRead:
    """Read [start, end). `most` is how many awards and how many subjects are listed, None for all.

    The cost is in proportion to the awards and subjects of each day that has a sheet, and to the transactions of the
    rest.
    """
    tenant_require(tenant_id)
    parameters: dict[str, Any] = {"tenant": tenant_id, "start": start, "end": end, "most": most}
    parameters["accounts"] = [AccountName(kind, tenant_id).id for kind in TENANT_KINDS]
    with connection.cursor() as cursor:
        cursor.execute(_READ, parameters | _split(start, end))
        parts = [json.loads(part) if isinstance(part, str) else part for part in cursor.fetchone()]
    opening, closing, kinds, earned_rows, earned_sum, awards, subjects, others, paid_rows, paid = parts
    paid_for = dict(zip(_words(subjects[0]), map(int, _words(subjects[1])), strict=True))
    return PeriodRead(
        opening=TenantBalances(*opening),
        closing=TenantBalances(*closing),
        by_kind={kind: TenantBalances(*moved) for kind, _, *moved in kinds},
        payments_by_kind={kind: payments for kind, payments, *_ in kinds if payments},
        earned=[EarnedFrom(*(*row, datetime.fromisoformat(at))) for *row, at in awards],
        earned_rows=earned_rows,
        earned_sum=earned_sum,
        paid=[MovedBy(*(*row, datetime.fromisoformat(at))) for *row, at in paid],
        paid_rows=paid_rows,
        subjects=dict.fromkeys(_words(others[0]), 0) | paid_for,
    )


def _words(text: str | None) -> list[str]:
    """Split at blanks, which no name in the book has. None means no names; an empty text means one empty name."""
    return [] if text is None else text.split(" ")


def _split(start: datetime, end: datetime) -> dict[str, Any]:
    """Return the whole days of UTC inside [start, end), and the times before and after them."""
    first, last = _midnight(start), _midnight(end)
    low = first if first == start else first + DAY
    edges = [(start, end)] if low > last else [(start, low), (last, end)]
    edges = [(begin, until) for begin, until in edges if begin < until]
    lows, highs = [begin for begin, _ in edges], [until for _, until in edges]
    return {"first": first, "low": low.date(), "last": last, "lows": lows, "highs": highs}


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


# `kept` are sheets whose sums count as many entries as their day has. `made` are those of all other days and the edges,
# from the book. Everything else is sums of the two together.
_READ = """
WITH total AS (
    SELECT day, sum(entry_count) AS entries FROM ledger_daytotal
     WHERE account_id = ANY (%(accounts)s) AND day >= %(low)s AND day < (%(last)s AT TIME ZONE 'UTC')::date GROUP BY day
), kept AS (
    SELECT s.* FROM total t JOIN ledger_daysheet s USING (day, entries) WHERE s.tenant_id = %(tenant)s
), made AS (
    SELECT s.* FROM (
        SELECT day::timestamp AT TIME ZONE 'UTC' AS low, (day + 1)::timestamp AT TIME ZONE 'UTC' AS high
          FROM total WHERE day NOT IN (SELECT day FROM kept)
         UNION ALL SELECT * FROM unnest(%(lows)s::timestamptz[], %(highs)s::timestamptz[])
    ) AS rest CROSS JOIN LATERAL ledger_sheet(%(tenant)s, low, high) AS s
), sheet AS MATERIALIZED (SELECT * FROM kept UNION ALL SELECT * FROM made
), income AS MATERIALIZED (
    SELECT award, kind, sum(payments)::bigint AS payments, min(first) AS first, max(last) AS last,
           sum(amount)::bigint AS amount, min(at) AS at
      FROM sheet CROSS JOIN LATERAL unnest(
           earned_awards, earned_kinds, earned_payments, earned_first_slots, earned_last_slots, earned_amounts,
           earned_first_at) AS e (award, kind, payments, first, last, amount, at) GROUP BY award, kind
), outlay AS MATERIALIZED (
    SELECT subject, kind, sum(payments)::bigint AS payments, sum(available)::bigint AS available,
           sum(held)::bigint AS held, max(at) AS at, sum(available + held) <> 0 AS paid
      FROM sheet CROSS JOIN LATERAL unnest(
           paid_subjects, paid_kinds, paid_payments, paid_available, paid_held, paid_last_at)
           AS p (subject, kind, payments, available, held, at) GROUP BY subject, kind
), kinds AS (
    SELECT kind, sum(payments) AS payments, sum(available) AS available, sum(held) AS held, sum(earned) AS earned
      FROM sheet CROSS JOIN LATERAL unnest(kind_names, kind_payments, kind_available, kind_held, kind_earned)
           AS k (kind, payments, available, held, earned) GROUP BY kind
), subjects AS MATERIALIZED (
    SELECT subject, coalesce(-sum(available + held) FILTER (WHERE paid), 0) AS amount, bool_or(paid) AS paid,
           max(at) FILTER (WHERE paid) AS at
      FROM outlay GROUP BY subject
), others AS (SELECT DISTINCT unnest(other_subjects) AS subject FROM sheet
), first AS (SELECT subject FROM subjects WHERE paid ORDER BY at, subject LIMIT %(most)s
), balance AS (
    SELECT place, json_agg(
           (SELECT coalesce(sum(amount), 0)::bigint FROM ledger_daytotal
             WHERE account_id = account AND day < (midnight AT TIME ZONE 'UTC')::date)
         + (SELECT coalesce(sum(amount), 0)::bigint FROM ledger_entry
             WHERE account_id = account AND occurred_at >= midnight AND occurred_at < moment)
           ORDER BY account) AS amounts
      FROM (VALUES ('opening', %(first)s, %(start)s), ('closing', %(last)s, %(end)s)) AS b (place, midnight, moment)
     CROSS JOIN unnest(%(accounts)s::bigint[]) AS account GROUP BY place
)
SELECT (SELECT amounts FROM balance WHERE place = 'opening'), (SELECT amounts FROM balance WHERE place = 'closing'),
       (SELECT coalesce(json_agg(json_build_array(kind, payments, available, held, earned) ORDER BY kind), '[]')
          FROM kinds),
       (SELECT count(*) FROM income), (SELECT coalesce(sum(amount), 0)::bigint FROM income),
       (SELECT coalesce(json_agg(json_build_array(award, kind, payments, first, last, amount, at)
                                 ORDER BY at, award, kind), '[]')
          FROM (SELECT * FROM income ORDER BY at, award, kind LIMIT %(most)s) AS i),
       (SELECT json_build_array(string_agg(subject, ' '), string_agg(amount::text, ' ')) FROM subjects),
       (SELECT json_build_array(string_agg(subject, ' ')) FROM others), (SELECT count(*) FROM subjects WHERE paid),
       (SELECT coalesce(json_agg(json_build_array(subject, kind, payments, available, held, at)
                                 ORDER BY at, subject, kind), '[]')
          FROM outlay JOIN first USING (subject) WHERE paid)
"""
