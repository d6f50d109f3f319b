"""Store a plan of the batch lane: floors, awards, the new states of the jobs, and the events about it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import F, Q

from scheduling.core import settlement
from scheduling.core.speed import TOLERANCE
from scheduling.core.types import SHARED, WAITING, Booking, Floor, Job, Plan, Reason, Refusal, View
from scheduling.feed import EventKind, event, events_append, job_subject
from scheduling.market.decide.terms import allocation_rows, award_new
from scheduling.market.reads.explain import reason_of_length
from scheduling.market.settle.payments import hold_key, paid_late
from scheduling.market.settle.rents import Closing
from scheduling.market.view.batch import BatchSnapshot
from scheduling.market.view.floors import floors_standing
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.pieces import pieces_so_far
from scheduling.market.view.specs import SpecReader
from scheduling.models import (
    BETTER_ALONE,
    NOT_DONE,
    Award,
    Event,
    Interval,
    JobState,
    Lane,
    Pool,
    RentState,
    TrainingJob,
)
from tenants.ledger.postings import Posting, available, held
from tenants.ledger.split import split


class UnbookablePlan(RuntimeError):
    """A policy returned a plan that this market cannot book."""


FLOOR_COLUMNS = ("tenant_id", "job_id", "attempt", "interval_id", "value", "start", "end", "worker_type", "ps_type",
                 "allocation", "draft")  # fmt: skip
AT_ONCE = 500  # awards that are made and stored together
_FLOORS = f"COPY scheduling_jobfloor ({', '.join(map(json.dumps, FLOOR_COLUMNS))}) FROM STDIN"
_AWARD_FIELDS = [field for field in Award._meta.concrete_fields if not field.primary_key]
_AWARDS = f"COPY scheduling_award ({', '.join(json.dumps(field.column) for field in _AWARD_FIELDS)}) FROM STDIN"


def floors_store(snapshot: BatchSnapshot, interval: Interval, floors: Sequence[Floor]) -> None:
    """Store the floors with one COPY, since at a first interval every waiting job gets one. The ids of the rows are not
    read back, because nobody needs them."""
    if not floors:
        return
    with connection.cursor() as cursor, cursor.copy(_FLOORS) as copy:
        for floor in floors:
            *columns, allocation, draft = floor_row(snapshot, interval, floor)
            copy.write_row((*columns, json.dumps(allocation), draft))


def floor_row(snapshot: BatchSnapshot, interval: Interval, floor: Floor) -> tuple[Any, ...]:
    """Return the values of a floor's row, in the order of `FLOOR_COLUMNS`."""
    job, allocation = snapshot.row(floor.job), allocation_rows(snapshot.frame, floor.allocation)
    whose = (job.tenant_id, floor.job, job.attempt, interval.pk)
    when = (floor.value, floor.start, floor.end)
    return (*whose, *when, floor.worker_type, floor.ps_type, allocation, floor.draft)


_MAY_BE_MISSED = """
SELECT DISTINCT job.id
  FROM scheduling_trainingjob AS job JOIN scheduling_jobfloor AS floor ON floor.job_id = job.id
 WHERE floor.attempt = job.attempt AND floor.value > 0 AND floor.start < %s
   AND NOT floor.draft AND job.pool_id = %s AND job.lane = 'batch' AND job.state = 'queued'
"""


