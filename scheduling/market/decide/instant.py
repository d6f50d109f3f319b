"""The instant lane: it answers one job at once. The job is admitted with a schedule and a price, or refused with a
reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from scheduling.common import Steps
from scheduling.core import policies, settlement
from scheduling.core.calendar import counter_parts
from scheduling.core.types import INSTANT, Booking, Plan, Reason
from scheduling.feed import EventKind, events_append, job_event, job_subject
from scheduling.market.calendar.units import CalendarUnit, amounts_in, units_take
from scheduling.market.decide.answers import GivenUp, answer_store, given_up_sold, plan_of
from scheduling.market.decide.budgets import budget_events
from scheduling.market.decide.terms import allocation_rows, award_new
from scheduling.market.decide.verdicts import Purse, Question, verdict
from scheduling.market.prices.posted import prices_after
from scheduling.market.settle.payments import hold_key
from scheduling.market.settle.slots import AwardMove, awards_start
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.instant import InstantSnapshot, asked_again, instant_view
from scheduling.models import Award, AwardState, Event, FreedUnits, JobState, Lane, LaneClock, Part, TrainingJob
from scheduling.money import left_for, passed_by_others, tenant_limits
from tenants.ledger.amounts import credits_of
from tenants.ledger.postings import InsufficientFunds, available
from tenants.ledger.selectors import balance
from tenants.ledger.services import hold
from tenants.scoping import scope_disabled

MOST_TRIES = 3


class _TooDear(Exception):
    """The balance, or what is left under a budget, changed between the answer and the hold, so that the tenant cannot
    pay: the answer is undone. `code` says which of the two."""

    def __init__(self, code: str, price: int, left: int) -> None:
        super().__init__(f"{price} of {left}")
        self.reason = Reason(code, {"price": credits_of(price), "left": credits_of(left)})


@dataclass(frozen=True)
class LaneAnswer:
    """The lane's answer to one job, before anything is written."""

    snapshot: InstantSnapshot
    question: Question
    outcome: Booking | Reason  # a booking names the counter's servers, see `scheduling.core.calendar`


def instant_admit(
    *, job: TrainingJob, clock: LaneClock, at: datetime, earlier_news: Sequence[Event] = ()
) -> Award | None:
    """Decide about a job that this same transaction has stored, under the lane's lock: nobody else sees the job yet.

    `clock` is the lane's clock, locked; its head becomes this answer's digest. `earlier_news` are events about the job
    from before the answer; they are written together with the answer's events.
    """
    if not connection.in_atomic_block or job.state != JobState.QUEUED:
        raise RuntimeError("a job of the instant lane is decided once, in the transaction that stores it")
    steps = Steps("admission", f"job {job.pk}")
    with scope_disabled("what is for sale is everybody's"):
        for _ in range(MOST_TRIES):
            answer = instant_answer(job, purse_of(job, at))
            steps.done("answer", booked=isinstance(answer.outcome, Booking))
            if isinstance(answer.outcome, Reason):
                booking, reason = None, answer.outcome
                break
            booking, head = answer.outcome, clock.head
            try:
                with transaction.atomic():
                    award = _award(job, answer, booking, clock, earlier_news, at)
                steps.done("award", last=True, award=award.pk, start=award.start, end=award.end, paid=award.paid)
                return award
            except _TooDear as error:  # the batch lane, or another pool, spent money of this tenant meanwhile
                reason, clock.head = error.reason, head
        _refuse(job, answer, booking, reason, clock, earlier_news, at)
        steps.done("refuse", last=True, reason=reason.code)
    return None


def purse_of(job: TrainingJob, at: datetime) -> Purse:
    """Return what the tenant can pay now. Balances and budgets are read without a lock: the hold checks again."""
    limits_now = tenant_limits(tenant_id=job.tenant_id, at=at)
    spendable = balance(account=available(job.tenant_id))
    return Purse(spendable, left_for(limits_now, job.tenant_id, job.submitted_by_id), limits_now)


