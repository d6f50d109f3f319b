"""Whom a quote asks: one market, looked at once, and a job asked about in one form after the other."""

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
from tenants.ledger.amounts import credits_of
from tenants.ledger.postings import available
from tenants.ledger.selectors import balance
from tenants.patience import give_way, in_time

SUPPOSED = 2**62  # the number of a job that does not exist: larger than that of any that does
MOST_LATER_BOUNDARIES = 3
MOST_WAITING = 1_000  # jobs decided for what comes after the next boundary, in all
MOST_LATER_ARRIVALS = 8

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class LikelyCourse:
    """Of a job that would be begun in pieces: its terms are those of the first, which does this `share` of its work.

    The rest is guessed from it: as many pieces as large, at the same price, one a window. Where its place at home comes
    first, the rest is done there, and `end` says when. Slots and micro-credits.
    """

    share: float
    pieces: int
    end: int
    price: int


@dataclass(frozen=True)
class QuotedTerms:
    """What the job would get, or why it would not. Amounts in micro-credits."""

    admitted: bool
    reason: Reason | None
    phase: str | None = None
    start: int | None = None
    end: int | None = None
    workers: int = 0
    price: int = 0  # all that has to be set aside
    payees: Mapping[int, int] | None = None  # tenant id, or 0 for the operator -> its part
    own_part: int = 0  # of the price, what comes back to the payer, who is one of the owners
    worth: float = 0.0  # credits, of an end at that time
    home: Floor | None = None  # batch lane: what it would get if its owner were alone, where that has been planned
    resizes: tuple[Resize, ...] = ()
    course: LikelyCourse | None = None

    @property
    def net(self) -> int:
        """What the job costs its tenant in the end."""
        return self.price - self.own_part


class Desk(Protocol):
    """One lane, as it stands, for one tenant's job."""

    def ask(self, fields: Spec) -> QuotedTerms:
        """What the job would get with these fields of its specification said differently."""
        ...

    def later(self) -> Iterator[tuple[float, float, QuotedTerms]]:
        """The same job later: (slot asked for, slot tried, terms), a bounded number of tries."""
        ...


class InstantDesk:
    """The computation of a submission itself, on what is free now."""

    def __init__(self, job: TrainingJob, at: datetime) -> None:
        self.job, self.purse = job, purse_of(job, at)
        self.held = LaneClock.objects.filter(pool=job.pool, lane=Lane.INSTANT, held=True).exists()
        self.answer = instant_answer(job, self.purse)

    def ask(self, fields: Spec) -> QuotedTerms:
        return self._at(self.job.arrival, fields)

    def later(self) -> Iterator[tuple[float, float, QuotedTerms]]:
        """Submitted 1, 2, 4, ... slots from now, as far as anything is taken: what is free then is known now."""
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
        return terms_of(answer.snapshot.frame, terms_given, payer_id=self.job.tenant_id)


@dataclass(frozen=True)
class QuotedMarket:
    """The market as a quote found it. Whoever types into a form asks again and again, of the same market."""

    key: tuple[object, ...]
    at: datetime
    frame: PoolFrame
    policy: HasWindows
    what_if: OneMore
    cap: int | None  # micro-credits that the submitter's budget leaves for one more job
    held: bool  # on hold: nothing is decided before the market goes on
    lock: threading.Lock  # what was asked is asked by one thread at a time


_last_seen: dict[int, QuotedMarket] = {}  # by pool
SEEN_FOR = timedelta(seconds=5)


