"""Closing blocks of events under a chained digest, so that an event that is changed, removed or added later shows.

Events say what becomes of a job, and its row is compared with them: so the seals of the feed prove the rows of the jobs
too. No writer is held up: a block ends before the events that may still appear (`scheduling_event_settled`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from scheduling.core import records
from scheduling.feed import EventKind
from scheduling.market.decide import START, submission_digest, submission_document
from scheduling.models import Award, FeedSeal, Lane, StartEstimate, TrainingJob
from tenants.scoping import scope_disabled

BLOCK = 5_000
MOST_BLOCKS = 20  # of one call; the next call continues
MEMBER = 40  # bytes in a seal for each event: 8 of its id, 32 of its digest
_SEALERS = 0x626F757273650003  # the id of an advisory lock of the database: "bourse", 3


@dataclass(frozen=True)
class EventRow:
    """One event as the database writes it: its data as text, its moment in microseconds since 1970."""

    id: int
    pool: int | None
    tenant: int | None
    kind: str
    subject: str
    at: int
    data: str


def feed_seal(*, at: datetime, block: int = BLOCK) -> int:
    """Close every block that can be closed, the last of which may be short. Return the number of events in them."""
    sealed = 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_SEALERS])
        end = last_settled()
        for _ in range(MOST_BLOCKS):
            last = FeedSeal.objects.order_by("-number").first()
            rows = events_between(last.last_event_id if last else 0, end, most=block)
            if not rows:
                break
            seal = FeedSeal(
                number=last.number + 1 if last else 1,
                last_event_id=rows[-1].id,
                sealed_at=at,
                members=members_of(rows),
                previous=last.digest if last else START,
            )
            seal.digest = seal_link(seal)
            seal.save(force_insert=True)
            sealed += len(rows)
    return sealed


def last_settled() -> int:
    """Return the id at or below which no event can still appear."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT scheduling_event_settled()")
        return int(cursor.fetchone()[0])


def seal_link(seal: FeedSeal) -> str:
    """Return the digest of a seal: over the one before it, its number, its time and its members."""
    return records.digest(seal.previous, records.to_bytes(seal_place(seal)), bytes(seal.members))


def seal_place(seal: FeedSeal) -> dict[str, Any]:
    """Return where a seal ends in the feed, and when it was closed."""
    sealed_at = seal.sealed_at.astimezone(UTC).isoformat(timespec="microseconds")
    return {"number": seal.number, "last_event": seal.last_event_id, "sealed_at": sealed_at}


_EVENTS = """
SELECT id, pool_id, tenant_id, kind, subject, (extract(epoch FROM at) * 1000000)::bigint, data::text
  FROM scheduling_event
"""


def events_between(after: int, upto: int, *, most: int | None = None) -> list[EventRow]:
    """Return the events with ids above `after` and not above `upto`, in their order."""
    with connection.cursor() as cursor:
        cursor.execute(f"{_EVENTS} WHERE id > %s AND id <= %s ORDER BY id LIMIT %s", [after, upto, most])
        return [EventRow(*row) for row in cursor.fetchall()]


def events_told(pool_id: int, start: datetime, end: datetime) -> list[EventRow]:
    """Return the events about a pool in a period [start, end), in order."""
    with connection.cursor() as cursor:
        cursor.execute(f"{_EVENTS} WHERE pool_id = %s AND at >= %s AND at < %s ORDER BY id", [pool_id, start, end])
        return [EventRow(*row) for row in cursor.fetchall()]


def members_of(rows: Sequence[EventRow]) -> bytes:
    """Return what a seal lists of these events."""
    digests = event_digests(rows)
    return b"".join(row.id.to_bytes(8, "big") + digests[row.id] for row in rows)


def event_digests(rows: Sequence[EventRow]) -> dict[int, bytes]:
    """Return by event id 32 bytes of SHA-256 over each event."""
    older = events_beside(rows)
    return {row.id: hashlib.sha256(event_text(row) + older.get(row.id, b"")).digest() for row in rows}


def event_text(row: EventRow) -> bytes:
    """Return one line of canonical JSON, and behind it the event's data as the database writes them."""
    columns = [row.id, row.pool, row.tenant, row.kind, row.subject, row.at]
    return json.dumps(columns, separators=(",", ":")).encode("ascii") + b"\n" + row.data.encode()


def events_beside(rows: Sequence[EventRow]) -> dict[int, bytes]:
    """Return what events of older versions do not contain, and the seal closes over as well: the digest of the
    submission, and the terms of an award of the instant lane whose answer has no record."""
    jobs, awards = dict[int, tuple[int, str]](), dict[int, int]()
    for row in rows:
        if row.kind not in (EventKind.JOB_SUBMITTED, EventKind.JOB_AWARDED):
            continue
        data = json.loads(row.data)
        if row.kind == EventKind.JOB_SUBMITTED and "digest" not in data:
            jobs[row.id] = (_number(row.subject.removeprefix("job:")), str(data.get("lane")))
        elif row.kind == EventKind.JOB_AWARDED and data.get("lane") == Lane.INSTANT and "answer" not in data:
            awards[row.id] = _number(data.get("award"))
    if not jobs and not awards:
        return {}
    with scope_disabled("events of all tenants are sealed together"):
        jobs_by_id = TrainingJob.objects.in_bulk([job for job, _ in jobs.values()])
        estimates = {row.job_id: row for row in StartEstimate.objects.filter(job__in=jobs_by_id).order_by("-pk")}
        terms = {award.pk: award for award in Award.objects.filter(pk__in=awards.values())}
    untold_events = {}
    for number, (job, lane) in jobs.items():
        if job in jobs_by_id:
            document = submission_document(jobs_by_id[job], lane=lane, estimate=estimates.get(job))
            untold_events[number] = b"\n" + submission_digest(document).encode()
    for number, award in awards.items():
        if award in terms:
            untold_events[number] = b"\n" + _terms(terms[award])
    return untold_events


def _number(text: object) -> int:
    """Return the number of a row, or 0, which no row has, where the text is no number."""
    return int(str(text)) if str(text).isdecimal() else 0


def _terms(award: Award) -> bytes:
    """Return what never changes of an award."""
    names = ["job_id", "tenant_id", "attempt", "pool_id", "lane", "phase", "placement", "start", "end", "workers", "ps"]
    names += ["worker_type", "ps_type", "allocation", "on_operator", "value", "floor", "cost", "paid", "charges"]
    names += ["work"] if award.work is not None else []  # older seals close over awards without it
    terms = {name: getattr(award, name) for name in names}
    return records.to_bytes(terms | {"awarded_at": award.awarded_at.astimezone(UTC).isoformat(timespec="microseconds")})