def instant_answer(job: TrainingJob, purse: Purse) -> LaneAnswer:
    """Return the lane's answer now; writes nothing. Under the lane's lock it stays valid until the transaction ends.

    Needs the scope of all tenants. The job need not be saved (a quote).
    """
    return _answer(instant_view(job, most=purse.most), job, purse)


def answer_again(answer: LaneAnswer, job: TrainingJob, purse: Purse) -> LaneAnswer:
    """Return what the lane would have answered to another job of the same tenant in the same state of the market."""
    return _answer(asked_again(answer.snapshot, job, most=purse.most), job, purse)


def _answer(snapshot: InstantSnapshot, job: TrainingJob, purse: Purse) -> LaneAnswer:
    cluster = snapshot.frame.cluster
    question = Question(
        cluster=cluster,
        policy=policies.build(job.pool.instant_policy or {}, cluster, ()),
        share_percent=job.pool.instant_share_percent,
        view=snapshot.view,
        purse=purse,
        own_limit=job.spec.get("max_price"),
    )
    return LaneAnswer(snapshot, question, verdict(question))


def _refuse(
    job: TrainingJob,
    answer: LaneAnswer,
    booking: Booking | None,
    reason: Reason,
    clock: LaneClock,
    events: Sequence[Event],
    at: datetime,
) -> None:
    """Refuse the job with this reason, and record the answer. `booking` is what the job would have got if its tenant
    could still have paid for it."""
    job.state, job.reason_code, job.ended_at = JobState.REJECTED, reason.code, at
    job.reason_numbers = dict(reason.numbers)
    job.save(update_fields=["state", "reason_code", "reason_numbers", "ended_at"])
    _record(job, None, answer, plan_of(job.pk, booking, reason), [], clock, at)
    data = {"job": job.pk, "reason": reason.code, "numbers": job.reason_numbers}
    events_append([*events, job_event(EventKind.JOB_REFUSED, job, at=at, data=data)])


def _record(
    job: TrainingJob,
    award: Award | None,
    answer: LaneAnswer,
    plan: Plan,
    resold: Sequence[tuple[int, float]],
    clock: LaneClock,
    at: datetime,
) -> str:
    return answer_store(
        clock=clock,
        job=job,
        award_id=award.pk if award else None,
        question=answer.question,
        freed=[_given_up(freed.units) for freed in answer.snapshot.freed],
        plan=plan,
        resold=resold,
        interval_head=answer.snapshot.interval_head,
        at=at,
    )


def _award(
    job: TrainingJob, answer: LaneAnswer, booking: Booking, clock: LaneClock, events: Sequence[Event], at: datetime
) -> Award:
    snapshot, frame = answer.snapshot, answer.snapshot.frame
    on_operator, _ = counter_parts(booking, len(frame.server_ids))
    placed = snapshot.calendar.place(INSTANT, snapshot.job, booking)  # checks capacities and the frontier
    award = award_new(job, frame, placed, settlement.charges(placed), lane=Lane.INSTANT)
    award.on_operator, award.awarded_at = allocation_rows(frame, on_operator), at
    award.save(force_insert=True)
    units = _units(snapshot, award)
    units_take(job.pool_id, units, _capacities(frame, units))
    resold = _sold_again(snapshot, award, units)
    digest = _record(job, award, answer, plan_of(job.pk, booking, None), resold, clock, at)  # before rows change below
    _sell_again(snapshot, resold)
    job.state, job.reason_code, job.reason_numbers = JobState.AWARDED, "", {}
    job.save(update_fields=["state", "reason_code", "reason_numbers"])
    starts = award.start <= snapshot.settled_slot + 1  # the boundary that would have started it has passed
    news = _news(job, award, answer.question.purse, digest, starts, at)
    events_append([*events, *news, *prices_after(snapshot, booking, units, at)])
    if starts:
        awards_start([AwardMove(award.pk, job.pk, job.tenant_id, None, award.start)])
        award.state, job.state = AwardState.RUNNING, JobState.RUNNING
    _hold(award, answer.question.purse, at)
    return award


