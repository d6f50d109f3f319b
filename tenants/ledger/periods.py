"""A tenant's period at one reading of the book: sums by kind, by award that earned, by subject that was paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from tenants.ledger.postings import TenantBalances, available, earned, held
from tenants.ledger.sums import EarnedFrom, MovedBy
from tenants.scoping import tenant_require

PAID = ("settle", "cancel")  # kinds by which rent is paid, or stays with the owners of a cancelled one


@dataclass(frozen=True)
class PeriodRead:
    """Amounts in micro-credits. Lists are cut as asked, counts and sums never."""

    by_kind: Mapping[str, TenantBalances]
    payments_by_kind: Mapping[str, int]  # transactions that moved available or held
    earned: Sequence[EarnedFrom]  # by award and kind, in the order of the first payment
    earned_rows: int
    earned_sum: int
    paid: Sequence[MovedBy]  # by subject and kind, in the order of the last payment; those of the first subjects
    paid_rows: int  # subjects
    subjects: Mapping[str, int]  # everything that available or held moved for -> what was paid for it


def period_read(*, tenant_id: int, start: datetime, end: datetime, most: int) -> PeriodRead:
    """Of [start, end); `most`: how many awards and how many subjects are listed.

    Cost: in proportion to the period's transactions, each looked up once. Their ids go as one array, which the index
    of ids answers in one walk; joined row by row, every one of them would be a search of its own.
    """
    tenant_require(tenant_id)
    accounts = {"available": available(tenant_id).id, "held": held(tenant_id).id, "earned": earned(tenant_id).id}
    asked: dict[str, Any] = {**accounts, "start": start, "end": end, "paid": list(PAID), "most": most}
    with connection.cursor() as cursor:
        cursor.execute(_READ, asked)
        found = [json.loads(part) if isinstance(part, str) else part for part in cursor.fetchone()]
    kinds, earned_rows, earned_sum, awards, subjects, paid_rows, paid = found
    return PeriodRead(
        by_kind={kind: TenantBalances(*moved) for kind, _, *moved in kinds},
        payments_by_kind={kind: payments for kind, payments, *_ in kinds},
        earned=[EarnedFrom(*(*row, datetime.fromisoformat(at))) for *row, at in awards],
        earned_rows=earned_rows,
        earned_sum=earned_sum,
        paid=[MovedBy(*(*row, datetime.fromisoformat(at))) for *row, at in paid],
        paid_rows=paid_rows,
        subjects=dict(subjects),
    )


# `moved`: one row for each transaction. `known`: what those transactions are. The rest are sums of the two together.
_READ = """
WITH moved AS MATERIALIZED (
    SELECT transaction_id AS id, min(occurred_at) AS at, bool_or(account_id <> %(earned)s) AS own,
           coalesce(sum(amount) FILTER (WHERE account_id = %(available)s), 0)::bigint AS available,
           coalesce(sum(amount) FILTER (WHERE account_id = %(held)s), 0)::bigint AS held,
           sum(amount) FILTER (WHERE account_id = %(earned)s)::bigint AS earned
      FROM ledger_entry
     WHERE account_id = ANY (ARRAY[%(available)s, %(held)s, %(earned)s]::bigint[])
       AND occurred_at >= %(start)s AND occurred_at < %(end)s
     GROUP BY 1
), known AS MATERIALIZED (
    SELECT id, kind, subject, (facts ->> 'award')::bigint AS award, (facts ->> 'slot')::bigint AS slot
      FROM ledger_transaction WHERE id = ANY (ARRAY(SELECT id FROM moved))
), kinds AS (
    SELECT kind, count(*) FILTER (WHERE own) AS payments, sum(available) AS available, sum(held) AS held,
           coalesce(sum(earned), 0) AS earned
      FROM moved JOIN known USING (id) GROUP BY kind
), income AS MATERIALIZED (
    SELECT award, kind, count(*) AS payments, min(slot) AS first, max(slot) AS last, sum(earned) AS amount,
           min(at) AS at
      FROM moved JOIN known USING (id) WHERE earned IS NOT NULL AND kind = ANY (%(paid)s) GROUP BY award, kind
), outlay AS MATERIALIZED (
    SELECT subject, kind, count(*) AS payments, sum(available) AS available, sum(held) AS held, max(at) AS at,
           kind = ANY (%(paid)s) AND sum(available + held) <> 0 AS paid
      FROM moved JOIN known USING (id) WHERE own GROUP BY subject, kind
), subjects AS MATERIALIZED (
    SELECT subject, coalesce(-sum(available + held) FILTER (WHERE paid), 0) AS amount, bool_or(paid) AS paid,
           max(at) FILTER (WHERE paid) AS at
      FROM outlay GROUP BY subject
), first AS (SELECT subject FROM subjects WHERE paid ORDER BY at, subject LIMIT %(most)s)
SELECT (SELECT coalesce(json_agg(json_build_array(kind, payments, available, held, earned) ORDER BY kind), '[]')
          FROM kinds),
       (SELECT count(*) FROM income), (SELECT coalesce(sum(amount), 0)::bigint FROM income),
       (SELECT coalesce(json_agg(json_build_array(award, kind, payments, first, last, amount, at)
                                 ORDER BY at, award, kind), '[]')
          FROM (SELECT * FROM income ORDER BY at, award, kind LIMIT %(most)s) AS i),
       (SELECT coalesce(json_agg(json_build_array(subject, amount)), '[]') FROM subjects),
       (SELECT count(*) FROM subjects WHERE paid),
       (SELECT coalesce(json_agg(json_build_array(subject, kind, payments, available, held, at)
                                 ORDER BY at, subject, kind), '[]')
          FROM outlay JOIN first USING (subject) WHERE paid)
"""
