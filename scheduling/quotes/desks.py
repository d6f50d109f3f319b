"""The desks that a quote asks: each reads the market of one lane once, and answers for a job in one form after the
other."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from scheduling.core.types import WAITING, Booking, Floor, HasWindows, Job, OneMore, Plan, Reason
from scheduling.jobs import guess
from scheduling.market.decide import answer_again, batch_policy, charges_of, instant_answer, longest_told, purse_of
from scheduling.market.view import JobReader, PoolFrame, batch_view, glance
from scheduling.models import Event, Lane, LaneClock, Pool, TrainingJob
from scheduling.quotes.restarts import Resize, resizes_of
from tenants.common.patience import give_way, in_time
from tenants.ledger.amounts import credits_of
from tenants.ledger.postings import available
from tenants.ledger.selectors import balance

SUPPOSED = 2**62  # the number of a job that does not exist, larger than that of any job that does
MOST_LATER_BOUNDARIES = 3
MOST_WAITING = 1_000  # jobs that may be decided, in all, for boundaries after the next one
MOST_LATER_ARRIVALS = 8

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class LikelyCourse:
    """The likely course of a job that would be begun in pieces. Its terms are those of the first piece, which does this
    `share` of its work.

    The rest is guessed: as many pieces as large, at the same price, one in each window. Where its place at home comes
    first, the rest is done there, and `end` says when. Slots and micro-credits.
    """

    share: float
    pieces: int
    end: int
    price: int


@dataclass(frozen=True)
class QuotedTerms:
    """What the job would get, or why it would not. Amounts are in micro-credits."""

    admitted: bool
    reason: Reason | None
    phase: str | None = None
    start: int | None = None
    end: int | None = None
    workers: int = 0
    price: int = 0  # all that has to be set aside
    payees: Mapping[int, int] | None = None  # tenant id, or 0 for the operator -> its part
    own_part: int = 0  # the part of the price that comes back to the payer, who is one of the owners
    worth: float = 0.0  # credits that an end at that time is worth
    home: Floor | None = None  # batch lane: what it would get if its owner were alone, where that has been planned
    resizes: tuple[Resize, ...] = ()
    course: LikelyCourse | None = None

    @property
    def net(self) -> int:
        """Return what the job costs its tenant in the end."""
        return self.price - self.own_part


class Desk(Protocol):
    """The market of one lane as a quote found it, for one tenant's job."""

    def ask(self, fields: Spec) -> QuotedTerms:
        """Return what the job would get with these fields of its specification changed."""
        ...

    def later(self) -> Iterator[tuple[float, float, QuotedTerms]]:
        """Yield the same job's terms later, as (slot asked for, slot tried, terms), for a bounded number of tries."""
        ...


class InstantDesk:
    """The desk of the instant lane. It computes as a submission does, on what is free now."""

    def __init__(self, job: TrainingJob, at: datetime) -> None:
        self.job, self.purse = job, purse_of(job, at)
        self.held = LaneClock.objects.filter(pool=job.pool, lane=Lane.INSTANT, held=True).exists()
        self.answer = instant_answer(job, self.purse)

    def ask(self, fields: Spec) -> QuotedTerms:
        return self._at(self.job.arrival, fields)

    def later(self) -> Iterator[tuple[float, float, QuotedTerms]]:
        """Yield the terms of a job submitted 1, 2, 4, ... slots from now, as far as slots are taken: what is free then
        is known now."""
        view = self.answer.snapshot.view
        ahead = [2**power for power in range(MOST_LATER_ARRIVALS) if 2**power <= view.occupied.shape[1]]
        for slots in ahead if not self.held else ():
            yield view.slot, view.slot + slots, self._at(float(view.slot + slots), {})

    def _at(self, arrival: float, fields: Spec) -> QuotedTerms:
        if self.held:
            return QuotedTerms(False, Reason("market_held"))
        give_way()
        answer = self.answer
        if fields or arrival != self.job.arrival:
            other = supposed(self.job, None, fields)
            other.arrival = arrival
            answer = answer_again(self.answer, other, self.purse)
        terms_given = answer.outcome
        if isinstance(terms_given, Reason):
            return QuotedTerms(False, terms_given)
        return terms_of(answer.snapshot.frame, terms_given, self.job.tenant_id)


