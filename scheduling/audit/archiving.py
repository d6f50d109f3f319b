"""Archives of old intervals: whole days, oldest first, as signed bundles in a folder. Only the inputs and answers leave
the database, and only once they were read back from the file. The rows, their digests and the chain stay.

A kill at any step loses nothing. Until the last step the database has everything, and a file that was left behind is
written anew; the last step is one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from django.db import connection, transaction
from django.db.models import Count, DateField, Func, IntegerField, Max, Min, Sum
from django.db.models.functions import TruncDate

from scheduling.audit.archive_entries import archive_remember
from scheduling.audit.bundle import bundle_write, check, signing_seed
from scheduling.audit.verification.archived import archive_intervals, file_digest
from scheduling.market.decide import REACH
from scheduling.models import (
    ALIVE,
    Award,
    Interval,
    IntervalArchive,
    IntervalFairness,
    Lane,
    LaneClock,
    Pool,
    RentState,
)
from tenants.access import Access, Refused
from tenants.common.ownership import as_owner
from tenants.common.zones import day_of, midnight
from tenants.scoping import scope_disabled

NEWEST = 20  # intervals of a pool that always stay: pages and figures read the last ones
DAY = timedelta(days=1)
ARCHIVE_LOCK = 0x626F757273650008  # the id of an advisory lock of the database: "bourse", 8

Progress = Callable[[str], None]


@dataclass(frozen=True)
class ArchiveDay:
    """The intervals that were decided on one day of UTC. `obstacle` says as a clause why they cannot be archived yet;
    it is empty where nothing is in the way."""

    day: date
    first: int
    last: int
    intervals: int
    bytes: int  # the size of their inputs and answers, as they are stored
    obstacle: str = ""


class ArchiveFailed(Exception):
    """The file is not what it should be, and nothing was dropped. The message is a sentence."""


def archive_name(pool: Pool, day: date) -> str:
    return f"{pool.slug}-{day.isoformat()}.zip"


def archive_days(*, pool: Pool, before: date, at: datetime) -> list[ArchiveDay] | Refused:
    """Return what would be archived, oldest first: the whole days before `before`. The first day with an obstacle ends
    the list."""
    if before > day_of(at, UTC):
        return Refused("invalid_period", f"{before.isoformat()} is not over yet: only whole days are archived.")
    with scope_disabled("what is archived was decided for everybody"):
        days = list[ArchiveDay]()
        for each in _days(pool, before):
            days.append(each)
            if each.obstacle:
                break
        return days


def _days(pool: Pool, before: date) -> list[ArchiveDay]:
    done = IntervalArchive.objects.filter(pool=pool).aggregate(last=Max("last"))["last"] or 0
    rows = Interval.objects.filter(pool=pool, number__gt=done, decided_at__lt=midnight(before, UTC))
    size = Func("view", function="octet_length", output_field=IntegerField()) + Func(
        "plan", function="octet_length", output_field=IntegerField()
    )
    by_day = rows.order_by().values(day=TruncDate("decided_at", tzinfo=UTC, output_field=DateField()))
    sums = by_day.annotate(
        first=Min("number"), last=Max("number"), intervals=Count("pk"), bytes=Sum(size), end=Max("window_end")
    )
    days, expected = [], done + 1
    for row in sums.order_by("first"):
        day = ArchiveDay(row["day"], row["first"], row["last"], row["intervals"], row["bytes"])
        days.append(replace(day, obstacle=_obstacle(pool, day, row["end"] or 0, expected)))
        expected = day.last + 1
    return days


def _obstacle(pool: Pool, day: ArchiveDay, window_end: int, expected: int) -> str:
    if (day.first, day.intervals) != (expected, day.last - day.first + 1):
        return "its intervals are not those that follow the last archive"
    if IntervalArchive.objects.filter(pool=pool, day=day.day).exists():
        return "an archive of that day was written before it was over"
    newest = Interval.objects.filter(pool=pool).aggregate(last=Max("number"))["last"] or 0
    if day.last > newest - NEWEST:
        return f"it has some of the pool's {NEWEST} newest intervals"
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    if clock is None or window_end > clock.settled_slot + 1:
        return "a window of its intervals is not over"
    later = Interval.objects.filter(pool=pool, number__gt=day.last, number__lt=day.last + REACH)
    if later.filter(base__number__lte=day.last).exists():
        return "an interval of a later day is told by one of them"
    numbers = {"number__gte": day.first, "number__lte": day.last}
    if IntervalFairness.objects.filter(pool=pool, **numbers).count() < day.intervals:
        return "the fairness of some intervals is not worked out"
    of_day = {f"interval__{name}": value for name, value in numbers.items()}
    awards = Award.objects.filter(pool=pool, **of_day)
    if awards.filter(state__in=ALIVE).exists() or awards.filter(rent=RentState.OPEN).exists():
        return "an award that they gave is not over"
    if awards.filter(job__ended_at=None).exists():  # verification of a waiting job reads the interval that decided it
        return "a job that they gave an award is not over"
    return ""


def archive_day(
    *,
    pool: Pool,
    day: ArchiveDay,
    folder: Path,
    by: Access,
    at: datetime,
    progress: Progress = lambda step: None,
) -> IntervalArchive:
    """Write the file, read it back, put it in its place, and only then drop from the database what it has. `progress`
    is called after each step."""
    name = archive_name(pool, day.day)
    path, partial = folder / name, folder / f"{name}.part"
    try:
        key = _archive_write(pool, day, partial, at)
        progress("write")
        _checked(pool, day, partial, key)
        progress("check")
        partial.replace(path)
        _synced(folder)
        progress("place")
    finally:
        partial.unlink(missing_ok=True)
    row = IntervalArchive(
        pool=pool,
        day=day.day,
        first=day.first,
        last=day.last,
        file=name,
        digest=file_digest(path),
        size=path.stat().st_size,
        public_key=key,
        archived_at=at,
    )
    with as_owner(), transaction.atomic():
        archive_remember(row, by=by)
        rows = Interval.objects.filter(pool=pool, number__gte=day.first, number__lte=day.last)
        if rows.update(view=b"", plan=b"") != day.intervals:
            raise ArchiveFailed("Other intervals are there than a moment ago. Begin again.")
        progress("drop")
    return row


def may_archive() -> bool:
    """Return whether this process can act as a role that may drop the bytes of intervals. The serving role may not."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("SELECT has_table_privilege(current_user, 'scheduling_interval', 'UPDATE')")
        (may,) = cursor.fetchone()
    return bool(may)


