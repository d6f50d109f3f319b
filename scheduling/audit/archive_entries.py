"""The entries of the history about archives of intervals. Verification compares the rows of archives with them."""

from __future__ import annotations

from typing import Any

from scheduling.models import IntervalArchive
from tenants import history
from tenants.access import Access

ACTION = "intervals_archive"


def archive_remember(row: IntervalArchive, *, by: Access) -> None:
    """Save the row of an archive, and append its entry to the history, which verification compares with it. The owning
    role calls this, in the transaction that drops from the database what the archive has."""
    row.save(force_insert=True)
    history.append(at=row.archived_at, by=by, action=ACTION, subject=archive_subject(row), after=archive_said(row))


def archive_subject(row: IntervalArchive) -> str:
    return f"archive {row.file}"


def archive_said(row: IntervalArchive) -> dict[str, Any]:
    """Return what the history says of an archive."""
    return {
        "pool": row.pool.slug,
        "day": row.day.isoformat(),
        **{name: getattr(row, name) for name in ("first", "last", "file", "digest", "size", "public_key")},
    }