@dataclass(frozen=True)
class QuotedMarket:
    """The market as a quote found it. A person who types into a form asks for quotes of the same market again and
    again."""

    key: tuple[object, ...]
    at: datetime
    frame: PoolFrame
    policy: HasWindows
    what_if: OneMore
    cap: int | None  # micro-credits that the submitter's budget leaves for one more job
    held: bool  # on hold: nothing is decided before the market goes on
    lock: threading.Lock  # one thread at a time asks `what_if`


_last_seen: dict[int, QuotedMarket] = {}  # by pool
SEEN_FOR = timedelta(seconds=5)


def _market_now(job: TrainingJob, at: datetime) -> QuotedMarket:
    """Return the market now. Return it as it was moments ago if no event followed, the same person asks again, and its
    tenant can spend what it could: money moves without an event (a top-up, earnings collected)."""
    row = supposed(job, SUPPOSED, {})
    clock, slot, frame = _next_boundary(row)
    last = Event.objects.order_by("-pk").values_list("pk", flat=True).first()
    late, spendable = job.arrival >= slot, balance(account=available(job.tenant_id))
    key = (job.pool_id, job.tenant_id, job.submitted_by_id, clock.decided_slot, slot, late, last, spendable)
    earlier = _last_seen.get(job.pool_id)
    if earlier is not None and earlier.key == key and timedelta(0) <= at - earlier.at <= SEEN_FOR:
        return earlier
    snapshot = batch_view(job.pool, slot, clock, at, supposed=row, last_frame=frame)
    policy = _policy(snapshot.frame)
    what_if = policy.one_more(snapshot.view)
    cap = snapshot.caps.get(SUPPOSED)
    market = _last_seen[job.pool_id] = QuotedMarket(
        key, at, snapshot.frame, policy, what_if, cap, clock.held, threading.Lock()
    )
    return market


class BatchDesk:
    """The next boundary as if nobody else came. All who wait are decided about once, however often the desk is
    asked."""

    def __init__(self, job: TrainingJob, at: datetime) -> None:
        self.job = job
        market = _market_now(job, at)
        self.held = market.held
        self.frame, self.policy, self.what_if, self.cap = market.frame, market.policy, market.what_if, market.cap
        self.lock, self.reader = market.lock, JobReader(market.frame)

    def ask(self, fields: Spec) -> QuotedTerms:
        give_way()
        with self.lock:
            in_time()  # others may have held the lock for long
            job = self._read(fields)
            terms = self._terms(self.what_if.plan_for(job), job)
        # On hold, a job may be submitted and waits: these are its terms if nothing changes until the market goes on.
        return replace(terms, reason=Reason("market_held")) if self.held and terms.admitted else terms

    def later(self) -> Iterator[tuple[float, float, QuotedTerms]]:
        """Yield the terms of the job as it is if it waits on: at the boundaries that follow, if nobody comes."""
        what_if, waiting = self.what_if, 0
        with self.lock:
            job = self._read({})
            variants = what_if.plan_for(job)
        for _ in range(MOST_LATER_BOUNDARIES):
            with self.lock:  # the first `what_if` is shared with others
                is_over = variants.bookings or any(refusal.state != WAITING for refusal in variants.refusals)
                view = None if is_over else what_if.following(job, variants.floors)
            if view is None or (waiting := waiting + len(view.waiting)) > MOST_WAITING:
                return
            give_way()
            what_if = self.policy.one_more(view)
            variants = what_if.plan_for(job)
            yield self.what_if.view.slot, view.slot, self._terms(variants, job)

    def never(self) -> Reason | None:
        """Return why no boundary will ever serve the job as it is, and what would help; None where one may."""
        return self.policy.never_serves(self.frame.batch_cluster, self._read({}), self.what_if.view.slot)

    def _read(self, fields: Spec) -> Job:
        job = self.reader.read_as(self.job, {**self.job.spec, **fields}, number=SUPPOSED)
        if self.cap is None:
            return job
        limits = [limit for limit in (job.max_price, credits_of(self.cap)) if limit is not None]
        return replace(job, max_price=min(limits))

    def _terms(self, plan: Plan, job: Job) -> QuotedTerms:
        if plan.bookings:
            terms = terms_of(self.frame, plan.bookings[0], self.job.tenant_id, _floor(plan))
            return replace(terms, course=self._course(plan, job, terms))
        longest = self.policy.longest_window
        refusal = longest_told(plan.refusals[0], longest, in_pieces=job.divisible) if plan.refusals else None
        if refusal is None or (refusal.state == WAITING and refusal.reason.code == "waiting_at_home"):
            return _at_home(plan, refusal.reason if refusal else None)
        return QuotedTerms(False, refusal.reason, home=_floor(plan))

    def _course(self, plan: Plan, job: Job, terms: QuotedTerms) -> LikelyCourse | None:
        """Return the likely course of a plan whose first booking leaves something to do."""
        first = plan.bookings[0]
        done, work = int(first.work), job.work
        if done >= work:
            return None
        share = done / work
        if len(plan.bookings) > 1:  # the rest is done at home, in the same window
            return LikelyCourse(share, 1, plan.bookings[1].end, terms.price)
        if terms.home is not None and not terms.home.draft:
            return LikelyCourse(share, 1, terms.home.end, terms.price)
        window = self.policy.longest_window
        likely = guess(start=first.start, end=first.end, done=done, work=work, price=terms.price, window=window)
        return LikelyCourse(share, likely.pieces, likely.end, likely.price)


