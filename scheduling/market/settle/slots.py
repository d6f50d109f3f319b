"""The end of a slot: the owners of the units are paid for it, and awards begin and end.

Everything about one slot is one transaction under both lanes' locks, and slots are settled in order. So at any moment
either nothing of a slot is paid or all of it, and a second call finds it done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import JSONField, QuerySet
from django.db.models.expressions import RawSQL

from scheduling.common import Steps
from scheduling.core.collector import collector_resting
from scheduling.core.stored_charges import slot_parts
from scheduling.feed import EventKind, event, events_append, job_subject
from scheduling.market.calendar.lanes import Busy, lane_lock, pool_now
from scheduling.market.settle.deliveries import outage_over
from scheduling.market.settle.payments import paid_late, slot_posting
from scheduling.market.settle.pieces import jobs_wait_again, pieces_over, saved_events
from scheduling.market.settle.rents import rents_close, rents_cut
from scheduling.market.settle.run_states import RESERVATION_ENDED, unfinished
from scheduling.models import (
    ALIVE,
    PROGRAM,
    Award,
    AwardState,
    Event,
    JobState,
    Lane,
    LaneClock,
    Pool,
    RentState,
    StartEstimate,
    TrainingJob,
    paying_for,
)
from scheduling.money import low_balance_events
from tenants.common.repeated import RepeatedRead, Whose
from tenants.ledger.postings import InsufficientFunds, Posting
from tenants.ledger.services import post_batches
from tenants.scoping import scope_disabled

BATCH = 2_500  # postings that the database writes in one call, while the next ones are built


class NotDelivered(RuntimeError):
    """Somebody tried to settle a slot that passed in an outage."""


class HeldTooLittle(RuntimeError):
    """An award's hold no longer covers its charges. The book allows no such thing, so something is broken."""


@dataclass(frozen=True)
class Settled:
    """All that was paid with one slot, in micro-credits: paid = owners + operator. This includes earlier slots of rents
    that were cut short, which stayed held until now. `started` and `ended` count awards at the slot's end."""

    slot: int
    awards: int
    paid: int
    owners: int
    operator: int
    started: int
    ended: int


@dataclass(frozen=True)
class Charge:
    """What one award owes for one slot."""

    award_id: int
    job_id: int
    tenant_id: int
    parts: Sequence[Sequence[int]]  # (owner's tenant id or 0 for the operator, micro-credits)


class AwardMove(NamedTuple):
    """An award that begins or ends at a boundary. `slot` is the award's start if it begins and its end if it ends; the
    job's event names it."""

    award_id: int
    job_id: int
    tenant_id: int
    cut_at: int | None
    slot: int


@transaction.atomic
def slot_settle(*, pool_id: int, slot: int, at: datetime) -> Settled | Busy | None:
    """Pay for `slot`, which has passed, and start and end awards at the boundary after it.

    Return None if it is settled already, or the slot before it is not.
    """
    # 1. The turn: go on only if the slot before is the last one settled; otherwise return.
    batch = lane_lock(pool_id=pool_id, lane=Lane.BATCH, wait=False)
    if batch is None:
        return Busy()
    if batch.settled_slot != slot - 1:
        return None
    if outage_over(pool_id, slot) is not None:
        raise NotDelivered(f"slot {slot} of pool {pool_id}")
    # The instant lane sells and starts up to this same boundary, so the two wait for each other while money moves.
    lane_lock(pool_id=pool_id, lane=Lane.INSTANT)
    pool = pool_now(pool_id)
    steps = Steps("settlement", f"{pool.slug}:{slot}")
    with scope_disabled("a slot is settled for all tenants of a pool at once"), collector_resting():
        # 2. Gather what each award owes for the slot, and to whom; and rents that were cut short.
        closings = rents_cut(pool)
        arrears, _ = rents_close(pool, closings, slot - 1, pool.slot_start(slot + 1)) if closings else ([], [])
        charges = _charges(pool, slot)
        steps.done("gather", quietly=not charges, charges=len(charges))

        # 3. Awards begin and end at the boundary after it.
        started, ended = awards_move(pool, slot + 1, at)
        LaneClock.objects.filter(pk=batch.pk).update(settled_slot=slot)
        steps.done("move", quietly=not started + ended, started=started, ended=ended)

        # 4. Pay, in one call of the book.
        _post(pool, slot, charges, arrears)
        settled = _sums(slot, charges, arrears, started, ended)
        steps.done(
            "pay", quietly=not settled.awards, paid=settled.paid, owners=settled.owners, operator=settled.operator
        )

        # 5. Publish the sums, and tell tenants whose money runs out.
        _tell(pool, settled, charges, at)
        steps.done("tell", quietly=not charges, last=True)
    return settled