def floors_missed_void(pool_id: int, slot: int, at: datetime) -> None:
    """Void the floors of waiting jobs that should have begun before this slot: their jobs get a new attempt and will be
    planned anew. Only the valid floor of a job counts, and not one that was lost with a server and replaced.

    There are two causes, as every window is decided before it begins. Either the lane was held, so that the platform
    failed the job. Or the job had rented all of its work before that place, and its program did not do as much.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MAY_BE_MISSED, [slot, pool_id])
        numbers = [number for (number,) in cursor.fetchall()]
    if not numbers:
        return
    passed = Q(job__in=numbers, value__gt=0, start__lt=slot, draft=False)
    starts = {floor.job_id: floor.start for floor in floors_standing(pool_id, passed).values()}
    jobs = list(TrainingJob.objects.filter(pk__in=starts).order_by("pk"))
    TrainingJob.objects.filter(pk__in=starts).update(attempt=F("attempt") + 1)
    begun, reader, events = pieces_so_far(jobs), SpecReader(Pool.objects.get(pk=pool_id)), []
    for job in jobs:
        lags = job.pk in begun and begun[job.pk].work >= reader.read(job).work
        data = {"reason": "behind_plan" if lags else "floor_missed", "job": job.pk, "start": starts[job.pk]}
        events.append(_job_event(EventKind.JOB_REQUEUED, pool_id, job.tenant_id, job.pk, data, at))
    events_append(events)


def awards_store(snapshot: BatchSnapshot, interval: Interval, plan: Plan) -> list[Award]:
    """Store the plan's bookings as awards and return them in the plan's order. So that a pool of many owners fits into
    memory, a few hundred are made at a time, each with one COPY, and what each owner gets of them is forgotten as soon
    as it is stored."""
    drafts, awards = drafts_after(snapshot.view, plan), list[Award]()
    for begin in range(0, len(plan.bookings), AT_ONCE):
        bookings = plan.bookings[begin : begin + AT_ONCE]
        amounts = settlement.charges_of_all(bookings)
        stored = [award_of(snapshot, booking, due) for booking, due in zip(bookings, amounts, strict=True)]
        if snapshot.frame.pool.is_elastic:
            _slots_say(snapshot, bookings, stored)
        for award, booking in zip(stored, bookings, strict=True):
            award.interval, award.awarded_at = interval, interval.decided_at
            award.rent = RentState.OPEN if is_open(booking, drafts) else RentState.NONE
        with connection.cursor() as cursor, cursor.copy(_AWARDS) as copy:
            for award in stored:
                values = ((field, getattr(award, field.attname)) for field in _AWARD_FIELDS)
                copy.write_row([field.get_db_prep_save(value, connection) for field, value in values])
        for award in stored:
            del award.owners, award.amounts  # read again from the database, should anybody ask
        awards += stored
    if not awards:
        return []
    # A COPY returns no ids. No two awards of an interval are of the same job and begin with the same slot.
    ids = Award.objects.filter(interval=interval).values_list("job", "start", "pk")
    numbers = {(job, start): pk for job, start, pk in ids}
    for award in awards:
        award.pk = numbers[award.job_id, award.start]
    return awards


def is_open(booking: Booking, drafts: Collection[int]) -> bool:
    """Return whether nothing is paid for this booking before its rent is settled. That is so if the job rents and is
    among `drafts`, the jobs that still wait in their owner's world alone (K4), or if its payment is provisional
    (D16)."""
    return booking.provisional or (booking.phase == SHARED and booking.job in drafts)


def drafts_after(view: View, plan: Plan) -> frozenset[int]:
    """Return the jobs that still wait in their owner's world alone once the plan is made."""
    floors = {**view.floors, **{floor.job: floor for floor in plan.floors}}
    return frozenset(number for number, floor in floors.items() if floor.draft)


def rents_settled(snapshot: BatchSnapshot, interval: Interval, plan: Plan) -> list[Closing]:
    """Return the plan's settlements of open rents in whole micro-credits, each with the job's place at home from which
    it follows. A refund is split by what is held for each rent, which is all of its price that did not come back: an
    open rent has paid for no slot, and none of them was given up before its start or cut short."""
    floors = {**snapshot.view.floors, **{floor.job: floor for floor in plan.floors}}
    all_or_nothing, closings = snapshot.frame.pool.parts_worth_nothing, []
    for settled in plan.settlements:
        awards, alone = snapshot.open_rents[settled.job], floors.get(settled.job, Floor(settled.job))
        cause = NOT_DONE if all_or_nothing and settled.worth == 0 else BETTER_ALONE
        facts = {"cause": cause, "interval": interval.number, "alone": settled.alone}
        facts |= {"from_slot": alone.start, "to_slot": alone.end}
        parts = refunds_of(settled.refund, [award.paid - award.returned for award in awards])
        closings += [Closing(award, part, facts) for award, part in zip(awards, parts, strict=True)]
    return closings


def refunds_of(refund: float, paid: Sequence[int]) -> list[int]:
    """Return how many micro-credits come back of each of a job's rents. The whole refund (in credits) is rounded once,
    and split in proportion to what each rent has paid."""
    whole = min(settlement.micro(refund), sum(paid))
    return list(split(whole, list(paid))) if whole else [0] * len(paid)


def award_of(snapshot: BatchSnapshot, booking: Booking, amounts: settlement.Amounts) -> Award:
    """Return the award of a booking, not saved. `amounts` (slots, owners) are its charges in whole micro-credits."""
    frame, job = snapshot.frame, snapshot.waiting.get(booking.job)
    wish = snapshot.view.jobs.get(booking.job)
    whole = not frame.pool.is_elastic and wish is not None and not wish.divisible
    if job is None or wish is None or (whole and booking.work < wish.work):
        raise UnbookablePlan(f"job {booking.job} does not wait, or is not given all it needs")
    award = award_new(job, frame, booking, amounts, lane=Lane.BATCH)
    award.work = work_in_pieces(wish, booking)
    return award


