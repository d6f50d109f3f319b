"""Cut awards short where the platform did not deliver: their units become free, the rest of their money is returned,
their jobs wait again.

This is the one mechanism for every cause. The caller holds both lanes' locks, passes the slot from which on nothing was
delivered, and posts the refunds as the last thing it does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connection
from django.db.models import F, QuerySet

from scheduling.feed import EventKind, event, job_subject
from scheduling.market.calendar.units import CalendarUnit, UnitReader, units_release
from scheduling.market.settle.resale import sales_return
from scheduling.market.settle.run_states import RESERVATION_ENDED
from scheduling.market.view.rents import GIVEN_UP
from scheduling.models import ALIVE, Award, AwardState, Event, FreedUnits, Lane, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES, JobState
from tenants.ledger.postings import InsufficientFunds, Posting, available, held
from tenants.ledger.services import post_many

# One statement for thousands of rows: the ORM would build an expression for each field of each.
_VOID = """
UPDATE scheduling_award AS award SET state = %s, cut_at = cut.cut_at, returned = cut.returned
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS cut (id, cut_at, returned)
 WHERE award.id = cut.id
"""
_MOVE = """
UPDATE scheduling_trainingjob AS job
   SET state = %s, lane = coalesce(%s, job.lane), ended_at = %s, not_before = %s,
       attempt = job.attempt + cut.again, worth = NULL,
       reason_code = %s, reason_numbers = %s::jsonb || jsonb_build_object('refunded', cut.refunded)
  FROM unnest(%s::bigint[], %s::bigint[], %s::int[]) AS cut (job_id, refunded, again)
 WHERE job.id = cut.job_id
"""


class HoldMissing(RuntimeError):
    """A booked award's payment is not held. The book allows no such thing, so something is broken."""