def _archive_write(pool: Pool, day: ArchiveDay, partial: Path, at: datetime) -> str:
    """Write the bundle of the day, and return the public key that signed it."""
    start = midnight(day.day, UTC)
    with partial.open("wb") as file:
        bundle = bundle_write(pool=pool, start=start, end=start + DAY, seed=signing_seed(at=at), file=file)
        file.flush()
        os.fsync(file.fileno())
    if isinstance(bundle, Refused):
        raise ArchiveFailed(bundle.sentence)
    return bundle.public_key


def _checked(pool: Pool, day: ArchiveDay, partial: Path, key: str) -> None:
    """Check that the file agrees with itself, and that it has exactly the intervals that are to be dropped, byte for
    byte. Its check recomputes each digest from the bytes in the file, and these digests are those of the database."""
    if flaws := check.check(str(partial), key):  # type: ignore[no-untyped-call]  # plain Python, for Python alone
        raise ArchiveFailed(f"{partial.name} does not agree with itself: {'; '.join(flaws[:3])}. Verify the intervals.")
    inside = {number: row["digest"] for number, row in archive_intervals(partial).items()}
    rows = Interval.objects.filter(pool=pool, number__gte=day.first, number__lte=day.last)
    if inside != dict(rows.values_list("number", "digest")):
        raise ArchiveFailed(f"{partial.name} has other intervals than the database.")


def _synced(folder: Path) -> None:
    """Write the folder to the disk, so that the file's name is on the disk as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
