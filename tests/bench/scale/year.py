"""What a year adds to the database: 550 servers, slots of a quarter of an hour, 2,000 jobs a day; measured over days.

The market decides and settles every slot, and what beat does beside it is done, too: fairness, use, seals, sheets of
days. What each quarter of a day added is reported, to show whether growth is the same every day, because only then can
a year be computed from days. The log of the database (WAL) and what retention removes are not counted. A tenth has a
tenth of the servers and of the jobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db import connection

from scheduling.app.clock import pool_advance
from scheduling.audit.feed_seals import feed_seal
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.market.settle.use import use_in_turn
from scheduling.models import AlonePlan, Award, Interval, Pool, TrainingJob
from tenants.ledger.seals import seal
from tenants.ledger.sheets import days_close
from tenants.scoping import scope_disabled
from tests.bench import bench_interval
from tests.bench.owned import overwrite

SIZES = (55, 550)  # servers
DAYS = float(os.environ.get("BENCH_DAYS", "2"))
SLOT_SECONDS, SLOTS_A_DAY, QUARTER, WINDOW = 900, 96, 24, 8
JOBS_A_DAY_AND_SERVER = 2_000 / 550
LARGEST = 8  # tables that are named
GB, YEAR, MOST_GB = 10**9, 365, 60


def measure(size: int) -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark lives through days of a whole market"):
        pool = bench_interval.market(AlonePlan.KEEP, tenants=max(size // 11, 5), servers=size)
        pool.slot_seconds, pool.clock_first, pool.clock_cap = SLOT_SECONDS, WINDOW, WINDOW
        overwrite(pool)
        sizes = [_tables()]
        for quarter in range(round(DAYS * SLOTS_A_DAY / QUARTER)):
            _quarter(pool, quarter * QUARTER, round(size * JOBS_A_DAY_AND_SERVER * QUARTER / SLOTS_A_DAY))
            sizes.append(_tables())
        added = [sum(late.values()) - sum(early.values()) for early, late in pairwise(sizes)]
        parts = {table: sizes[-1][table] - sizes[len(sizes) // 2][table] for table in sizes[-1]}
        half = len(added) - len(added) // 2  # quarters of the later half
        year = sum(added[-half:]) / half * SLOTS_A_DAY / QUARTER * YEAR
        largest = sorted(parts, key=lambda table: -parts[table])[:LARGEST]
        detail = {
            "days": DAYS,
            "mb_in_each_quarter_of_a_day": [round(each / 10**6, 1) for each in added],
            "mb_of_the_later_half_by_table": {table: round(parts[table] / 10**6, 1) for table in largest},
            "jobs": TrainingJob.objects.count(),
            "awards": Award.objects.count(),
            "intervals": Interval.objects.count(),
        }
    target = f"<= {MOST_GB}" if size == SIZES[-1] else None
    yield {"name": "database of a year", "value": round(year / GB, 2), "unit": "GB", "target": target, "detail": detail}


def _quarter(pool: Pool, first: int, jobs: int) -> None:
    """Live through six hours: jobs come, and each boundary is done, and then what beat does beside the market."""
    bench_interval.jobs_submit(pool, jobs, arrivals=(float(first), float(first + QUARTER)))
    for slot in range(first, first + QUARTER):
        pool_advance(pool_id=pool.pk, at=pool.slot_start(slot))
        _beside(pool.slot_start(slot))


def _beside(at: datetime) -> None:
    fairness_catch_up()
    use_in_turn(at=at)
    feed_seal(at=at)
    seal(at=at)
    days_close(at=at)


def _tables() -> dict[str, int]:
    """Return the bytes of each table, with its indexes and what is stored beside its rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relname !~ '^pg_'"
        )
        return {table: size for table, size in cursor.fetchall() if not table.startswith("sql_")}
