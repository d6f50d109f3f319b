"""Awards cut short by the platform: their units are free again, the rest of their money returns, their jobs wait.

One mechanism for every cause. The caller holds both lanes' locks, says from which slot on nothing was delivered,
and posts what comes back as the last thing it does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import F

from scheduling.models import Award, AwardState, Event, FreedUnits, Lane, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES, JobState
from scheduling.services.cancellation import HoldMissing
from scheduling.services.feed import event, job_subject
from scheduling.services.units import Unit, UnitReader, units_release
from tenants.ledger.postings import InsufficientFunds, Posting, available, held
from tenants.ledger.services import post_many

GIVEN_UP = "given_up"

# One statement for thousands of rows: the ORM would build an expression for each field of each.
_VOID = """
UPDATE scheduling_award AS award SET state = %s, cut_at = cut.cut_at, returned = cut.returned
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS cut (id, cut_at, returned)
 WHERE award.id = cut.id
"""
_MOVE = """
UPDATE scheduling_trainingjob AS job
   SET state = %s, lane = coalesce(%s, job.lane), ended_at = %s, not_before = %s, attempt = job.attempt + cut.again,
       reason_code = %s, reason_numbers = %s::jsonb || jsonb_build_object('refunded', cut.refunded)
  FROM unnest(%s::bigint[], %s::bigint[], %s::int[]) AS cut (job_id, refunded, again)
 WHERE job.id = cut.job_id
"""


@dataclass(frozen=True)
class Cause:
    """Why: a code of the market's vocabulary, and what else is to be said of it."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Next:
    """What becomes of the jobs: they wait again, and are looked at from a slot on; or they are given up."""

    not_before: int = 0
    given_up: bool = False


AT_ONCE = Next()


@dataclass(frozen=True)
class Voided:
    """`awards` as they are now; `again`: those of them whose jobs wait again."""

    awards: Sequence[Award]
    again: Sequence[Award]
    events: Sequence[Event]
    postings: Sequence[Posting]

    @property
    def refunded(self) -> int:
        return sum(award.returned for award in self.awards)


def awards_void(
    pool: Pool, awards: Sequence[Award], slot: int, cause: Cause, at: datetime, following: Next = AT_ONCE
) -> Voided:
    """`slot`: the first that is not delivered. Writes all but the events and the money."""
    jobs, reader = {job.pk: job for job in jobs_locked([award.job_id for award in awards])}, UnitReader(pool)
    freed: defaultdict[str, defaultdict[Unit, float]] = defaultdict(lambda: defaultdict(float))
    for award in awards:
        for unit, amount in reader.units_of(award, jobs[award.job_id], since=slot).items():
            freed[award.lane][unit] += amount
        _cut(award, slot)
    for lane, units in sorted(freed.items()):
        units_release(Lane(lane), units)
    _store(awards)
    _unsell(awards, slot)
    wanted = [award for award in awards if jobs[award.job_id].state in LIVE_STATES]  # a cancelled one is not
    _move_jobs(wanted, cause, following, at)
    tell = _given_up if following.given_up else _requeued
    return Voided(
        awards,
        [] if following.given_up else wanted,
        [tell(award, cause, at) for award in wanted],
        [_refund(award, cause, at) for award in awards if award.returned],
    )


def refunds_post(voided: Voided) -> None:
    """The last thing in the transaction."""
    answer = post_many(postings=voided.postings)
    if isinstance(answer, InsufficientFunds):
        raise HoldMissing(str(answer))


def jobs_locked(job_ids: Sequence[int]) -> list[TrainingJob]:
    return list(TrainingJob.objects.select_for_update(of=("self",)).filter(pk__in=job_ids).order_by("pk"))


def _cut(award: Award, slot: int) -> None:
    cut = max(slot, award.start)
    undelivered = award.charges[cut - award.start :]
    award.returned = sum(amount for parts in undelivered for _, amount in parts)
    award.state, award.cut_at = AwardState.VOID, cut


def _unsell(awards: Sequence[Award], slot: int) -> None:
    """What a refunded award had given up is no longer sold for its tenant's account."""
    freed = FreedUnits.objects.filter(award__in=awards, slot__gte=slot)
    freed.filter(sold=0).delete()
    freed.filter(sold__gt=0).update(amount=F("sold"))


def _store(awards: Sequence[Award]) -> None:
    rows = [(award.pk, award.cut_at, award.returned) for award in awards]
    with connection.cursor() as cursor:
        cursor.execute(_VOID, [AwardState.VOID, *([row[column] for row in rows] for column in range(3))])


def _move_jobs(awards: Sequence[Award], cause: Cause, following: Next, at: datetime) -> None:
    """They wait with the first arrival, in the batch lane: nobody asks the instant lane a second time. Where slots are
    awarded one by one, the next one is no other attempt."""
    facts = json.dumps(dict(cause.facts))
    ids, refunds = [award.job_id for award in awards], [award.returned for award in awards]
    attempts = [int(award.work_left is None) for award in awards]
    if following.given_up:
        place = [JobState.FAILED, None, at, 0, GIVEN_UP]
    else:
        place = [JobState.QUEUED, Lane.BATCH, None, following.not_before, cause.code]
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, [*place, facts, ids, refunds, attempts])


def _refund(award: Award, cause: Cause, at: datetime) -> Posting:
    return Posting(
        key=f"refund:{award.pk}:1",
        kind="refund",
        entries=((held(award.tenant_id), -award.returned), (available(award.tenant_id), award.returned)),
        at=at,
        subject=job_subject(award.job_id),
        facts={"award": award.pk, "cause": cause.code, **cause.facts, "from_slot": award.cut_at},
    )


def _requeued(award: Award, cause: Cause, at: datetime) -> Event:
    data = {"job": award.job_id, "cause": cause.code, **cause.facts, "refunded": award.returned}
    subject = job_subject(award.job_id)
    return event("job_requeued", pool_id=award.pool_id, tenant_id=award.tenant_id, subject=subject, at=at, data=data)


def _given_up(award: Award, cause: Cause, at: datetime) -> Event:
    data = {"job": award.job_id, "reason": GIVEN_UP, "numbers": {**cause.facts, "refunded": award.returned}}
    subject = job_subject(award.job_id)
    return event("job_failed", pool_id=award.pool_id, tenant_id=award.tenant_id, subject=subject, at=at, data=data)
