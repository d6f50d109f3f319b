"""The cost of storing one more interval, and of each waiting job in it that did not change.

The first interval is stored whole; then one job in a hundred is new, and the next interval is stored as its differences
from the first. The cost of a job that still waits unchanged is measured by leaving out all such jobs: it is the
difference in what would be stored, divided among them. Beside it is the same with the next interval stored whole, as
all were before.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from django.db import connection

from scheduling.core.plain import array_from, plain_array
from scheduling.core.records import to_bytes
from scheduling.market.decide.chain import interval_new
from scheduling.market.decide.interval import interval_run
from scheduling.market.reads import Contents, contents_of
from scheduling.models import AlonePlan, Interval, Pool
from tenants.scoping import scope_disabled
from tests.bench import bench_interval
from tests.bench.bench_interval import WINDOW
from tests.bench.owned import analyze

SIZES = (1_000, 10_000)  # waiting jobs
PLANS = os.environ.get("BENCH_PLANS", "keep,renew").split(",")
MOST_BYTES = 200  # a waiting job that did not change


def measure(size: int) -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        for plan in PLANS:
            yield from _further_interval(size, AlonePlan(plan))


def _further_interval(size: int, plan: AlonePlan) -> Iterator[dict[str, Any]]:
    pool = bench_interval.market(plan, tenants=size // 200, servers=size // 20)
    bench_interval.jobs_submit(pool, size, arrivals=(0.0, float(WINDOW)))
    analyze()
    first, small = _decided(pool, range(WINDOW + 1)), _table_size()
    bench_interval.jobs_submit(pool, size // 100, arrivals=(float(WINDOW), 2.0 * WINDOW))
    next_, large = _decided(pool, range(WINDOW + 1, 2 * WINDOW + 1)), _table_size()
    assert next_.base == first
    contents, before = contents_of(next_), contents_of(first)
    without, unchanged = _without_unchanged(contents, before)
    whole, whole_without = _size(_packed(next_, contents, None)), _size(_packed(next_, without, None))
    by_delta, by_delta_without = _size(_packed(next_, contents, first)), _size(_packed(next_, without, first))
    counts = {"waiting": next_.jobs_waiting, "unchanged": unchanged, "awarded": next_.jobs_awarded}
    about = f"; plans: {plan}"
    each = (by_delta - by_delta_without) / unchanged
    as_whole = {"stored_whole": round((whole - whole_without) / unchanged, 1)}
    name = "a further interval for a waiting job that did not change"
    yield _figure(name + about, each, "bytes", f"<= {MOST_BYTES}", **counts, **as_whole)
    columns = {"in_the_database": large - small, **_columns(next_), "stored_whole": whole}
    raw = {"not_compressed": len(contents.view) + len(contents.plan)}
    yield _figure(
        "input and answer of a further interval" + about, by_delta / 1000, "kB", "-", **counts, **columns, **raw
    )
    for what, base in (("whole", None), ("by its base", first)):
        spent = _seconds(lambda base=base: _packed(next_, contents, base))
        yield _figure(f"write an interval {what}{about}", spent, "s", "-", **counts)
    for what, row in (("whole", first), ("by its base", next_)):
        fresh = Interval.objects.filter(pk=row.pk)
        spent = _seconds(lambda fresh=fresh: contents_of(fresh.get()))
        yield _figure(f"read an interval {what}{about}", spent, "s", "-", **counts)


def _decided(pool: Pool, slots: range) -> Interval:
    """Return the interval that closes at the last of these slots."""
    for slot in slots:
        interval = interval_run(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot))
    assert isinstance(interval, Interval), interval
    return interval


def _packed(interval: Interval, contents: Contents, base: Interval | None) -> Interval:
    place = {"pool_id": interval.pool_id, "number": interval.number, "slot": interval.slot}
    return interval_new(**place, at=interval.decided_at, previous=interval.previous, contents=contents, base=base)


def _size(interval: Interval) -> int:
    return len(bytes(interval.view)) + len(bytes(interval.plan))


def _without_unchanged(contents: Contents, before: Contents) -> tuple[Contents, int]:
    """Return the contents without jobs that waited before and still wait, described as before; and their number."""
    view, plan, last = json.loads(contents.view), json.loads(contents.plan), json.loads(before.view)
    rows_before = {row["number"]: row for row in last["jobs"]}
    waited, booked = set(last["waiting"]), {row["job"] for row in plan["bookings"]}
    same = {row["number"] for row in view["jobs"] if rows_before.get(row["number"]) == row}
    unchanged = {number for number in view["waiting"] if number in same and number in waited and number not in booked}
    stay = [number not in unchanged for number in view["waiting"]]
    for document in (view, plan):
        for part in ("refusals", "floors"):
            if part in document:
                document[part] = [row for row in document[part] if row["job"] not in unchanged]
        if "worths" in document:
            document["worths"] = [row for row in document["worths"] if row[0] not in unchanged]
    view["jobs"] = [row for row in view["jobs"] if row["number"] not in unchanged]
    view["remaining"] = plain_array(array_from(view["remaining"])[stay])
    view["waiting"] = [number for number in view["waiting"] if number not in unchanged]
    return replace(contents, view=to_bytes(view), plan=to_bytes(plan)), len(unchanged)


def _table_size() -> int:
    """Return the bytes of the table of intervals, with what is stored beside its rows, and without indexes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_table_size('scheduling_interval')")
        (size,) = cursor.fetchone()
    return int(size)


def _columns(interval: Interval) -> dict[str, int]:
    """Return the bytes of each column as PostgreSQL stores it. It tries to compress again what is compressed."""
    with connection.cursor() as cursor:
        names = ("view", "plan", "windows", "policy")
        sizes = ", ".join(f"pg_column_size({name})" for name in names)
        cursor.execute(f"SELECT {sizes} FROM scheduling_interval WHERE id = %s", [interval.pk])  # noqa: S608
        return dict(zip(names, cursor.fetchone(), strict=True))


def _seconds(work: Callable[[], object]) -> float:
    """Return the least of three measurements of the work, in seconds of processor time."""
    spent = []
    for _ in range(3):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


def _figure(name: str, value: float, unit: str, target: str, **detail: object) -> dict[str, Any]:
    return {
        "name": name,
        "value": round(value, 4 if unit == "s" else 1),
        "unit": unit,
        "target": target,
        "detail": detail,
    }
