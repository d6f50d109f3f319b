"""Submitting as a person says it: with the next interval, at once, or at once and else with the next interval.

Two transactions, one after the other: the instant lane's lock is never held while the batch lane's is waited for,
because everybody else takes them in the other order. Whoever dies between the two repeats the submission under its
key and finds the second half still to be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import models

from scheduling.models import JobState, Lane, Pool
from scheduling.services.jobs import Submitted, job_submit
from scheduling.services.second_chance import job_queue
from tenants.access import Access, Refused


class Wanted(models.TextChoices):
    """When a job should be decided about."""

    BATCH = "batch"
    INSTANT = "instant"
    EITHER = "either"  # instant; if refused, batch


def job_submit_as_wanted(
    *, pool: Pool, name: str, spec: Mapping[str, Any], wanted: str, by: Access, at: datetime, client_key: str | None
) -> Submitted | Refused:
    lane = Lane.INSTANT if wanted == Wanted.EITHER else wanted
    taken = job_submit(pool=pool, name=name, spec=spec, lane=str(lane), by=by, at=at, client_key=client_key)
    if wanted != Wanted.EITHER or isinstance(taken, Refused) or taken.job.state != JobState.REJECTED:
        return taken
    if taken.job.lane != Lane.INSTANT:
        return taken  # it has waited already, and the batch lane refused it too
    queued = job_queue(job_id=taken.job.pk, by=by, at=at)
    return queued if isinstance(queued, Refused) else replace(taken, job=queued, award=None)
