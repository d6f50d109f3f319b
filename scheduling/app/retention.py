"""Delete what an installation keeps only for a time: the log of webhooks, notices, files and reports of programs, ended
sessions, files that came along with batch scripts; and saved states of jobs that were never done and were refunded.

Only rows that the serving role may change anyway are deleted. What it can only add to (the book, the history,
intervals, answers, events and their seals, fairness) and what these prove (jobs, awards, estimates) stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Max, Sum

from scheduling.catalogue.forgetting import archive_remove, archives_close, archives_unused
from scheduling.common import alone
from scheduling.models import Interval, IntervalArchive, Pool, ProgramArchive, WebhookTry
from scheduling.notices.forgetting import notices_forget, notices_over
from scheduling.runs.engines import run_folders
from scheduling.runs.old_files import (
    files_remove,
    folder_bytes,
    jobs_with_old_files,
    jobs_with_worthless_states,
    states_remove,
)
from scheduling.runs.old_reports import reports_forget, reports_over
from scheduling.webhooks.forgetting import deliveries_forget, deliveries_over
from tenants import history
from tenants.access import access_of_system
from tenants.common.zones import day_of, midnight
from tenants.scoping import scope_disabled

ROUND = timedelta(seconds=20)  # for the pieces of one call; the next call continues
JOBS = 50  # jobs whose files are removed before the time is checked again
ACTION = "retention_apply"
_LOCK = 0x626F757273650004  # of the database: "bourse", 4

Counts = dict[str, int]


@dataclass(frozen=True)
class RetentionLimits:
    """Midnights of UTC. What is older than one of them is over; None means that it is kept for good."""

    sessions: datetime
    deliveries: datetime | None
    notices_read: datetime | None
    notices_unread: datetime | None
    reports: datetime | None
    run_files: datetime | None
    archives: datetime | None


def limits_at(at: datetime) -> RetentionLimits:
    """Return the limits by whole days, so that nothing more is due until tomorrow, and the history has one line for a
    day."""
    today = midnight(day_of(at, UTC), UTC)

    def limit(days: int) -> datetime | None:
        return today - timedelta(days=days) if days else None

    return RetentionLimits(
        sessions=today,
        deliveries=limit(settings.RETENTION_DELIVERIES_DAYS),
        notices_read=limit(settings.RETENTION_NOTICES_READ_DAYS),
        notices_unread=limit(settings.RETENTION_NOTICES_UNREAD_DAYS),
        reports=limit(settings.RETENTION_REPORTS_DAYS),
        run_files=limit(settings.RETENTION_RUN_FILES_DAYS),
        archives=limit(settings.RETENTION_ARCHIVES_DAYS),
    )


def retention_preview(*, at: datetime) -> Counts:
    """Return what would be deleted, without a change."""
    limits = limits_at(at)
    counts = {"sessions": Session.objects.filter(expire_date__lt=limits.sessions).count()}
    if limits.deliveries:
        with scope_disabled("the log of every tenant's webhooks is as old"):
            over = deliveries_over(limits.deliveries)
            counts |= {"deliveries": over.count(), "tries": WebhookTry.objects.filter(delivery__in=over).count()}
    if limits.notices_read or limits.notices_unread:
        notices = notices_over(read_before=limits.notices_read, unread_before=limits.notices_unread)
        counts |= {"notices": notices.count()}
    if limits.reports:
        with scope_disabled("what every tenant's programs reported is as old"):
            counts |= {"reports": reports_over(limits.reports).count()}
    if worthless := jobs_with_worthless_states(settings.RUNS_DIR):
        counts |= {"worthless_states": len(worthless)}
    if limits.run_files:
        places = _old_places(limits.run_files)
        size = sum(folder_bytes(root / f"job-{job}") for root, job in places)
        counts |= {"run_files_of_jobs": len({job for _, job in places}), "run_files_bytes": size}
    if limits.archives:
        sizes = ProgramArchive.objects.filter(pk__in=archives_unused(limits.archives, at)).values_list(
            "size", flat=True
        )
        counts |= {"archives": len(sizes), "archives_bytes": sum(sizes)}
    return counts


def archives_lines() -> list[str]:
    """Return for each pool how many of its intervals are in archives. Only the owning role can move them, by `manage.py
    archive`, so that no worker does."""
    lines = []
    for pool in Pool.objects.order_by("pk"):
        rows = IntervalArchive.objects.filter(pool=pool)
        last = rows.aggregate(last=Max("last"))["last"] or 0
        size = rows.aggregate(size=Sum("size"))["size"] or 0
        here = Interval.objects.filter(pool=pool, number__gt=last).count()
        lines.append(f"intervals of {pool.slug}: {here:,} here, {last:,} archived ({size:,} bytes)")
    return lines


def retention_apply(*, clock: Callable[[], datetime]) -> Counts | None:
    """Delete piece by piece, each committed by itself, until nothing is left or the time is over. Return None if
    another process is doing it. The history gets a line for each call that found something; a crash loses only that
    line."""
    with alone(_LOCK) as ours:
        return _apply(clock) if ours else None


def _apply(clock: Callable[[], datetime]) -> Counts:
    began = clock()
    limits, ends = limits_at(began), began + ROUND
    counts = Counts()
    counts["sessions"] = Session.objects.filter(expire_date__lt=limits.sessions)._raw_delete(using=connection.alias)
    if limits.deliveries:
        counts |= {"deliveries": 0, "tries": 0}
        after: int | None = 0
        while after is not None and clock() < ends:
            piece = deliveries_forget(before=limits.deliveries, after=after)
            counts["deliveries"] += piece.deliveries
            counts["tries"] += piece.tries
            after = piece.last
    if limits.notices_read or limits.notices_unread:
        counts |= {"notices": _notices_forget(limits, clock, ends)}
    if limits.reports:
        counts |= {"reports": 0}
        after = 0
        while after is not None and clock() < ends:
            some = reports_forget(before=limits.reports, after=after)
            counts["reports"] += some.reports
            after = some.last
    if worthless := jobs_with_worthless_states(settings.RUNS_DIR):
        counts |= {"worthless_states": len(states_remove(settings.RUNS_DIR, worthless).jobs)}
    if limits.run_files:
        counts |= {"run_files_of_jobs": 0, "run_files_bytes": 0, "run_files_refused": 0}
        places, jobs = _old_places(limits.run_files), set[int]()
        while places and clock() < ends:
            root = places[0][0]
            of_root = [job for place, job in places[:JOBS] if place == root]
            removed = files_remove(root, of_root)
            jobs |= set(removed.jobs)
            counts["run_files_of_jobs"] = len(jobs)
            counts["run_files_bytes"] += removed.bytes
            counts["run_files_refused"] += len(removed.refused)
            places = places[len(of_root) :]
    if limits.archives:
        counts |= _archives_leave(limits.archives, clock, ends)
    if any(count for name, count in counts.items() if name != "run_files_refused"):
        with transaction.atomic():
            by = access_of_system("retention")
            history.append(at=began, by=by, action=ACTION, subject="installation", after=counts)
    return counts


def _archives_leave(before: datetime, clock: Callable[[], datetime], ends: datetime) -> Counts:
    """Close archives that no job has used since; remove the content of those that an earlier call has closed."""
    counts = Counts(archives_closed=0, archives=0, archives_bytes=0)
    while (at := clock()) < ends and (removed := archive_remove(before=before, at=at)):
        counts["archives"] += removed.bytes is not None
        counts["archives_bytes"] += removed.bytes or 0
    while (at := clock()) < ends and (piece := archives_close(before=before, at=at)).looked:
        counts["archives_closed"] += piece.closed
    return counts


def _old_places(before: datetime) -> list[tuple[Path, int]]:
    """Return folders of runs with the jobs whose files there are as old; those of one folder are adjacent."""
    return [(root, job) for root in run_folders() for job in jobs_with_old_files(root, before)]


def _notices_forget(limits: RetentionLimits, clock: Callable[[], datetime], ends: datetime) -> int:
    count, after = 0, 0
    while clock() < ends:
        piece = notices_forget(read_before=limits.notices_read, unread_before=limits.notices_unread, after=after)
        count += piece.notices
        if piece.last is None:
            break
        after = piece.last
    return count
