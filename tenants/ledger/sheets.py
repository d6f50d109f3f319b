"""Day sheets: what a tenant's past days moved, stored so that a statement need not read their entries again.

Call `days_close` from the clock. Nothing waits for it: a day without a sheet is read from the book.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

from django.db import connection

from tenants.scoping import tenant_require


def days_close(*, at: datetime, since: date | None = None, most: int = 500) -> int:
    """Make the sheets that are missing or lack entries, of days before `at` and not before `since`, the newest days
    first. Return how many were made; if fewer than `most`, no more are missing. Each costs its day's transactions."""
    tenant_require(None)
    today = at.astimezone(UTC).date()
    with connection.cursor() as cursor:
        cursor.execute(_LACKING, {"today": today, "since": since, "most": most})
        lacking = cursor.fetchall()
        if lacking:
            parameters = {"tenants": [tenant_id for tenant_id, _ in lacking], "days": [day for _, day in lacking]}
            cursor.execute(_FORGET, parameters)
            cursor.execute(_MAKE, parameters)
    return len(lacking)


_LACKING = """
SELECT tenant_id, day
  FROM (SELECT account_id / 8 AS tenant_id, day, sum(entry_count) AS entries
          FROM ledger_daytotal
         WHERE account_id >= 8 AND day < %(today)s AND day >= coalesce(%(since)s, '-infinity'::date)
         GROUP BY 1, 2) AS total
  LEFT JOIN ledger_daysheet s USING (tenant_id, day)
 WHERE s.entries IS DISTINCT FROM total.entries ORDER BY day DESC, tenant_id LIMIT %(most)s
"""
_FORGET = """
DELETE FROM ledger_daysheet s USING unnest(%(tenants)s::bigint[], %(days)s::date[]) AS lacking (tenant_id, day)
 WHERE s.tenant_id = lacking.tenant_id AND s.day = lacking.day
"""
# The trigger fills in the rest. If two processes make the same sheet at once, both make it from the same book.
_MAKE = """
INSERT INTO ledger_daysheet (tenant_id, day) SELECT * FROM unnest(%(tenants)s::bigint[], %(days)s::date[])
    ON CONFLICT DO NOTHING
"""
