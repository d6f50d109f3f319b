"""Events: how they are made, and appended to the feed in the transaction of the change that they report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection

from scheduling.feed.kinds import EventKind
from scheduling.feed.notify import events_tell
from scheduling.models import Event, TrainingJob

# The database reads one text many times as fast as the ORM makes columns of thousands of objects.
_APPEND = """
INSERT INTO scheduling_event (pool_id, tenant_id, kind, subject, at, data)
SELECT * FROM json_to_recordset(%s) AS event
    (pool_id bigint, tenant_id bigint, kind text, subject text, at timestamptz, data jsonb)
RETURNING id
"""


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
    """Append the events in this order, in one statement, and give them their ids. Call this in the transaction of the
    change that they report; open pages get the news after the commit."""
    events = list(events)
    if not events:
        return
    with connection.cursor() as cursor:
        cursor.execute(_APPEND, [json.dumps([_columns(each) for each in events], allow_nan=False)])
        for each, (number,) in zip(events, cursor.fetchall(), strict=True):
            each.pk = number
    events_tell(events)


def _columns(event: Event) -> dict[str, Any]:
    whose = {"pool_id": event.pool_id, "tenant_id": event.tenant_id}
    what = {"kind": str(event.kind), "subject": event.subject, "data": event.data}
    return whose | what | {"at": event.at.isoformat()}


def job_subject(job_id: int) -> str:
    """Return the name of a job in events and in the book."""
    return f"job:{job_id}"
