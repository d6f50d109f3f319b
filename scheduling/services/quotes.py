"""What would become of a job if it were submitted now. The same question as a submission, without its consequence.

A quote locks nothing and writes nothing. In the instant lane it is the very computation that a submission makes, so
the price is the one that a submission at this moment pays. In the batch lane the decision lies ahead and others may
still come: the answer is what the next boundary would decide if nobody did, with a range, and marked as an estimate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling.core.types import WAITING, Booking, Floor, Plan, Reason
from scheduling.models import Lane, LaneClock, Pool, TrainingJob
from scheduling.services.estimates import Estimate, start_estimate
from scheduling.services.instant import instant_answer, purse_of
from scheduling.services.intervals import batch_policy
from scheduling.services.jobs import job_checked
from scheduling.services.terms import charges_of
from scheduling.snapshots.batch import batch_view
from scheduling.snapshots.frame import PoolFrame
from scheduling.snapshots.specs import spec_read
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.scoping import scope, scope_disabled
from tenants.services.members import NOT_ALLOWED

SUPPOSED = 2**62  # the number of a job that does not exist: larger than that of any that does
MARGIN = 1.001  # a value just above the price wins; one that only equals it does not

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Terms:
    """What the job would get, or why it would not. Amounts in micro-credits."""

    admitted: bool
    reason: Reason | None
    phase: str | None = None
    start: int | None = None
    end: int | None = None
    workers: int = 0
    price: int = 0
    payees: Mapping[int, int] | None = None  # tenant id, or 0 for the operator -> its part
    worth: float = 0.0  # credits, of an end at that time
    home: Floor | None = None  # batch lane: what it would get if its owner were alone, where that has been planned


@dataclass(frozen=True)
class Change:
    """Something else to ask for that would win."""

    what: str  # fewer_workers | higher_value | more_budget | higher_max_price
    before: float
    after: float
    terms: Terms | None  # None: only the money is missing
    fields: Spec = field(default_factory=dict)  # what would be said differently, in the words of a specification


@dataclass(frozen=True)
class Quote:
    lane: str
    terms: Terms
    estimate: Estimate | None  # batch lane: the terms are an estimate, and this is the range
    change: Change | None  # the cheapest one found, where the job would not be admitted


Ask = Callable[[TrainingJob], Terms]


def job_quote(*, pool: Pool, name: str, spec: Spec, lane: str, by: Access, at: datetime) -> Quote | Refused:
    """Arguments as those of `job_submit`. A job that could not be submitted is refused in the same words."""
    if by.tenant is None or not by.allows(Permission.QUOTES_MAKE):
        return NOT_ALLOWED
    with scope(by.tenant):
        job = job_checked(by.tenant, pool, name, spec, lane, by.user, at)
    if isinstance(job, Refused):
        return job
    with scope_disabled("what is for sale, and who waits, is everybody's"):
        ask: Ask = (lambda row: _instant(row, at)) if lane == Lane.INSTANT else (lambda row: _batch(row, at))
        terms = ask(job)
        estimate = None if lane == Lane.INSTANT else _estimate(job, at)
        return Quote(lane, terms, estimate, None if terms.admitted else _cheapest(job, terms, ask))


def _instant(job: TrainingJob, at: datetime) -> Terms:
    if LaneClock.objects.filter(pool=job.pool, lane=Lane.INSTANT, held=True).exists():
        return Terms(False, Reason("market_held"))
    answer = instant_answer(job, purse_of(job, at))
    if isinstance(answer.given, Reason):
        return Terms(False, answer.given)
    return _terms(answer.snapshot.frame, answer.given)


def _batch(job: TrainingJob, at: datetime) -> Terms:
    """Decide at the next boundary as if nobody else came: first ask the clock when that is, then ask there."""
    stored = LaneClock.objects.filter(pool=job.pool, lane=Lane.BATCH).first() or LaneClock(pool=job.pool)
    row = _supposed(job)
    clock, slot = stored, max(stored.decided_slot + 1, int(-(-job.arrival // 1)))
    for _ in range(2):
        frame, plan = _decided(row, clock, slot, at)
        if booking := next((booking for booking in plan.bookings if booking.job == SUPPOSED), None):
            return _terms(frame, booking, _floor(plan))
        if plan.windows or plan.frontier is None or plan.frontier <= slot:
            break
        memory = clock.memory if plan.memory is None else dict(plan.memory)
        clock, slot = LaneClock(pool=job.pool, lane=Lane.BATCH, memory=memory), plan.frontier
    refusal = next((refusal for refusal in plan.refusals if refusal.job == SUPPOSED), None)
    if refusal is None or (refusal.state == WAITING and refusal.reason.code == "waiting_at_home"):
        return _at_home(plan, refusal.reason if refusal else None)
    return Terms(False, refusal.reason, home=_floor(plan))


def _floor(plan: Plan) -> Floor | None:
    """What the plan promises the job that does not exist; nothing where no schedule at home is worth anything."""
    return next((floor for floor in plan.floors if floor.job == SUPPOSED and floor.allocation), None)


def _decided(row: TrainingJob, clock: LaneClock, slot: int, at: datetime) -> tuple[PoolFrame, Plan]:
    snapshot = batch_view(row.pool, slot, clock, at, supposed=row)
    return snapshot.frame, batch_policy(snapshot.frame).decide(snapshot.view)


def _supposed(job: TrainingJob) -> TrainingJob:
    return TrainingJob(
        pk=SUPPOSED,
        tenant_id=job.tenant_id,
        pool=job.pool,
        name=job.name,
        lane=job.lane,
        spec=job.spec,
        submitted_at=job.submitted_at,
        submitted_by=job.submitted_by,
        arrival=job.arrival,
    )


def _at_home(plan: Plan, reason: Reason | None) -> Terms:
    """Nobody rents for it, and its turn on its owner's cells comes: it is admitted, free."""
    floor = _floor(plan)
    if floor is None:
        return Terms(False, reason or Reason("waiting_for_interval"))
    workers = max(row.workers for row in floor.allocation)
    return Terms(True, reason, "own", floor.start, floor.end, workers, 0, {}, floor.value, floor)


