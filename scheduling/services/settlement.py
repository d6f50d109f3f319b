"""The end of a slot: what it cost is paid to whoever owned the units, and awards begin and end.

Everything about one slot is one transaction under both lanes' locks, and slots are settled in order. So at any
moment either nothing of a slot is paid or all of it, and doing it again finds it done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import JSONField
from django.db.models.expressions import RawSQL

from scheduling.models import Award, AwardState, Event, JobState, Lane, LaneClock, Pool, StartEstimate, TrainingJob
from scheduling.services.balances import low_balance_events
from scheduling.services.collector import collector_resting
from scheduling.services.delivery import outage_over
from scheduling.services.feed import event, events_append, job_subject
from scheduling.services.lanes import Busy, lane_lock
from scheduling.services.run_states import RESERVATION_ENDED, unfinished
from scheduling.snapshots.specs import PROGRAM
from tenants.ledger.postings import OPERATOR, AccountName, InsufficientFunds, Posting, earned, settlement
from tenants.ledger.services import post_many
from tenants.scoping import scope_disabled

ALIVE = (AwardState.BOOKED, AwardState.RUNNING)


class NotDelivered(RuntimeError):
    """A slot that passed in an outage was to be paid for."""


class HeldTooLittle(RuntimeError):
    """An award's hold no longer covers its charges. The book allows no such thing, so something is broken."""


@dataclass(frozen=True)
class Settled:
    """One slot's money, in micro-credits: paid = owners + operator. And what began and ended at its end."""

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
    parts: Sequence[tuple[int, int]]  # (owner's tenant id or 0 for the operator, micro-credits)


@transaction.atomic
def slot_settle(*, pool_id: int, slot: int, at: datetime) -> Settled | Busy | None:
    """Pay for `slot`, which has passed, and move awards over the boundary after it.

    None: it is settled already, or the slot before it is not.
    """
    batch = lane_lock(pool_id=pool_id, lane=Lane.BATCH, wait=False)
    if batch is None:
        return Busy()
    if batch.settled_slot != slot - 1:
        return None
    if outage_over(pool_id, slot) is not None:
        raise NotDelivered(f"slot {slot} of pool {pool_id}")
    # The instant lane sells and starts up to this very boundary: it waits while money moves, and we for it.
    lane_lock(pool_id=pool_id, lane=Lane.INSTANT)
    pool = Pool.objects.get(pk=pool_id)
    with scope_disabled("a slot is settled for all tenants of a pool at once"), collector_resting():
        charges = _charges(pool, slot)
        started, ended = awards_move(pool, slot + 1, at)
        LaneClock.objects.filter(pk=batch.pk).update(settled_slot=slot)
        _post(pool, slot, charges)
        settled = _sums(slot, charges, started, ended)
        _tell(pool, settled, charges, at)
    return settled


def _charges(pool: Pool, slot: int) -> list[Charge]:
    """Awards that hold units in the slot and pay for them. A run that was given up pays to its end."""
    rows = (
        Award.objects.filter(pool=pool, state__in=ALIVE, start__lte=slot, end__gt=slot, paid__gt=0)
        .annotate(parts=RawSQL('charges -> (%s - "start")::int', [slot], output_field=JSONField()))
        .order_by("pk")
    )
    return [Charge(*row) for row in rows.values_list("pk", "job_id", "tenant_id", "parts")]


def _post(pool: Pool, slot: int, charges: Sequence[Charge]) -> None:
    # The money is about the slot, not about the moment somebody got round to it: repeated, it is the same posting.
    ends_at = pool.slot_start(slot + 1)
    postings = [
        _posting(pool, slot, charge, ends_at) for charge in charges if any(amount for _, amount in charge.parts)
    ]
    answer = post_many(postings=postings)
    if isinstance(answer, InsufficientFunds):
        raise HeldTooLittle(f"slot {slot} of pool {pool.pk}: {answer}")


def _posting(pool: Pool, slot: int, charge: Charge, ends_at: datetime) -> Posting:
    return settlement(
        key=f"settle:{pool.pk}:{slot}:{charge.award_id}",
        tenant_id=charge.tenant_id,
        parts=parts_by_account(charge.parts),
        at=ends_at,
        subject=job_subject(charge.job_id),
        facts={"slot": slot, "award": charge.award_id},
    )


def parts_by_account(parts: Sequence[tuple[int, int]]) -> dict[AccountName, int]:
    """Owners as `Award.charges` names them, as accounts of the book."""
    sums: dict[AccountName, int] = {}
    for owner, amount in parts:
        account = earned(owner) if owner else OPERATOR
        sums[account] = sums.get(account, 0) + amount
    return sums