def _charges(pool: Pool, slot: int) -> list[Charge]:
    """Return what awards owe for the slot. Every slot before this one is settled. An open rent owes nothing until it is
    closed. `parts` has the slot of awards of older versions."""
    entries = _owing(pool_id=pool.pk, slot=slot)
    adjusted = [pk for pk, _, _, _, refunded, *_ in entries if refunded]
    less = {award.pk: award.owed[slot - award.start] for award in Award.objects.filter(pk__in=adjusted)}
    return [
        Charge(pk, job_id, tenant_id, less[pk] if pk in less else slot_parts(slot - start, owners, amounts, parts))
        for pk, job_id, tenant_id, start, _, owners, amounts, parts in entries
    ]


def _owing_of(pool_id: int, slot: int) -> QuerySet[Award, Any]:
    due = Award.objects.filter(paying_for(slot), pool=pool_id, paid__gt=0).exclude(rent=RentState.OPEN)
    rows = due.annotate(parts=RawSQL('charges -> (%s - "start")::int', [slot], output_field=JSONField()))
    columns = ("pk", "job_id", "tenant_id", "start", "adjusted", "owners", "amounts", "parts")
    return rows.order_by("pk").values_list(*columns)


_owing = RepeatedRead(_owing_of, of=Whose.ALL, pool_id=-1, slot=-2)


def _post(pool: Pool, slot: int, charges: Sequence[Charge], arrears: Sequence[Posting]) -> None:
    """Post arrears first, then the charges in the order of awards. A charge moves credits from held to earned accounts,
    so it never funds a later charge: an account that is short in one batch is short altogether."""
    # Postings carry the time of the slot's end, not of this call, so that a repeated call makes the same postings.
    ends_at = pool.slot_start(slot + 1)
    owing = [charge for charge in charges if any(amount for _, amount in charge.parts)]

    def batch(some: Sequence[Charge]) -> list[Posting]:
        return [
            slot_posting(pool.pk, charge.award_id, charge.tenant_id, charge.job_id, slot, charge.parts, ends_at)
            for charge in some
        ]

    batches = [partial(batch, owing[first : first + BATCH]) for first in range(0, len(owing), BATCH)]
    tenant_ids = {account.tenant_id for posting in arrears for account, _ in posting.entries if account.tenant_id}
    tenant_ids |= {charge.tenant_id for charge in owing}
    tenant_ids |= {owner for charge in owing for owner, amount in charge.parts if owner and amount}
    answer = post_batches(batches=[lambda: arrears, *batches] if arrears else batches, tenant_ids=tenant_ids)
    if isinstance(answer, InsufficientFunds):
        raise HeldTooLittle(f"slot {slot} of pool {pool.pk}: {answer}")


def awards_move(pool: Pool, boundary: int, at: datetime) -> tuple[int, int]:
    """Start and end awards at the boundary before slot `boundary`. Return (awards started, awards ended). Nothing
    starts in an outage."""
    ending = [AwardMove(*row) for row in _ending(pool_id=pool.pk, boundary=boundary)]
    over = [move for move in ending if move.cut_at is None]
    cut = [move for move in ending if move.cut_at is not None]
    for state, moves in ((AwardState.DONE, over), (AwardState.ENDED, cut)):
        if moves:
            Award.objects.filter(pk__in=[move.award_id for move in moves]).update(state=state)
    if pool.is_elastic:
        over = _last_of_their_jobs(over)
    short = unfinished([move.award_id for move in over])
    saved = jobs_wait_again(pieces_over(pool, [move.award_id for move in over], short))
    go_on = {each.award_id for each in saved}
    over = [move for move in over if move.award_id not in go_on]
    finished = _jobs_finish([move for move in over if move.job_id not in short], at)
    stopped = _jobs_stop([move for move in over if move.job_id in short], short, at)
    due = [AwardMove(*row) for row in _starting(pool_id=pool.pk, boundary=boundary)]
    if due and outage_over(pool.pk, boundary) is not None:
        due = []
    begun = awards_start(due)
    events_append(
        [
            *saved_events(pool, saved, boundary, at),
            *_job_events(EventKind.JOB_FINISHED, pool, [move for move in over if move.job_id in finished], at),
            *_job_events(EventKind.JOB_STOPPED, pool, [move for move in over if move.job_id in stopped], at, short),
            *_job_events(EventKind.JOB_STARTED, pool, [move for move in due if move.job_id in begun], at),
        ]
    )
    return len(due), len(ending)


_MOVE = ("pk", "job_id", "tenant_id", "cut_at")
_ending = RepeatedRead(
    lambda pool_id, boundary: (
        Award.objects.filter(pool=pool_id, state__in=ALIVE, end__lte=boundary).order_by("pk").values_list(*_MOVE, "end")
    ),
    of=Whose.ALL,
    pool_id=-1,
    boundary=-2,
)
_starting = RepeatedRead(
    lambda pool_id, boundary: (
        Award.objects.filter(pool=pool_id, state=AwardState.BOOKED, start__lte=boundary)
        .order_by("pk")
        .values_list(*_MOVE, "start")
    ),
    of=Whose.ALL,
    pool_id=-1,
    boundary=-2,
)