def work_in_pieces(job: Job, booking: Booking) -> int | None:
    """Return the mini-batches that an award covers of a job that can be saved and continued; None for any other job."""
    return int(booking.work) if job.divisible else None


def _slots_say(snapshot: BatchSnapshot, bookings: Sequence[Booking], awards: Sequence[Award]) -> None:
    """Write into each award of a single slot how much work it leaves, and what its job had paid before it."""
    view = snapshot.view
    remaining = dict(zip((job.number for job in view.waiting), view.remaining.tolist(), strict=True))
    for booking, award in zip(bookings, awards, strict=True):
        award.work_left = work_left(view.jobs[booking.job], remaining[booking.job], booking)
        before = snapshot.slots.get(booking.job)
        award.paid_before = before.paid if before else 0


def work_left(job: Job, remaining: float, booking: Booking) -> float:
    """Return the mini-batches that are left after a booking of one slot. A rest that is only an error of rounding
    counts as 0, as in a simulation."""
    rest = remaining - booking.work
    return rest if rest > TOLERANCE * job.work else 0.0


def paid_by(bookings: Iterable[Booking]) -> int:
    """Return what all the bookings pay, in micro-credits. A booking's charges add up to its payment, rounded once."""
    return sum(settlement.micro(booking.paid) for booking in bookings)


def holds_of(awards: Iterable[Award], interval: Interval) -> list[Posting]:
    """Return the postings that set aside the price of each rented award: from its tenant's available credits to its
    held ones."""
    return [
        Posting(
            key=hold_key(award.pk),
            kind="hold",
            entries=((available(award.tenant_id), -award.paid), (held(award.tenant_id), award.paid)),
            at=interval.decided_at,
            subject=job_subject(award.job_id),
            facts={"award": award.pk, "interval": interval.number, "start": award.start, "end": award.end},
        )
        for award in awards
        if award.paid
    ]


def jobs_award(awards: Sequence[Award], states: Sequence[str]) -> None:
    """Set the state of the jobs that got awards; they no longer wait. A job with a piece and a place at home has two
    awards. `states` are the states in which a job may be decided about."""
    numbers = {award.job_id for award in awards}
    queued = TrainingJob.objects.filter(pk__in=numbers, state__in=states)
    changed = queued.update(state=JobState.AWARDED, reason_code="", reason_numbers={})
    if changed != len(numbers):
        raise UnbookablePlan(f"{len(numbers) - changed} jobs stopped waiting while they were given a schedule")


_WORTHS = """
UPDATE scheduling_trainingjob AS job SET worth = said.worth
  FROM unnest(%s::bigint[], %s::float8[]) AS said (id, worth) WHERE job.id = said.id
"""


def worths_store(worths: Mapping[int, float | None]) -> None:
    """Store what the finished part of jobs that were begun in pieces is worth to their owners (D4)."""
    if worths:
        with connection.cursor() as cursor:
            cursor.execute(_WORTHS, [list(worths), list(worths.values())])


_REFUSE = """
UPDATE scheduling_trainingjob AS job
   SET state = told.state, reason_code = told.code, reason_numbers = told.numbers::jsonb,
       ended_at = CASE WHEN told.state = 'queued' THEN job.ended_at ELSE %s END
  FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[]) AS told (id, state, code, numbers)
 WHERE job.id = told.id AND job.state = ANY (%s)
"""


def jobs_refuse(refusals: Sequence[Refusal], states: Sequence[str], at: datetime) -> None:
    """Store state and reason of jobs that got nothing. `states` are the states in which a job may be decided about."""
    if not refusals:
        return
    columns = (
        [refusal.job for refusal in refusals],
        [state_of(refusal) for refusal in refusals],
        [refusal.reason.code for refusal in refusals],
        [json.dumps(numbers_of(refusal.reason), allow_nan=False) for refusal in refusals],
    )
    with connection.cursor() as cursor:
        cursor.execute(_REFUSE, [at, *columns, list(states)])


def longest_told(refusal: Refusal, longest: int | None, *, in_pieces: bool) -> Refusal:
    """Put the longest window that there will be into the reason of a job that waits because it is longer than the
    window just dealt out."""
    if refusal.state != WAITING or refusal.reason.code != "larger_than_window":
        return refusal
    return replace(refusal, reason=reason_of_length(refusal.reason.numbers, longest, in_pieces=in_pieces))


def state_of(refusal: Refusal) -> str:
    return str(JobState.QUEUED) if refusal.state == WAITING else refusal.state


def news(snapshot: BatchSnapshot, refusals: Iterable[Refusal]) -> list[Refusal]:
    """Return the refusals that differ from what is already in the job's row."""
    return [refusal for refusal in refusals if _differs(snapshot.waiting[refusal.job], refusal)]


