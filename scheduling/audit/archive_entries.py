"""What the history says of an archive of intervals: whoever verifies compares the rows with it."""

from __future__ import annotations

from typing import Any

from scheduling.models import IntervalArchive
from tenants import history
from tenants.access import Access

ACTION = "intervals_archive"


def archive_remember(row: IntervalArchive, *, by: Access) -> None:
    """The row, and its entry in the history, which verification compares with it. By the owning role, in the
    transaction that drops what it has."""
    row.save(force_insert=True)
    history.append(at=row.archived_at, by=by, action=ACTION, subject=archive_subject(row), after=archive_said(row))


def archive_subject(row: IntervalArchive) -> str:
    return f"archive {row.file}"


def archive_said(row: IntervalArchive) -> dict[str, Any]:
    """What the history says of it."""
    return {
        "pool": row.pool.slug,
        "day": row.day.isoformat(),
        **{name: getattr(row, name) for name in ("first", "last", "file", "digest", "size", "public_key")},
    }
