"""The instant lane: one job, one answer, at once. Admitted with a schedule and a price, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from scheduling.core import policies, settlement
from scheduling.core.speed import minibatches_per_slot
from scheduling.core.types import INSTANT, Booking, Plan, Reason
from scheduling.models import Award, AwardState, Event, FreedUnits, JobState, Lane, Part, TrainingJob
from scheduling.services.budgets import budget_events
from scheduling.services.feed import event, events_append, job_subject
from scheduling.services.posting import prices_after
from scheduling.services.settlement import awards_start
from scheduling.services.terms import allocation_rows, award_new
from scheduling.services.units import Unit, amounts_in, units_take
from scheduling.snapshots.budgets import left_for, tenant_limits
from scheduling.snapshots.frame import PoolFrame
from scheduling.snapshots.instant import InstantSnapshot, asked_again, instant_view, share_of
from tenants.ledger.postings import MICRO, InsufficientFunds, available
from tenants.ledger.selectors import balance
from tenants.ledger.services import hold
from tenants.scoping import scope_disabled

MOST_TRIES = 3
# Worker-slots of a job times its most workers at once. Finding the cheapest schedule takes time in proportion, and
# meanwhile everybody else in the lane waits. What is larger has time for the batch lane.
LARGEST = 500_000


class _TooDear(Exception):
    """The balance changed between the answer and the hold: the answer is taken back."""

    def __init__(self, price: int, available: int) -> None:
        super().__init__(f"{price} of {available}")
        self.reason = Reason("low_balance", {"price": price / MICRO, "left": available / MICRO})


@dataclass(frozen=True)
class Purse:
    """What a tenant can pay for one more job now, in micro-credits."""

    available: int
    budget_left: int | None  # None: no budget binds
    budgeted: bool  # whether its tenant has any budget at all

    @property
    def most(self) -> float:
        """Credits."""
        amounts = [self.available] if self.budget_left is None else [self.available, self.budget_left]
        return min(amounts) / MICRO


@dataclass(frozen=True)
class Answer:
    """What the lane says to one job, before anything is written."""

    snapshot: InstantSnapshot
    given: Booking | Reason  # a booking names the counter's servers, see `scheduling.core.calendar`


def instant_admit(*, job: TrainingJob, at: datetime, told: Sequence[Event] = ()) -> Award | None:
    """Decide about a job that this very transaction has stored, under the lane's lock: nobody else knows of it yet.

    `told`: what is to be told of the job before the answer; it is written with it.
    """
    if not connection.in_atomic_block or job.state != JobState.QUEUED:
        raise RuntimeError("a job of the instant lane is decided once, in the transaction that stores it")
    with scope_disabled("what is for sale is everybody's"):
        for _ in range(MOST_TRIES):
            purse = purse_of(job, at)
            answer = instant_answer(job, purse)
            if isinstance(answer.given, Reason):
                reason = answer.given
                break
            try:
                with transaction.atomic():
                    return _award(job, answer, answer.given, purse, told, at)
            except _TooDear as error:  # the batch lane, or another pool, took money of this tenant meanwhile
                reason = error.reason
        _refuse(job, reason, told, at)
    return None


def purse_of(job: TrainingJob, at: datetime) -> Purse:
    """Read, not locked: the hold has the last word."""
    found = tenant_limits(tenant_id=job.tenant_id, at=at)
    spendable = balance(account=available(job.tenant_id))
    return Purse(spendable, left_for(found, job.tenant_id, job.submitted_by_id), budgeted=bool(found))


def instant_answer(job: TrainingJob, purse: Purse) -> Answer:
    """What the lane says now; writes nothing. Under the lane's lock it stays true until the transaction ends.

    Needs the scope of all tenants. The job need not be saved (a quote).
    """
    snapshot = instant_view(job, most=purse.most)
    return Answer(snapshot, _decided(snapshot, job, purse))


def answer_again(answer: Answer, job: TrainingJob, purse: Purse) -> Answer:
    """What the lane would have said to another job of the same tenant in the same market."""
    snapshot = asked_again(answer.snapshot, job, most=purse.most)
    return Answer(snapshot, _decided(snapshot, job, purse))


def _decided(snapshot: InstantSnapshot, job: TrainingJob, purse: Purse) -> Booking | Reason:
    if (reason := _too_large(snapshot) or _over_share(snapshot)) is not None:
        return reason
    policy = policies.build(job.pool.instant_policy or {}, snapshot.frame.cluster, ())
    return _given(policy.decide(snapshot.view), job, purse)


def _too_large(snapshot: InstantSnapshot) -> Reason | None:
    job, cluster = snapshot.job, snapshot.frame.cluster
    rate = max(
        minibatches_per_slot(job, worker, 0, cluster.slot_seconds, centralized=False)
        for worker in range(len(job.worker_types))
    )
    size = job.work / rate * job.max_workers
    return Reason("too_large_for_lane", {"size": size, "most": LARGEST}) if size > LARGEST else None


def _over_share(snapshot: InstantSnapshot) -> Reason | None:
    job, percent = snapshot.job, snapshot.frame.pool.instant_share_percent
    most = share_of(job, snapshot.frame)
    if percent == 100 or job.min_workers <= most:
        return None
    return Reason("over_share", {"asked": job.min_workers, "most": most, "percent": percent})


def _given(plan: Plan, job: TrainingJob, purse: Purse) -> Booking | Reason:
    """The booking, or a reason that names what bound: the price the tenant set, its budget, or its balance."""
    if plan.bookings:
        return plan.bookings[0]
    reason = plan.refusals[0].reason
    price, own_limit = reason.numbers.get("price"), job.spec.get("max_price")
    if reason.code != "over_max_price" or not isinstance(price, int | float):
        return reason
    if own_limit is not None and price > own_limit:
        return Reason("over_max_price", {"price": price, "max_price": own_limit})
    if purse.budget_left is not None and purse.budget_left <= purse.available:
        return Reason("over_budget", {"price": price, "left": purse.budget_left / MICRO})
    return Reason("low_balance", {"price": price, "left": purse.available / MICRO})


def _refuse(job: TrainingJob, reason: Reason, told: Sequence[Event], at: datetime) -> None:
    job.state, job.reason_code, job.ended_at = JobState.REJECTED, reason.code, at
    job.reason_numbers = dict(reason.numbers)
    job.save(update_fields=["state", "reason_code", "reason_numbers", "ended_at"])
    data = {"job": job.pk, "reason": reason.code, "numbers": job.reason_numbers}
    events_append([*told, _event("job_refused", job, at, data)])


def _award(
    job: TrainingJob, answer: Answer, booking: Booking, purse: Purse, told: Sequence[Event], at: datetime
) -> Award:
    snapshot, frame = answer.snapshot, answer.snapshot.frame
    on_operator, _ = snapshot.calendar.parts(booking)
    placed = snapshot.calendar.place(INSTANT, snapshot.job, booking)  # checks capacities and the frontier
    award = award_new(job, frame, placed, settlement.charges(placed), lane=Lane.INSTANT)
    award.on_operator, award.awarded_at = allocation_rows(frame, on_operator), at
    award.save(force_insert=True)
    taken = _units(snapshot, award)
    units_take(job.pool_id, taken, _capacities(frame))
    _sell_again(snapshot, taken)
    job.state, job.reason_code, job.reason_numbers = JobState.AWARDED, "", {}
    job.save(update_fields=["state", "reason_code", "reason_numbers"])
    events_append([*told, *_news(job, award, purse, at), *prices_after(snapshot, booking, taken, at)])
    if award.start <= snapshot.settled_slot + 1:  # the boundary at which it would have been started is over
        awards_start([(award.pk, job.pk, job.tenant_id, None, award.start)])
        award.state, job.state = AwardState.RUNNING, JobState.RUNNING
    _hold(award, at)
    return award


def _units(snapshot: InstantSnapshot, award: Award) -> dict[Unit, float]:
    """All that the new award holds; the job's demands have been read already."""
    job, ids = snapshot.job, snapshot.frame.resource_ids
    worker, ps = job.worker_types[award.worker_type].demand, job.ps_types[award.ps_type].demand
    return amounts_in(award.allocation, award.on_operator, worker, ps, ids, since=award.start)