def _market_now(job: TrainingJob, at: datetime) -> QuotedMarket:
    """The market now; or as it was moments ago, if nothing was told since, the same person asks again, and its tenant
    can spend what it could: money moves without an event (a top-up, earnings collected)."""
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
    """The next boundary as if nobody else came. Everybody who waits is decided about once, whatever is asked."""

    def __init__(self, job: TrainingJob, at: datetime) -> None:
        self.job = job
        market = _market_now(job, at)
        self.held = market.held
        self.frame, self.policy, self.what_if, self.cap = market.frame, market.policy, market.what_if, market.cap
        self.lock, self.reader = market.lock, JobReader(market.frame)

    def ask(self, fields: Spec) -> QuotedTerms:
        give_way()
        with self.lock:
            in_time()  # others may have had the desk for long
            job = self._read(fields)
            terms = self._terms(self.what_if.plan_for(job), job)
        # A job may be submitted and waits: these are its terms where nothing else moves until the market goes on.
        return replace(terms, reason=Reason("market_held")) if self.held and terms.admitted else terms

    def later(self) -> Iterator[tuple[float, float, QuotedTerms]]:
        """The job as it is, waiting on: at the boundaries that follow, if nobody comes."""
        what_if, waiting = self.what_if, 0
        with self.lock:
            job = self._read({})
            variants = what_if.plan_for(job)
        for _ in range(MOST_LATER_BOUNDARIES):
            with self.lock:  # the first of them is everybody's
                is_over = variants.bookings or any(refusal.state != WAITING for refusal in variants.refusals)
                view = None if is_over else what_if.following(job, variants.floors)
            if view is None or (waiting := waiting + len(view.waiting)) > MOST_WAITING:
                return
            give_way()
            what_if = self.policy.one_more(view)
            variants = what_if.plan_for(job)
            yield self.what_if.view.slot, view.slot, self._terms(variants, job)

    def never(self) -> Reason | None:
        """Why no boundary will ever serve the job as it is, and what would help; None where one may."""
        return self.policy.never_serves(self.frame.batch_cluster, self._read({}), self.what_if.view.slot)

    def _read(self, fields: Spec) -> Job:
        row = self.job
        spec = {**row.spec, **fields}
        job = self.reader.read_spec(spec, number=SUPPOSED, tenant_id=row.tenant_id, arrival=row.arrival, lane=row.lane)
        if self.cap is None:
            return job
        limits = [limit for limit in (job.max_price, credits_of(self.cap)) if limit is not None]
        return replace(job, max_price=min(limits))

    def _terms(self, plan: Plan, job: Job) -> QuotedTerms:
        if plan.bookings:
            terms = terms_of(self.frame, plan.bookings[0], _floor(plan))
            return replace(terms, course=self._course(plan, job, terms))
        refusal = longest_told(plan.refusals[0], self.policy.longest_window) if plan.refusals else None
        if refusal is None or (refusal.state == WAITING and refusal.reason.code == "waiting_at_home"):
            return _at_home(plan, refusal.reason if refusal else None)
        return QuotedTerms(False, refusal.reason, home=_floor(plan))

    def _course(self, plan: Plan, job: Job, terms: QuotedTerms) -> LikelyCourse | None:
        """Of a plan whose first booking leaves something to do."""
        first = plan.bookings[0]
        done, work = int(first.work), job.work
        if done >= work:
            return None
        share = done / work
        if len(plan.bookings) > 1:  # the rest at home, in the same window
            return LikelyCourse(share, 1, plan.bookings[1].end, terms.price)
        if terms.home is not None and not terms.home.draft:
            return LikelyCourse(share, 1, terms.home.end, terms.price)
        window = self.policy.longest_window
        likely = guess(start=first.start, end=first.end, done=done, work=work, price=terms.price, window=window)
        return LikelyCourse(share, likely.pieces, likely.end, likely.price)


def _policy(frame: PoolFrame) -> HasWindows:
    policy = batch_policy(frame)
    if not isinstance(policy, HasWindows):
        # `market.view.policy` lets no other in.
        raise TypeError(f"{policy.name} has no windows, so nobody can say what it would decide")
    return policy


def _next_boundary(row: TrainingJob) -> tuple[LaneClock, int, PoolFrame]:
    """(the clock as it will stand, the slot) of the decision that is the first to hear of the job, and the pool as it
    was seen."""
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
    )


def _floor(plan: Plan) -> Floor | None:
    """What the plan promises the job that does not exist; nothing where no schedule at home is worth anything."""
    return next((floor for floor in plan.floors if floor.job == SUPPOSED and floor.allocation), None)


def _at_home(plan: Plan, reason: Reason | None) -> QuotedTerms:
    """Nobody rents for it, and its turn on its owner's cells comes: it is admitted, free."""
    floor = _floor(plan)
    if floor is None:
        return QuotedTerms(False, reason or Reason("waiting_for_interval"))
    workers = max(row.workers for row in floor.allocation)
    span = (floor.start, floor.end, workers)
    return QuotedTerms(True, reason, "own", *span, payees={}, worth=floor.value, home=floor)


def terms_of(frame: PoolFrame, booking: Booking, home: Floor | None = None, payer_id: int | None = None) -> QuotedTerms:
    payees: defaultdict[int, int] = defaultdict(int)
    charges = charges_of(frame.owner_ids, booking)
    for slot in charges:
        for owner, amount in slot:
            payees[owner] += amount
    price = sum(payees.values())
    span = (booking.start, booking.end, booking.workers)
    own_part = 0 if payer_id is None else payees.get(payer_id, 0)
    resizes = resizes_of(booking, charges)
    return QuotedTerms(True, None, booking.phase, *span, price, dict(payees), own_part, booking.value, home, resizes)
