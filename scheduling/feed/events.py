"""Events: how they are made, and appended to the feed in the transaction of the change that they report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from scheduling.feed.kinds import EventKind
from scheduling.feed.notify import events_tell
from scheduling.models import Event, TrainingJob


def event(
    kind: EventKind,
    *,
    pool_id: int | None,
    at: datetime,
    tenant_id: int | None = None,
    subject: str = "",
    data: Mapping[str, Any] | None = None,
) -> Event:
    """Return an event, which is not stored yet. Everybody may read an event that has no tenant."""
    return Event(kind=kind, pool_id=pool_id, tenant_id=tenant_id, subject=subject, at=at, data=dict(data or {}))


def job_event(kind: EventKind, job: TrainingJob, *, at: datetime, data: Mapping[str, Any]) -> Event:
    """Return an event about a job, for its tenant."""
    return event(kind, pool_id=job.pool_id, tenant_id=job.tenant_id, subject=job_subject(job.pk), at=at, data=data)


def events_append(events: Iterable[Event]) -> None:
    """Append the events in this order, in one statement. Call this in the transaction of the change that they report;
    open pages get the news after the commit."""
    events_tell(Event.objects.bulk_create(events, batch_size=5_000))


def job_subject(job_id: int) -> str:
    """Return the name of a job in events and in the book."""
    return f"job:{job_id}"