def _differs(job: TrainingJob, refusal: Refusal) -> bool:
    stands = (job.state, job.reason_code, job.reason_numbers)
    return refusal.state != WAITING or stands != (JobState.QUEUED, refusal.reason.code, numbers_of(refusal.reason))


def numbers_of(reason: Reason) -> dict[str, Any]:
    """Return the numbers of a reason as plain JSON values."""
    numbers = reason.numbers.items()
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in numbers}


def award_events(awards: Iterable[Award], interval: Interval) -> list[Event]:
    """Return events that tell each tenant of its jobs' awards. An award that begins with the decided slot has also
    started."""
    events = []
    for award in awards:
        data = {"job": award.job_id, "award": award.pk, "lane": award.lane, "phase": award.phase}
        data |= {"start": award.start, "end": award.end, "workers": award.workers, "paid": award.paid}
        kinds = (
            [EventKind.JOB_AWARDED, EventKind.JOB_STARTED] if award.start <= interval.slot else [EventKind.JOB_AWARDED]
        )
        about = (award.pool_id, award.tenant_id, award.job_id, data, interval.decided_at)
        events += [_job_event(kind, *about) for kind in kinds]
    return events


def refusal_events(
    snapshot: BatchSnapshot, refusals: Iterable[Refusal], last: Collection[int], at: datetime
) -> list[Event]:
    """Return events that tell each tenant of its jobs that got nothing. A reason's numbers change at every boundary, so
    a waiting job has an event only when the code is new. `last` are waiting jobs that had their last chance, for which
    there is another event too (`last_chance_events`). `begun` is said of a job that is over and has paid before."""
    events = []
    for refusal in refusals:
        job = snapshot.waiting[refusal.job]
        pauses = job.state != JobState.QUEUED  # it ran until now, in an elastic pool
        if refusal.state != WAITING or pauses or job.reason_code != refusal.reason.code:
            data = {"job": job.pk, "reason": refusal.reason.code, "numbers": numbers_of(refusal.reason)}
            data |= {"last_chance": True} if refusal.job in last else {}
            data |= {"begun": True} if refusal.state != WAITING and snapshot.paid_before(job.pk) else {}
            events.append(_job_event(_KINDS[refusal.state], job.pool_id, job.tenant_id, job.pk, data, at))
    return events


def last_chance_events(snapshot: BatchSnapshot, last: Mapping[int, Reason], at: datetime) -> list[Event]:
    """Return events that tell each tenant which of its jobs were outbid in their last chance, and at what price. Each
    job has one such event, since at the next boundary it is worth nothing."""
    events = []
    for number, reason in sorted(last.items()):
        job, data = snapshot.waiting[number], {"job": number, "reason": reason.code, "numbers": numbers_of(reason)}
        events.append(_job_event(EventKind.JOB_LAST_CHANCE, job.pool_id, job.tenant_id, number, data, at))
    return events


def _job_event(
    kind: EventKind, pool_id: int, tenant_id: int, job_id: int, data: Mapping[str, Any], at: datetime
) -> Event:
    return event(kind, pool_id=pool_id, at=at, tenant_id=tenant_id, subject=job_subject(job_id), data=data)


_KINDS = {"waiting": EventKind.JOB_WAITING, "rejected": EventKind.JOB_REFUSED, "expired": EventKind.JOB_EXPIRED}


def interval_event(frame: PoolFrame, interval: Interval, plan: Plan, arrears: Sequence[Posting]) -> Event:
    """Return the public event that an interval was decided, and at what prices. `arrears` are the postings that pay
    owners for past slots of the rents that it settled."""
    late = paid_late(arrears)
    data: Mapping[str, Any] = {
        "number": interval.number,
        "slot": interval.slot,
        "window": None if interval.window_start is None else [interval.window_start, interval.window_end],
        "prices": _price_ranges(frame, plan),
        "waiting": interval.jobs_waiting,
        "awarded": interval.jobs_awarded,
        "paid": interval.paid,
        "arrears": late.owners + late.operator,
    }
    subject = f"interval:{interval.number}"
    return event(EventKind.INTERVAL_CLOSED, pool_id=frame.pool.pk, at=interval.decided_at, subject=subject, data=data)


def _price_ranges(frame: PoolFrame, plan: Plan) -> dict[str, list[float]]:
    """Map each resource to the [lowest, highest] posted price of the windows."""
    return {
        resource: [
            min(float(window.prices[index].min()) for window in plan.windows),
            max(float(window.prices[index].max()) for window in plan.windows),
        ]
        for index, resource in enumerate(frame.cluster.resources)
        if plan.windows
    }