def _units(snapshot: InstantSnapshot, award: Award) -> dict[CalendarUnit, float]:
    """Return the units that the new award holds in each slot. The job's demands come from the snapshot."""
    job, ids = snapshot.job, snapshot.frame.resource_ids
    worker, ps = job.worker_types[award.worker_type].demand, job.ps_types[award.ps_type].demand
    return amounts_in(award.allocation, award.on_operator, worker, ps, ids, since=award.start)


def _capacities(frame: PoolFrame, units: Iterable[CalendarUnit]) -> dict[tuple[int, int, str], float]:
    """Map (server, resource, part) to the units there, for every place of which something is taken."""
    parts = {Part.HOME.value: frame.home.capacity, Part.OPERATOR.value: frame.shape.parts.operator.capacity}
    return {
        (server_id, resource_id, part): float(
            parts[part][frame.resource_index[resource_id], frame.server_index[server_id]]
        )
        for server_id, resource_id, part in {unit[:3] for unit in units}
    }


def _sold_again(
    snapshot: InstantSnapshot, award: Award, amounts: Mapping[CalendarUnit, float]
) -> list[tuple[int, float]]:
    """Return (id, amount) for the given up units that the award uses."""
    offered = [
        (CalendarUnit(units.server_id, units.resource_id, units.part, units.slot), _given_up(units), freed.share)
        for freed in snapshot.freed
        for units in [freed.units]
    ]
    return given_up_sold(award.phase, award.tenant_id, amounts, offered)


def _given_up(units: FreedUnits) -> GivenUp:
    return GivenUp(units.pk, units.tenant_id, units.amount - units.sold)


def _sell_again(snapshot: InstantSnapshot, resold: Iterable[tuple[int, float]]) -> None:
    rows, sold = {freed.units.pk: freed.units for freed in snapshot.freed}, []
    for number, amount in resold:
        units = rows[number]
        units.sold = min(units.sold + amount, units.amount)
        sold.append(units)
    FreedUnits.objects.bulk_update(sold, ["sold"], batch_size=1_000)


def _hold(award: Award, purse: Purse, at: datetime) -> None:
    """Set the price aside. From then on nobody else spends what its tenant has, so what is read of hard limits after it
    is final."""
    if not award.paid:
        return
    facts = {"award": award.pk, "lane": award.lane, "start": award.start, "end": award.end}
    answer = hold(
        key=hold_key(award.pk),
        tenant_id=award.tenant_id,
        amount=award.paid,
        at=at,
        subject=job_subject(award.job_id),
        facts=facts,
    )
    if isinstance(answer, InsufficientFunds):
        shortage = answer.shortages[0]
        raise _TooDear("low_balance", award.paid, shortage.balance)
    if passed := passed_by_others(purse.budgets, [award], at=at):
        left = min((limit.hard or 0) - limit.spent + award.paid for limit in passed)
        raise _TooDear("over_budget", award.paid, max(left, 0))


def _news(job: TrainingJob, award: Award, purse: Purse, digest: str, starts: bool, at: datetime) -> list[Event]:
    """Return the events of an admission. `digest` is that of the answer's record: everyone who reads the feed has then
    a note of it."""
    data: dict[str, object] = {"job": job.pk, "award": award.pk, "lane": award.lane, "phase": award.phase}
    data |= {"start": award.start, "end": award.end, "workers": award.workers, "paid": award.paid, "answer": digest}
    started = [job_event(EventKind.JOB_STARTED, job, at=at, data={"slot": award.start})] if starts else []
    passed = budget_events([award], pool=job.pool, at=at) if purse.budgets else []
    return [job_event(EventKind.JOB_AWARDED, job, at=at, data=data), *started, *passed]
