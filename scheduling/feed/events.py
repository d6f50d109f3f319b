"""Events: what happened, told in the transaction in which it happens."""

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
    """An event to be written. Without a tenant everybody may know."""
    return Event(kind=kind, pool_id=pool_id, tenant_id=tenant_id, subject=subject, at=at, data=dict(data or {}))


def job_event(kind: EventKind, job: TrainingJob, *, at: datetime, data: Mapping[str, Any]) -> Event:
    """An event about a job, for its tenant."""
    return event(kind, pool_id=job.pool_id, tenant_id=job.tenant_id, subject=job_subject(job.pk), at=at, data=data)


def events_append(events: Iterable[Event]) -> None:
    """In one statement, in this order. Belongs into the transaction of the change itself; open pages hear of it after
    the commit."""
    events_tell(Event.objects.bulk_create(events, batch_size=5_000))


def job_subject(job_id: int) -> str:
    """How a job is named in events and in the book."""
    return f"job:{job_id}"