def _terms(frame: PoolFrame, booking: Booking, home: Floor | None = None) -> Terms:
    payees: defaultdict[int, int] = defaultdict(int)
    for slot in charges_of(frame.owner_ids, booking):
        for owner, amount in slot:
            payees[owner] += amount
    price = sum(payees.values())
    span = (booking.start, booking.end, booking.workers)
    return Terms(True, None, booking.phase, *span, price, dict(payees), booking.value, home)


def _estimate(job: TrainingJob, at: datetime) -> Estimate:
    as_core = spec_read(job.pool, job.spec, tenant_id=job.tenant_id, arrival=job.arrival, lane=job.lane)
    return start_estimate(job.pool, as_core, at=at)


def _cheapest(job: TrainingJob, terms: Terms, ask: Ask) -> Change | None:
    """Of the changes that would win, the one with the lowest price. Each is tried, not guessed."""
    found = [change for change in _changes(job, terms, ask) if change.terms is None or change.terms.admitted]
    return min(found, key=lambda change: change.terms.price if change.terms else 0, default=None)


def _changes(job: TrainingJob, terms: Terms, ask: Ask) -> Iterator[Change]:
    numbers = terms.reason.numbers if terms.reason else {}
    price = numbers.get("price", numbers.get("price_at_least"))
    code = terms.reason.code if terms.reason else ""
    if code in ("over_budget", "low_balance") and isinstance(price, int | float):
        left = numbers.get("left", numbers.get("available", 0.0))
        yield Change("more_budget", float(left or 0), float(price), None)
    if code == "over_max_price" and isinstance(price, int | float):
        yield _tried(job, "higher_max_price", float(job.spec["max_price"]), float(price), {"max_price": price}, ask)
    most = int(job.spec.get("max_workers", job.spec["chunks"]))
    least = int(job.spec.get("min_workers", 1))
    for fewer in sorted({max(most // 2, least), max(most // 4, least)} - {most}):
        yield _tried(job, "fewer_workers", most, fewer, {"max_workers": fewer}, ask)
    value = numbers.get("value")
    if code == "outbid" and isinstance(price, int | float) and isinstance(value, int | float):
        raised = _raised(job.spec["value"], float(value), float(price))
        yield _tried(job, "higher_value", float(value), float(price) * MARGIN, {"value": raised}, ask)


def _tried(job: TrainingJob, what: str, before: float, after: float, fields: Spec, ask: Ask) -> Change:
    other = _supposed(job)
    other.pk, other.spec = None, {**job.spec, **fields}
    return Change(what, before, after, ask(other), fields)


def _raised(value: Spec, worth: float, price: float) -> dict[str, Any]:
    """The same curve, so much higher that the schedule in question is worth a little more than its price."""
    name = {"linear": "base", "deadline": "base", "convex": "scale", "sigmoid": "priority"}[value["kind"]]
    if value["kind"] == "linear" or worth <= 0:
        return {**value, name: value[name] + price * MARGIN - worth}
    return {**value, name: value[name] * price * MARGIN / worth}