def _capacities(frame: PoolFrame) -> dict[tuple[int, int, str], float]:
    """(server, resource, part) -> units, as the calendar counts them."""
    parts = {Part.HOME.value: frame.home.capacity, Part.OPERATOR.value: frame.cluster.operator_cells}
    return {
        (server_id, resource_id, part): float(units[resource, server])
        for part, units in parts.items()
        for resource, resource_id in enumerate(frame.resource_ids)
        for server, server_id in enumerate(frame.server_ids)
    }


def _sell_again(snapshot: InstantSnapshot, taken: Mapping[Unit, float]) -> None:
    """Units that somebody gave up count as sold in the proportion in which their part of a server was bought."""
    sold = []
    for freed in snapshot.freed:
        units = freed.units
        bought = taken.get(Unit(units.server_id, units.resource_id, units.part, units.slot), 0.0)
        if bought:
            units.sold = min(units.sold + bought * freed.share, units.amount)
            sold.append(units)
    FreedUnits.objects.bulk_update(sold, ["sold"], batch_size=1_000)


def _hold(award: Award, at: datetime) -> None:
    if not award.paid:
        return
    facts = {"award": award.pk, "lane": award.lane, "start": award.start, "end": award.end}
    answer = hold(
        key=f"award:{award.pk}",
        tenant_id=award.tenant_id,
        amount=award.paid,
        at=at,
        subject=job_subject(award.job_id),
        facts=facts,
    )
    if isinstance(answer, InsufficientFunds):
        shortage = answer.shortages[0]
        raise _TooDear(award.paid, shortage.balance)


def _news(job: TrainingJob, award: Award, purse: Purse, at: datetime) -> list[Event]:
    data = {"job": job.pk, "award": award.pk, "lane": award.lane, "phase": award.phase}
    data |= {"start": award.start, "end": award.end, "workers": award.workers, "paid": award.paid}
    passed = budget_events([award], pool=job.pool, at=at) if purse.budgeted else []
    return [_event("job_awarded", job, at, data), *passed]


def _event(kind: str, job: TrainingJob, at: datetime, data: dict[str, object]) -> Event:
    return event(kind, pool_id=job.pool_id, tenant_id=job.tenant_id, subject=job_subject(job.pk), at=at, data=data)