def awards_move(pool: Pool, boundary: int, at: datetime) -> tuple[int, int]:
    """(awards started, awards ended) at the boundary before slot `boundary`. Nothing starts in an outage."""
    alive = Award.objects.filter(pool=pool, state__in=ALIVE)
    rows = list(
        alive.filter(end__lte=boundary).order_by("pk").values_list("pk", "job_id", "tenant_id", "cut_at", "end")
    )
    over = [row for row in rows if row[3] is None]
    Award.objects.filter(pk__in=[row[0] for row in over]).update(state=AwardState.DONE)
    Award.objects.filter(pk__in=[row[0] for row in rows if row[3] is not None]).update(state=AwardState.ENDED)
    if pool.is_elastic:
        over = _last_of_their_jobs(over)
    short = unfinished([row[0] for row in over])
    done = [row for row in over if row[1] not in short]
    finished = _jobs_finish(done, at)
    stopped = _jobs_stop([row for row in over if row[1] in short], short, at)
    starting = alive.filter(state=AwardState.BOOKED, start__lte=boundary).order_by("pk")
    rows_due = starting.values_list("pk", "job_id", "tenant_id", "cut_at", "start")
    due = list(rows_due) if outage_over(pool.pk, boundary) is None else []
    awards_start(due)
    events_append(
        [
            *_job_events("job_finished", pool, [row for row in over if row[1] in finished], at),
            *_job_events("job_stopped", pool, [row for row in over if row[1] in stopped], at),
            *_job_events("job_started", pool, due, at),
        ]
    )
    return len(due), len(rows)


def _last_of_their_jobs(rows: Sequence[AwardRow]) -> list[AwardRow]:
    """Of awards of single slots those that leave nothing to do. A program says itself when it has finished."""
    last = Award.objects.filter(pk__in=[row[0] for row in rows], work_left=0).exclude(job__spec__has_key=PROGRAM)
    done = set(last.values_list("pk", flat=True))
    return [row for row in rows if row[0] in done]


AwardRow = tuple[int, int, int, int | None, int]  # award, job, tenant, cut, and the slot that is the news


def awards_start(rows: Sequence[AwardRow]) -> None:
    """These awards begin to run, and so do their jobs."""
    Award.objects.filter(pk__in=[row[0] for row in rows]).update(state=AwardState.RUNNING)
    _jobs_move(rows, (JobState.AWARDED,), state=JobState.RUNNING, reason_code="", reason_numbers={})
    starts = {row[1]: row[4] for row in rows}
    estimates = list(StartEstimate.objects.filter(job__in=starts, started=None))
    if not estimates:
        return
    paid = dict(Award.objects.filter(pk__in=[row[0] for row in rows]).values_list("job_id", "paid"))
    for estimate in estimates:
        estimate.started, estimate.paid = starts[estimate.job_id], paid[estimate.job_id]
    StartEstimate.objects.bulk_update(estimates, ["started", "paid"], batch_size=1_000)


def _jobs_move(rows: Sequence[AwardRow], among: Sequence[JobState], **changes: object) -> set[int]:
    """Jobs of these awards that are in one of the states; others (a cancelled one) stay as they are."""
    jobs = TrainingJob.objects.filter(pk__in=[row[1] for row in rows], state__in=among)
    moved = set(jobs.values_list("pk", flat=True))
    TrainingJob.objects.filter(pk__in=moved).update(**changes)
    return moved


def _jobs_finish(rows: Sequence[AwardRow], at: datetime) -> set[int]:
    """Why it was no larger in its last slot says nothing of a job that has ended."""
    changes = {"ended_at": at, "reason_code": "", "reason_numbers": {}}
    return _jobs_move(rows, (JobState.AWARDED, JobState.RUNNING), state=JobState.FINISHED, **changes)


def _jobs_stop(rows: Sequence[AwardRow], how_far: Mapping[int, Mapping[str, Any]], at: datetime) -> set[int]:
    """Jobs whose time is over and whose program had more to do."""
    stopped: set[int] = set()
    for row in rows:
        changes = {"ended_at": at, "reason_code": RESERVATION_ENDED, "reason_numbers": how_far[row[1]]}
        stopped |= _jobs_move([row], (JobState.AWARDED, JobState.RUNNING), state=JobState.STOPPED, **changes)
    return stopped


def _job_events(kind: str, pool: Pool, rows: Sequence[AwardRow], at: datetime) -> list[Event]:
    return [
        event(kind, pool_id=pool.pk, tenant_id=tenant_id, subject=job_subject(job_id), at=at, data={"slot": slot})
        for _, job_id, tenant_id, _, slot in rows
    ]


def _sums(slot: int, charges: Sequence[Charge], started: int, ended: int) -> Settled:
    parts = [part for charge in charges for part in charge.parts]
    operator = sum(amount for owner, amount in parts if not owner)
    owners = sum(amount for owner, amount in parts if owner)
    return Settled(slot, len(charges), owners + operator, owners, operator, started, ended)


def _tell(pool: Pool, settled: Settled, charges: Sequence[Charge], at: datetime) -> None:
    if not charges:
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
    public = event("slot_settled", pool_id=pool.pk, subject=f"slot:{settled.slot}", at=at, data=numbers)
    events_append([public, *low_balance_events(pool, settled.slot, spent, at)])
