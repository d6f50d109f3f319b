"""The batch lane's step at a slot boundary: gather, decide, apply. Once, whoever calls it and however often."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduling.core import records
from scheduling.core.policies.astraea import Astraea
from scheduling.core.types import WAITING, Plan, Policy, Reason, View
from scheduling.models import Interval, JobState, Lane, LaneClock, Pool, TrainingJob
from scheduling.selectors.use_prices import in_credits, use_prices
from scheduling.services import plans
from scheduling.services.budgets import budget_events, reasons_by_budget, smaller_by_budget
from scheduling.services.calendar import batch_reserve, prices_post
from scheduling.services.chain import START, Contents, interval_new, policy_bytes
from scheduling.services.collector import collector_resting
from scheduling.services.elastic import elastic_events, jobs_pause, smaller_write, taken_over_events, use_post
from scheduling.services.feed import events_append
from scheduling.services.lanes import Busy, lane_lock
from scheduling.services.settlement import awards_start
from scheduling.snapshots.batch import BatchSnapshot, batch_view, glance, states_decided
from scheduling.snapshots.frame import PoolFrame
from scheduling.snapshots.policy import batch_settings
from scheduling.snapshots.weights import policy_built
from scheduling.snapshots.windows import windows_bytes
from tenants.ledger.postings import InsufficientFunds
from tenants.ledger.services import balances_lock, post_many
from tenants.scoping import scope_disabled

ATTEMPTS = 3  # decisions on balances that somebody else may change; the last one locks them


class FundsMoved(RuntimeError):
    """Balances changed between the snapshot and the posting. The step is undone, and taken again."""


def interval_run(*, pool_id: int, slot: int, at: datetime, over: bool = False) -> Interval | Busy | None:
    """Decide at the boundary before `slot`. None: nothing new was decided, or it is not this slot's turn.

    The lane's clock says whose turn it is: a step for slot s is taken only by whoever finds s - 1 decided. While
    the lane is held nothing is decided, and its clock goes on. `over`: the slot has passed already, and
    nobody is to pay for it.
    """
    with scope_disabled("an interval is decided for all tenants at once"), transaction.atomic():
        clock = lane_lock(pool_id=pool_id, lane=Lane.BATCH, wait=False)
        if clock is None:
            return Busy()
        if clock.decided_slot != slot - 1:
            return None
        if stands := clock.held or over:
            _undecided(clock, over, at)
        interval = None if stands else _decided(clock, slot, at)
        clock.decided_slot = slot
        clock.save(update_fields=["decided_slot", "frontier", "memory", "head"])
        return interval


def _undecided(clock: LaneClock, over: bool, at: datetime) -> None:
    """An elastic pool's jobs run no further than they were decided about. In a slot that passed none is told: the next
    boundary comes at once."""
    if clock.pool.is_elastic and not over:
        jobs_pause(clock.pool, Reason("market_held"), at)


def _decided(clock: LaneClock, slot: int, at: datetime) -> Interval | None:
    pool = Pool.objects.get(pk=clock.pool_id)
    frame = None if pool.is_elastic else _due(pool, clock, slot, at)
    if frame is None and not pool.is_elastic:
        return None
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with transaction.atomic(), collector_resting():
                if attempt == ATTEMPTS:
                    _lock_funds(pool)
                return _gather_decide_apply(pool, clock, slot, at, frame)
        except FundsMoved:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _due(pool: Pool, clock: LaneClock, slot: int, at: datetime) -> PoolFrame | None:
    """The pool as it stands, where a window opens at this slot or the policy has something to be told again.

    None: the queue is not read. Who is new is told when the interval closes, and the frontier moves.
    """
    snapshot = glance(pool, slot, clock)
    policy = batch_policy(snapshot.frame, slot)
    plan = policy.between_boundaries(snapshot.view) if isinstance(policy, Astraea) else None
    if plan is None or says_something(plan, snapshot.view):
        return snapshot.frame
    _tell(snapshot, plan, at)
    _promise(clock, plan, slot)
    return None


def _lock_funds(pool: Pool) -> None:
    """Before the calendar, against the usual order. The instant lane never waits for us there: what it sells of the
    cells ends where our plans begin."""
    queue = TrainingJob.objects.filter(pool=pool, lane=Lane.BATCH, state=JobState.QUEUED).order_by()
    balances_lock(tenant_ids=queue.values_list("tenant_id", flat=True).distinct())


def _gather_decide_apply(
    pool: Pool, clock: LaneClock, slot: int, at: datetime, seen: PoolFrame | None
) -> Interval | None:
    plans.floors_missed_void(pool.pk, slot, at)
    snapshot = batch_view(pool, slot, clock, at, seen=seen)
    policy = batch_policy(snapshot.frame, slot)
    plan = policy.decide(snapshot.view)
    return _apply(snapshot, policy, plan, clock, at)


def batch_policy(frame: PoolFrame, slot: int = 0) -> Policy:
    """The policy of the pool's batch lane at a boundary; only prices of use depend on which."""
    prices = in_credits(use_prices(frame.pool, slot)) if frame.pool.is_elastic else None
    settings = batch_settings(frame.pool, frame.cluster.resources, prices)
    return policy_built(settings, frame.batch_cluster)