@dataclass(frozen=True)
class Cause:
    """Why awards are cut short: a code of the market's vocabulary, and further facts about it."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Next:
    """What becomes of the jobs: they wait again and may be decided about from slot `not_before` on, or are given up."""

    not_before: int = 0
    given_up: bool = False


AT_ONCE = Next()


@dataclass(frozen=True)
class Voided:
    """The result of a cut. `awards` are as they are now; `again` are those whose jobs wait again; `refunded` is the
    micro-credits that are returned. The caller still has to write `events` and `postings`."""

    awards: Sequence[Award]
    again: Sequence[Award]
    refunded: int
    events: Sequence[Event]
    postings: Sequence[Posting]


def awards_void(
    pool: Pool, awards: Sequence[Award], slot: int, cause: Cause, at: datetime, following: Next = AT_ONCE
) -> Voided:
    """Cut these awards short from `slot` on, the first that is not delivered. Write everything except events and money.

    Slots delivered before that stay owed, and are settled in their turn. An award that was cut before, at a later slot,
    is cut shorter: what it has not paid yet of the slots from `slot` on is returned too, and its job has been reported
    already. The caller passes awards for which `unsettled_from(slot)` is true, and none that was given up: to these
    `slots_pay_back` returns what was not delivered. A job that runs in pieces loses all its awards, since each piece
    continues from the one before it.
    """
    awards = [*awards, *_others_of(awards, slot)]
    jobs, reader = {job.pk: job for job in jobs_locked([award.job_id for award in awards])}, UnitReader(pool)
    # A cancelled job does not wait again, and a job whose award was void before waits already.
    live = [a for a in awards if a.state != AwardState.VOID and jobs[a.job_id].state in LIVE_STATES]
    # For each job the event is about its first award in time: later ones are at home, and free.
    first = {award.job_id: award.pk for award in sorted(live, key=lambda each: -each.start)}
    live = [award for award in live if first[award.job_id] == award.pk]
    units: defaultdict[str, defaultdict[CalendarUnit, float]] = defaultdict(lambda: defaultdict(float))
    postings: list[Posting] = []
    before = {award.pk: award.returned for award in awards}
    released = {award.pk: range(max(slot, award.start), award.paid_until) for award in awards}
    for award in awards:
        for unit, amount in reader.units_of(award, jobs[award.job_id], since=slot).items():
            units[award.lane][unit] += amount
        if refund := _cut(award, slot, cause, at):
            postings.append(refund)
    for lane, amounts in sorted(units.items()):
        units_release(Lane(lane), amounts)
    sales_return(released)
    _store(awards)
    _unsell(awards, slot)
    refunds = {award.pk: award.returned - before[award.pk] for award in awards}  # only of this cut
    _move_jobs(live, refunds, slot, cause, following, at)
    tell, again = _given_up if following.given_up else partial(_requeued, slot), {award.pk for award in live}
    return Voided(
        awards,
        again=[] if following.given_up else live,
        refunded=sum(amount for posting in postings for _, amount in posting.entries if amount > 0),
        events=[(tell if award.pk in again else _shorter)(award, refunds[award.pk], cause, at) for award in awards],
        postings=postings,
    )


def _others_of(awards: Sequence[Award], slot: int) -> list[Award]:
    """Lock and return further awards of the same jobs that are alive from `slot` on, except given up ones: of these
    nothing more is to be delivered."""
    others = awards_beside(awards, slot)
    if others is None:
        return []
    return list(others.filter(cut_at=None).select_for_update(of=("self",)).order_by("pk"))


def awards_beside(awards: Sequence[Award], slot: int) -> QuerySet[Award] | None:
    """Return the awards that are lost together with these from `slot` on: a job that runs in pieces loses all its
    awards. Return None if none of these jobs runs in pieces."""
    jobs = [award.job_id for award in awards if award.work is not None and award.state in ALIVE]
    if not jobs:
        return None
    named = [award.pk for award in awards]
    return Award.objects.filter(job__in=jobs, state__in=ALIVE, end__gt=slot).exclude(pk__in=named)


@dataclass(frozen=True)
class PaidBack:
    """What awards that were given up got back. The caller still has to write `events` and `postings`."""

    refunded: int
    events: Sequence[Event]
    postings: Sequence[Posting]


def slots_pay_back(
    pool: Pool, awards: Sequence[Award], slot: int, cause: Cause, at: datetime, *, outage_end: int | None = None
) -> PaidBack:
    """Return the money of slots that were not delivered to awards that were given up: from `slot` on until they were
    given up, and further to the end of an outage.

    Nothing more of such an award was to be delivered, so nothing else of it is lost: it pays on for the slots after
    these, in which its units are sold again for its account. `slots_missed` names the slots for whoever asks later.
    """
    if not awards:
        return PaidBack(0, (), ())
    jobs, reader = TrainingJob.objects.in_bulk([award.job_id for award in awards]), UnitReader(pool)
    units: defaultdict[str, defaultdict[CalendarUnit, float]] = defaultdict(lambda: defaultdict(float))
    events, postings = list[Event](), list[Posting]()
    for award in awards:
        for unit, amount in reader.units_of(award, jobs[award.job_id], since=slot).items():
            units[award.lane][unit] += amount
        first, used_until = max(slot, award.start), award.used_until
        missed = range(first, min(max(used_until, outage_end or 0), award.end))
        slots_back = [each for each in missed if each not in award.missed]
        owed = dict(enumerate(award.owed, award.start))  # nothing in an award that is free
        refund = sum(part for each in slots_back for _, part in owed.get(each, ()))
        if first < used_until:  # it was to run in some of these slots
            award.cut_at, award.pays_from = first, award.pays_from or used_until
        award.returned += refund
        if refund:
            # A further failure is in an earlier slot, and a further outage in a later one.
            key = f"refund:{award.pk}:{'from' if outage_end is None else 'outage'}{first}"
            postings.append(_refund(award, key, refund, cause, first, at))
        data = {"cause": cause.code, **cause.facts, "refunded": refund, "pays_on": True, "pays_from": award.pays_from}
        events.append(_award_event(EventKind.AWARD_CUT, award, data, at))
    for lane, amounts in sorted(units.items()):
        units_release(Lane(lane), amounts)
    Award.objects.bulk_update(awards, ["cut_at", "pays_from", "returned"], batch_size=1_000)
    refunded = sum(amount for posting in postings for _, amount in posting.entries if amount > 0)
    return PaidBack(refunded, events, postings)


def job_waits_after_its_end(award: Award, slot: int, cause: Cause, following: Next, at: datetime) -> Event | None:
    """Let the job of an award that is over wait again, or give it up: the platform lost it before its end, and that was
    heard of when the clock had stopped the job for what it had left to do. Return the event, which is still to be
    written, or None where the clock did not stop it so.

    What is settled stays settled, so nothing comes back. A job in pieces stays as it is, since the work of a piece that
    is over counts as done.
    """
    (job,) = jobs_locked([award.job_id])
    is_stopped = job.state == JobState.STOPPED and job.reason_code == RESERVATION_ENDED
    if not is_stopped or award.state != AwardState.DONE or award.work is not None or award.attempt != job.attempt:
        return None
    _move_jobs([award], {award.pk: 0}, slot, cause, following, at)
    return _given_up(award, 0, cause, at) if following.given_up else _requeued(slot, award, 0, cause, at)


def refunds_post(postings: Sequence[Posting]) -> None:
    """Post the refunds. This must be the last thing in the transaction."""
    answer = post_many(postings=postings)
    if isinstance(answer, InsufficientFunds):
        raise HoldMissing(str(answer))


def jobs_locked(job_ids: Sequence[int]) -> list[TrainingJob]:
    return list(TrainingJob.objects.select_for_update(of=("self",)).filter(pk__in=job_ids).order_by("pk"))


def _cut(award: Award, slot: int, cause: Cause, at: datetime) -> Posting | None:
    """Cut one award from `slot` on, and return the refund, or None where these slots cost nothing."""
    cut = max(slot, award.start)
    undelivered = award.owed[cut - award.start : max(award.paid_until, cut) - award.start]
    amount = sum(part for parts in undelivered for _, part in parts)
    # Each further cut is in an earlier slot, so its slot makes a key of its own.
    key = f"refund:{award.pk}:from{cut}" if award.state == AwardState.VOID else f"refund:{award.pk}:1"
    award.state, award.cut_at, award.returned = AwardState.VOID, cut, award.returned + amount
    return _refund(award, key, amount, cause, cut, at) if amount else None


def _refund(award: Award, key: str, amount: int, cause: Cause, slot: int, at: datetime) -> Posting:
    return Posting(
        key=key,
        kind="refund",
        entries=((held(award.tenant_id), -amount), (available(award.tenant_id), amount)),
        at=at,
        subject=job_subject(award.job_id),
        facts={"award": award.pk, "cause": cause.code, **cause.facts, "from_slot": slot},
    )


def _unsell(awards: Sequence[Award], slot: int) -> None:
    """Stop selling units that these awards had given up: after the refund their income is no longer the tenant's."""
    freed = FreedUnits.objects.filter(award__in=awards, slot__gte=slot)
    freed.filter(sold=0).delete()
    freed.filter(sold__gt=0).update(amount=F("sold"))


