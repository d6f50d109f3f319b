"""A submission as bytes: the part of a job that is written once, when it is submitted, and never changes.

Its digest is published with the submission (the event `job_submitted`), so that everyone who keeps that event has a
receipt. The feed is sealed, and a verification compares every job's row with its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from scheduling.core import records
from scheduling.feed import EventKind, job_event
from scheduling.models import AFTER_OTHERS, Event, StartEstimate, TrainingJob

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})
EXACT = 1e16  # from here on Python writes a float with an exponent, and the database as a whole number


def submission_document(job: TrainingJob, *, lane: str, estimate: StartEstimate | None = None) -> dict[str, Any]:
    """Return the submission of a job as plain values. `lane` is the lane that it was submitted to, since a job may move
    to the other lane later. `estimate` is the market's estimate of its start, if there was one."""
    document = {
        "job": job.pk,
        "pool": job.pool_id,
        "tenant": job.tenant_id,
        "name": job.name,
        "lane": lane,
        "spec": as_stored(job.spec),
        "submitted_at": job.submitted_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "submitted_by": job.submitted_by_id,
        "client_key": job.client_key,
        "request_digest": job.request_digest,
        "estimate": None if estimate is None else _range(estimate),
    }
    document |= {"after": job.after} if job.after else {}
    if job.array_id is not None or job.array_place:
        document["array"] = [job.array_id, job.array_place]
    document |= {"together": True} if job.together else {}
    return document


def submission_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the document's canonical JSON, in hexadecimal."""
    return hashlib.sha256(records.to_bytes(document)).hexdigest()


def submission_event(
    job: TrainingJob,
    *,
    at: datetime,
    estimate: StartEstimate | None = None,
    instead_of: str = "",
    begin: datetime | None = None,
) -> Event:
    """Return the event that a job, saved already, was submitted to the lane that it is in. `instead_of` is the code why
    the instant lane did not consider it at all. `begin` is when the job arrives, if that is later."""
    document = submission_document(job, lane=job.lane, estimate=estimate)
    data: dict[str, Any] = {"name": job.name, "lane": job.lane, "digest": submission_digest(document)}
    if instead_of:
        data["instant"] = instead_of
    if begin is not None and begin > at:
        data["begins_at"] = begin.astimezone(UTC).isoformat(timespec="microseconds")
    if job.worth_from is not None:
        data["names_moment"] = True  # the worth stays there, whatever becomes of the arrival
        if job.worth_from > job.arrival:
            counts_from = job.pool.epoch_at + timedelta(seconds=job.pool.slot_seconds * job.worth_from)
            data["worth_from"] = counts_from.astimezone(UTC).isoformat(timespec="microseconds")
    if job.not_before == AFTER_OTHERS:
        data["after"] = job.after
    return job_event(EventKind.JOB_SUBMITTED, job, at=at, data=data)


def _range(estimate: StartEstimate) -> list[int]:
    return [estimate.earliest, estimate.latest, estimate.price_low, estimate.price_high]


def as_stored(value: Any) -> Any:
    """Return a document as the database gives it back. The database keeps numbers as decimals, without an exponent or
    the sign of a zero, so that a large float comes back as a whole number."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, float):
        return int(Fraction(repr(value))) if abs(value) >= EXACT else value + 0.0
    if isinstance(value, Mapping):
        return {name: as_stored(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_stored(inner) for inner in value]
    return value