def _apply(snapshot: BatchSnapshot, policy: Policy, plan: Plan, clock: LaneClock, at: datetime) -> Interval | None:
    """Rows in the order of the locks, the book last. The clock is told once nothing can be refused any more."""
    interval = _interval_store(snapshot, policy, plan, clock, at) if says_something(plan, snapshot.view) else None
    _tell(snapshot, plan, at)
    if interval is not None:
        _book(snapshot, plan, interval)
        clock.head = interval.digest
    _promise(clock, plan, snapshot.view.slot)
    clock.memory = clock.memory if plan.memory is None else dict(plan.memory)
    return interval


def _tell(snapshot: BatchSnapshot, plan: Plan, at: datetime) -> None:
    """Who got nothing, and why: where it is anything new."""
    told = plans.news(snapshot, reasons_by_budget(snapshot, plan.refusals))
    plans.jobs_refuse(told, states_decided(snapshot.frame.pool), at)
    events_append([*plans.refusal_events(snapshot, told, at), *taken_over_events(snapshot, plan, at)])


def _promise(clock: LaneClock, plan: Plan, slot: int) -> None:
    """A frontier never moves back."""
    clock.frontier = max(clock.frontier, slot + 1 if plan.frontier is None else plan.frontier)


def _book(snapshot: BatchSnapshot, plan: Plan, interval: Interval) -> None:
    plans.floors_store(snapshot, interval, plan.floors)
    elastic = snapshot.frame.pool.is_elastic
    awards = plans.awards_store(snapshot, interval, plan.bookings)
    plans.jobs_award(awards, states_decided(snapshot.frame.pool))
    batch_reserve(snapshot.frame, snapshot.view.jobs, plan.bookings)
    if elastic:
        use_post(snapshot, plan.bookings)
    prices_post(snapshot.frame, plan.windows)
    at_once = [award for award in awards if award.start <= interval.slot]
    awards_start([(award.pk, award.job_id, award.tenant_id, None, award.start) for award in at_once])
    smaller = smaller_by_budget(snapshot, plan.smaller)
    smaller_write(smaller)
    news = elastic_events(snapshot, awards, smaller) if elastic else plans.award_events(awards, interval)
    passed = budget_events(awards, pool=snapshot.frame.pool, at=interval.decided_at)
    events_append([*news, *passed, plans.interval_event(snapshot.frame, interval, plan)])
    if isinstance(post_many(postings=plans.holds_of(awards, interval)), InsufficientFunds):
        raise FundsMoved


def says_something(plan: Plan, view: View) -> bool:
    """Whether the plan is more than the same jobs waiting on."""
    if plan.bookings or plan.floors or plan.windows:
        return True
    if any(refusal.state != WAITING for refusal in plan.refusals):
        return True
    return plan.memory is not None and dict(plan.memory) != dict(view.memory)


def _interval_store(snapshot: BatchSnapshot, policy: Policy, plan: Plan, clock: LaneClock, at: datetime) -> Interval:
    contents = Contents(
        policy_bytes(policy),
        records.view_bytes(snapshot.view),
        records.plan_bytes(plan),
        windows_bytes(snapshot.frame, plan.windows),
    )
    last = Interval.objects.filter(pool=clock.pool_id).order_by("-number").values_list("number", flat=True).first()
    interval = interval_new(
        pool_id=clock.pool_id,
        number=(last or 0) + 1,
        slot=snapshot.view.slot,
        at=at,
        previous=clock.head or START,
        contents=contents,
    )
    interval.window_start = min((window.start for window in plan.windows), default=None)
    interval.window_end = max((window.end for window in plan.windows), default=None)
    interval.jobs_waiting = len(snapshot.view.waiting)
    interval.jobs_awarded = len(plan.bookings)
    interval.paid = plans.paid_by(plan.bookings)
    interval.save(force_insert=True)
    return interval