def _store(awards: Sequence[Award]) -> None:
    rows = [(award.pk, award.cut_at, award.returned) for award in awards]
    with connection.cursor() as cursor:
        cursor.execute(_VOID, [AwardState.VOID, *([row[column] for row in rows] for column in range(3))])


def _move_jobs(
    awards: Sequence[Award], refunds: Mapping[int, int], slot: int, cause: Cause, following: Next, at: datetime
) -> None:
    """Make the jobs of these awards wait again, or give them up. They keep their first arrival and wait in the batch
    lane: the instant lane is not tried a second time. Where slots are awarded one by one, the next slot is no new
    attempt. A late clock may still decide about slots that the old award pays for, so a job may be decided about only
    from `slot` on, the first that was not delivered: of an award that had not begun this is before its start."""
    facts = json.dumps(dict(cause.facts))
    ids, returned = [award.job_id for award in awards], [refunds[award.pk] for award in awards]
    attempts = [int(award.work_left is None) for award in awards]
    if following.given_up:
        place = [JobState.FAILED, None, at, 0, GIVEN_UP]
    else:
        place = [JobState.QUEUED, Lane.BATCH, None, max(following.not_before, slot), cause.code]
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, [*place, facts, ids, returned, attempts])


def _requeued(slot: int, award: Award, refunded: int, cause: Cause, at: datetime) -> Event:
    data = {"cause": cause.code, **cause.facts, "refunded": refunded, "from_slot": slot}
    return _award_event(EventKind.JOB_REQUEUED, award, data, at)


def _given_up(award: Award, refunded: int, cause: Cause, at: datetime) -> Event:
    numbers = {**cause.facts, "refunded": refunded}
    return _award_event(EventKind.JOB_FAILED, award, {"reason": GIVEN_UP, "numbers": numbers}, at)


def _shorter(award: Award, refunded: int, cause: Cause, at: datetime) -> Event:
    """Return the event for an award whose job does not wait again now: it was cancelled, or waits since an earlier
    cut."""
    return _award_event(EventKind.AWARD_CUT, award, {"cause": cause.code, **cause.facts, "refunded": refunded}, at)


def _award_event(kind: EventKind, award: Award, data: Mapping[str, Any], at: datetime) -> Event:
    subject, data = job_subject(award.job_id), {"job": award.job_id, **data, **cut_told(award)}
    return event(kind, pool_id=award.pool_id, tenant_id=award.tenant_id, subject=subject, at=at, data=data)


def cut_told(award: Award, freed: tuple[int, int] | None = None) -> dict[str, Any]:
    """Return the data of an event about an award that is cut short: the slot of the cut, and the slots [begin, end) in
    which the units that it gave up are sold for its tenant's account. A verification compares the rows with it."""
    return {"award": award.pk, "cut_at": award.cut_at, "freed": None if freed is None else list(freed)}