def _policy(frame: PoolFrame) -> HasWindows:
    policy = batch_policy(frame)
    if not isinstance(policy, HasWindows):
        # `market.view.policy` admits no other.
        raise TypeError(f"{policy.name} has no windows, so nobody can say what it would decide")
    return policy


def _next_boundary(row: TrainingJob) -> tuple[LaneClock, int, PoolFrame]:
    """Return (the clock as it will stand, the slot, the pool as it was read) for the first decision that will include
    the job."""
    pool: Pool = row.pool
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first() or LaneClock(pool=pool)
    slot = max(clock.decided_slot + 1, int(-(-row.arrival // 1)))
    snapshot = glance(pool, slot, clock, supposed=row)
    boundary = _policy(snapshot.frame).next_boundary(snapshot.view)
    if boundary is None:
        return clock, slot, snapshot.frame
    later, memory = boundary
    then = LaneClock(pool=pool, lane=Lane.BATCH, memory=dict(memory), held=clock.held)
    return then, later, snapshot.frame


def supposed(job: TrainingJob, number: int | None, fields: Spec) -> TrainingJob:
    return TrainingJob(
        pk=number,
        tenant_id=job.tenant_id,
        pool=job.pool,
        name=job.name,
        lane=job.lane,
        spec={**job.spec, **fields},
        submitted_at=job.submitted_at,
        submitted_by=job.submitted_by,
        arrival=job.arrival,
        worth_from=job.worth_from,
    )


def _floor(plan: Plan) -> Floor | None:
    """Return what the plan promises the job that does not exist, or None where no schedule at home is worth
    anything."""
    return next((floor for floor in plan.floors if floor.job == SUPPOSED and floor.allocation), None)


def _at_home(plan: Plan, reason: Reason | None) -> QuotedTerms:
    """Return the terms of a job for which nothing is rented: it is admitted, free, once its turn on its owner's cells
    comes."""
    floor = _floor(plan)
    if floor is None:
        return QuotedTerms(False, reason or Reason("waiting_for_interval"))
    workers = sum(row.workers for row in floor.allocation if row.start <= floor.start < row.end)
    span = (floor.start, floor.end, workers)
    return QuotedTerms(True, reason, "own", *span, payees={}, worth=floor.value, home=floor)


def terms_of(frame: PoolFrame, booking: Booking, payer_id: int, home: Floor | None = None) -> QuotedTerms:
    payees: defaultdict[int, int] = defaultdict(int)
    charges = charges_of(frame.owner_ids, booking)
    for slot in charges:
        for owner, amount in slot:
            payees[owner] += amount
    price = sum(payees.values())
    span = (booking.start, booking.end, booking.workers)
    own_part = payees.get(payer_id, 0)  # none where payments are net: then it is not charged
    resizes = resizes_of(booking, charges)
    return QuotedTerms(True, None, booking.phase, *span, price, dict(payees), own_part, booking.value, home, resizes)