def _last_of_their_jobs(moves: Sequence[AwardMove]) -> list[AwardMove]:
    """Return those awards of single slots that leave no work to do. Jobs with a program are left out: the program
    itself reports when it has finished."""
    pks = [move.award_id for move in moves]
    last = Award.objects.filter(pk__in=pks, work_left=0).exclude(job__spec__has_key=PROGRAM)
    done = set(last.values_list("pk", flat=True))
    return [move for move in moves if move.award_id in done]


def awards_start(moves: Sequence[AwardMove]) -> set[int]:
    """Start these awards and their jobs, except jobs that were cancelled meanwhile. Return the jobs that started.

    For these jobs the real start and price are written beside the estimates of them.
    """
    if not moves:
        return set()
    pks = [move.award_id for move in moves]
    Award.objects.filter(pk__in=pks).update(state=AwardState.RUNNING)
    begun = _jobs_move(moves, (JobState.AWARDED,), state=JobState.RUNNING, reason_code="", reason_numbers={})
    starts = {move.job_id: move.slot for move in moves if move.job_id in begun}
    estimates = list(StartEstimate.objects.filter(job__in=starts, started=None))
    if not estimates:
        return begun
    paid = dict(Award.objects.filter(pk__in=pks).values_list("job_id", "paid"))
    for estimate in estimates:
        estimate.started, estimate.paid = starts[estimate.job_id], paid[estimate.job_id]
    StartEstimate.objects.bulk_update(estimates, ["started", "paid"], batch_size=1_000)
    return begun


def _jobs_move(moves: Sequence[AwardMove], among: Sequence[JobState], **changes: object) -> set[int]:
    """Change the jobs of these awards that are in one of the states `among`, and return them. Others, such as a
    cancelled job, stay as they are."""
    if not moves:
        return set()
    jobs = TrainingJob.objects.filter(pk__in=[move.job_id for move in moves], state__in=among)
    moved = set(jobs.values_list("pk", flat=True))
    TrainingJob.objects.filter(pk__in=moved).update(**changes)
    return moved


def _jobs_finish(moves: Sequence[AwardMove], at: datetime) -> set[int]:
    """Finish the jobs of these awards. The reason is cleared: why a job had a small size in its last slot says nothing
    about a job that has ended."""
    changes = {"ended_at": at, "reason_code": "", "reason_numbers": {}}
    return _jobs_move(moves, (JobState.AWARDED, JobState.RUNNING), state=JobState.FINISHED, **changes)


def _jobs_stop(moves: Sequence[AwardMove], how_far: Mapping[int, Mapping[str, Any]], at: datetime) -> set[int]:
    """Stop jobs whose reserved time is over although their program had more to do. Return the jobs that were
    stopped."""
    stopped: set[int] = set()
    for move in moves:
        changes = {"ended_at": at, "reason_code": RESERVATION_ENDED, "reason_numbers": how_far[move.job_id]}
        stopped |= _jobs_move([move], (JobState.AWARDED, JobState.RUNNING), state=JobState.STOPPED, **changes)
    return stopped


def _job_events(
    kind: EventKind,
    pool: Pool,
    moves: Sequence[AwardMove],
    at: datetime,
    how_far: Mapping[int, Mapping[str, Any]] | None = None,
) -> list[Event]:
    """Return an event for each of these jobs. `how_far` has, by job, how far jobs came whose time is over."""
    ends_by_job = {job: {"reason": RESERVATION_ENDED, "numbers": dict(far)} for job, far in (how_far or {}).items()}
    return [
        event(
            kind,
            pool_id=pool.pk,
            tenant_id=move.tenant_id,
            subject=job_subject(move.job_id),
            at=at,
            data={"slot": move.slot, **ends_by_job.get(move.job_id, {})},
        )
        for move in moves
    ]


def _sums(slot: int, charges: Sequence[Charge], arrears: Sequence[Posting], started: int, ended: int) -> Settled:
    parts = [part for charge in charges for part in charge.parts]
    late = paid_late(arrears)
    operator = sum(amount for owner, amount in parts if not owner) + late.operator
    owners = sum(amount for owner, amount in parts if owner) + late.owners
    awards = {charge.award_id for charge in charges} | late.awards
    return Settled(slot, len(awards), owners + operator, owners, operator, started, ended)


def _tell(pool: Pool, settled: Settled, charges: Sequence[Charge], at: datetime) -> None:
    if not settled.awards:
        return
    spent: dict[int, int] = {}
    for charge in charges:
        spent[charge.tenant_id] = spent.get(charge.tenant_id, 0) + sum(amount for _, amount in charge.parts)
    numbers = {
        "slot": settled.slot,
        "awards": settled.awards,
        "paid": settled.paid,
        "owners": settled.owners,
        "operator": settled.operator,
    }
    public = event(EventKind.SLOT_SETTLED, pool_id=pool.pk, subject=f"slot:{settled.slot}", at=at, data=numbers)
    low = low_balance_events(pool, settled.slot, spent, at) if spent else []
    events_append([public, *low])
