"""The batch lane at a slot boundary: gather, decide, apply. Each slot is decided once, however often this is called.

The nine numbered steps are those of "How an interval flows" in docs/architecture.md. Steps 3 to 8 leave a line in the
log, step 2 only where no interval closes, steps 1 and 9 none.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.db import transaction

from scheduling.common import Steps
from scheduling.core import records
from scheduling.core.collector import collector_resting
from scheduling.core.types import WAITING, HasWindows, Plan, Policy, Reason, View
from scheduling.feed import events_append
from scheduling.market.calendar.lanes import Busy, clocks_of, lane_lock, pool_now
from scheduling.market.calendar.rows import batch_reserve, prices_post, ticks_write
from scheduling.market.decide import plans
from scheduling.market.decide.budgets import budget_events, reasons_by_budget, smaller_by_budget
from scheduling.market.decide.chain import START, base_for, heads_beside, interval_new, policy_bytes
from scheduling.market.elastic.boundary import elastic_events, jobs_pause, smaller_write, taken_over_events, use_ticks
from scheduling.market.elastic.read_reports import with_reports
from scheduling.market.reads.stored_intervals import Contents
from scheduling.market.settle.rents import rents_close
from scheduling.market.settle.slots import AwardMove, awards_start
from scheduling.market.view.batch import BatchSnapshot, batch_view, glance, states_decided
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.policy import batch_settings, policy_built
from scheduling.market.view.windows import windows_bytes
from scheduling.models import Interval, Lane, LaneClock, Pool, TrainingJob
from scheduling.money import passed_by_others
from tenants.ledger.postings import InsufficientFunds
from tenants.ledger.services import balances_lock, post_many
from tenants.scoping import scope_disabled

ATTEMPTS = 3  # decisions on balances that somebody else may change; the last one locks them


class FundsMoved(RuntimeError):
    """Balances, or what was spent of a hard limit, changed between the snapshot and the posting. The step is rolled
    back and repeated."""


def interval_run(*, pool_id: int, slot: int, at: datetime, over: bool = False) -> Interval | Busy | None:
    """Decide at the boundary before `slot`. Return None if nothing new was decided, or it is not this slot's turn.

    The lane's clock says which slot is next: slot s is decided only while s - 1 is the last slot decided. While the
    lane is held nothing is decided, but its clock advances. `over` says that the slot has passed already, so that
    nobody may be charged for it.
    """
    with scope_disabled("an interval is decided for all tenants at once"), transaction.atomic():
        # 1. The turn: go on only if the slot before is the last one decided; otherwise return.
        clock = lane_lock(pool_id=pool_id, lane=Lane.BATCH, wait=False)
        if clock is None:
            return Busy()
        if clock.decided_slot != slot - 1:
            return None
        clock.pool = pool_now(pool_id)
        steps = Steps("interval", f"{clock.pool.slug}:{slot}")
        interval = None
        if clock.held or over:
            # A job of an elastic pool runs only in slots that were decided. For a slot that has passed no pause is
            # reported: the next boundary is decided right after.
            if clock.pool.is_elastic and not over:
                jobs_pause(clock.pool, Reason("market_held"), at)
            steps.done("undecided", held=clock.held, over=over)
        else:
            interval = _decided(clock, slot, at, steps)
        # 9. The clock advances, in the same transaction as everything above.
        clock.decided_slot = slot
        clock.save(update_fields=["decided_slot", "frontier", "memory", "head"])
        return interval


def _decided(clock: LaneClock, slot: int, at: datetime, steps: Steps) -> Interval | None:
    """Decide the interval of the slot, and repeat it where balances changed since the pool was read."""
    pool, frame = clock.pool, None
    if not pool.is_elastic:
        # 2. A glance at the pool without its queue: an interval closes only at few of the slot boundaries.
        frame = _due(pool, clock, slot, at)
        if frame is None:
            steps.done("glance", quietly=True)
            return None
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with transaction.atomic(), collector_resting():
                if attempt == ATTEMPTS:
                    _lock_funds(pool)
                return _attempt(pool, clock, slot, at, frame, steps)
        except FundsMoved:
            steps.done("undone", attempt=attempt, why="balances moved")
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _attempt(
    pool: Pool, clock: LaneClock, slot: int, at: datetime, pool_frame: PoolFrame | None, steps: Steps
) -> Interval | None:
    """Try once to decide and store the interval. Rows are written in the order of the locks, the book last. The clock
    object is changed only after the hold has succeeded. `pool_frame` is the pool as the glance read it."""
    # 3. Gather: rows become one frozen view.
    plans.floors_missed_void(pool.pk, slot, at)
    snapshot = batch_view(pool, slot, clock, at, last_frame=pool_frame)
    policy = batch_policy(snapshot.frame, slot)
    if pool.is_elastic:
        snapshot = replace(snapshot, view=with_reports(snapshot.view, policy))
    view = snapshot.view
    steps.done("gather", waiting=len(view.waiting), unfit=len(snapshot.unfit), active=len(view.active))

    # 4. Decide: this is pure, so the same view always gives the same plan.
    plan = policy.decide(view)
    steps.done("decide", policy=policy.name, awards=len(plan.bookings), floors=len(plan.floors))

    # 5. Store the plan and the view that it was made from, as bytes in the pool's chain.
    interval = _interval_store(snapshot, policy, plan, clock, at) if says_something(plan, view) else None
    steps.done("store", interval=interval and interval.number)

    # 6. Refuse: write why jobs got nothing, where that is news.
    steps.done("refuse", news=_refuse(snapshot, policy, plan, at))

    if interval is not None:
        # 7. Book: floors, awards, their units in the calendar, prices; awards that begin with this slot are started.
        plans.floors_store(snapshot, interval, plan.floors)
        awards = plans.awards_store(snapshot, interval, plan)
        plans.jobs_award(awards, states_decided(pool))
        plans.worths_store(plan.worths)
        batch_reserve(snapshot.frame, view.jobs, plan.bookings)
        if pool.is_elastic:
            ticks_write(pool, Lane.BATCH, use_ticks(pool, snapshot.frame.resource_ids, view, plan.bookings))
        prices_post(snapshot.frame, plan.windows)
        at_once = [award for award in awards if award.start <= slot]
        awards_start([AwardMove(award.pk, award.job_id, award.tenant_id, None, award.start) for award in at_once])
        smaller = smaller_by_budget(snapshot, plan.smaller)
        smaller_write(smaller)
        news = (
            elastic_events(snapshot.slots, awards, smaller) if pool.is_elastic else plans.award_events(awards, interval)
        )
        passed = budget_events(awards, pool=pool, at=at)
        closings = plans.rents_settled(snapshot, interval, plan)
        arrears, adjusted = rents_close(pool, closings, clock.settled_slot, at)
        events_append([*news, *adjusted, *passed, plans.interval_event(snapshot.frame, interval, plan, arrears)])
        steps.done("book", awards=len(awards), started=len(at_once))

        # 8. Hold every award's price, in one call, last: if a tenant cannot pay any more, the attempt is rolled back.
        # Rents that are over are paid from credits held for them, so they cannot be the reason for that. The hold keeps
        # what the payers have for this transaction, so what is read of their hard limits after it is final.
        if isinstance(post_many(postings=[*arrears, *plans.holds_of(awards, interval)]), InsufficientFunds):
            raise FundsMoved
        if passed_by_others(snapshot.budgets, awards, at=at):
            raise FundsMoved
        clock.head = interval.digest
        steps.done("hold", last=True, paid=interval.paid)
    clock.frontier = frontier_after(clock, plan, slot)
    clock.memory = clock.memory if plan.memory is None else dict(plan.memory)
    return interval


def _due(pool: Pool, clock: LaneClock, slot: int, at: datetime) -> PoolFrame | None:
    """Return the pool as it is now, if a window opens at this slot or the policy has anything to decide; else None.

    For None the queue need not be read: the frontier is moved, and new jobs get their answer when an interval closes.
    """
    snapshot = glance(pool, slot, clock)
    policy = batch_policy(snapshot.frame, slot)
    plan = policy.between_boundaries(snapshot.view) if isinstance(policy, HasWindows) else None
    if plan is None or says_something(plan, snapshot.view):
        return snapshot.frame
    _refuse(snapshot, policy, plan, at)
    clock.frontier = frontier_after(clock, plan, slot)
    return None


def boundary_without_news(pool: Pool, clock: LaneClock, slot: int) -> int | None:
    """Return the first slot, from this one on, at which the policy does something even if no new job arrives, or None
    if there is no such slot."""
    snapshot = glance(pool, slot, clock)
    policy = batch_policy(snapshot.frame, slot)
    if not isinstance(policy, HasWindows):
        return None
    plan = policy.between_boundaries(snapshot.view)
    if plan is None or says_something(plan, snapshot.view):
        return slot
    following = policy.next_boundary(snapshot.view)
    return None if following is None else following[0]


def frontier_for(pool: Pool, at: datetime, frontier: int) -> int:
    """Return the first slot that a decision about a job that comes now may touch. `frontier` is the batch lane's.

    They differ between the begin of a slot and the tick that decides it: that decision will not see the job. Only where
    this one tick is due is the pool read; what several late ones will do is not known.
    """
    slot = pool.slot_at(at)
    if pool.is_elastic or not frontier or frontier > slot + (pool.clock_first if pool.clock_restart else 0):
        return frontier  # the lane promised nothing yet; or so much that the tick came, or will not change it
    clock = clocks_of(pool).get(Lane.BATCH)
    if clock is None or clock.held or clock.decided_slot != slot - 1:
        return frontier
    with scope_disabled("which slots are dealt out is the same for everybody"):
        snapshot = glance(pool, slot, clock)
    policy = batch_policy(snapshot.frame, slot)
    after = policy.frontier_after(snapshot.view) if isinstance(policy, HasWindows) else None
    return frontier if after is None else max(frontier, after)


def _lock_funds(pool: Pool) -> None:
    """Lock the balances of all tenants whose jobs are decided about. This happens before the calendar is written,
    against the usual order of locks. The instant lane never waits for us in the calendar: its sales of cells end where
    our plans begin."""
    queue = TrainingJob.objects.filter(pool=pool, lane=Lane.BATCH, state__in=states_decided(pool)).order_by()
    balances_lock(tenant_ids=queue.values_list("tenant_id", flat=True).distinct())


def batch_policy(frame: PoolFrame, slot: int = 0) -> Policy:
    """Return the policy of the pool's batch lane at a boundary. Only prices of use and weights depend on the slot."""
    return policy_built(batch_settings(frame.pool, frame.cluster.resources, slot), frame.batch_cluster)


def _refuse(snapshot: BatchSnapshot, policy: Policy, plan: Plan, at: datetime) -> int:
    """Write why jobs got nothing, where the reason is new. Return how many such jobs there are."""
    # A job that bought a piece still waits for the rest, but counts as served.
    served = {booking.job for booking in plan.bookings}
    unserved = [refusal for refusal in plan.refusals if refusal.job not in served]
    refusals = [*snapshot.unfit, *reasons_by_budget(snapshot, unserved)]
    if isinstance(policy, HasWindows):
        divisible = {job.number for job in snapshot.view.waiting if job.divisible}
        refusals = [
            plans.longest_told(refusal, policy.longest_window, in_pieces=refusal.job in divisible)
            for refusal in refusals
        ]
    news = plans.news(snapshot, refusals)
    plans.jobs_refuse(news, states_decided(snapshot.frame.pool), at)
    last = policy.last_chances(snapshot.view, plan) if isinstance(policy, HasWindows) else {}
    events = [*plans.refusal_events(snapshot, news, last, at), *plans.last_chance_events(snapshot, last, at)]
    events_append([*events, *taken_over_events(snapshot.frame.pool, snapshot.view, plan, at)])
    return len(news)


def frontier_after(clock: LaneClock, plan: Plan, slot: int) -> int:
    """Return the lane's frontier after the plan: the first slot that is not yet dealt out. It never moves back."""
    return max(clock.frontier, slot + 1 if plan.frontier is None else plan.frontier)


def says_something(plan: Plan, view: View) -> bool:
    """Return whether the plan changes anything, other than that the same jobs keep waiting."""
    if plan.bookings or plan.floors or plan.windows or plan.settlements or plan.worths:
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
        heads_beside(clock.pool_id),
    )
    last = Interval.objects.filter(pool=clock.pool_id).order_by("-number").values_list("number", flat=True).first()
    number = (last or 0) + 1
    interval = interval_new(
        pool_id=clock.pool_id,
        number=number,
        slot=snapshot.view.slot,
        at=at,
        previous=clock.head or START,
        contents=contents,
        base=base_for(clock.pool_id, number, at),
    )
    interval.window_start = min((window.start for window in plan.windows), default=None)
    interval.window_end = max((window.end for window in plan.windows), default=None)
    interval.jobs_waiting = len(snapshot.view.waiting)
    interval.jobs_awarded = len(plan.bookings)
    interval.paid = plans.paid_by(plan.bookings)
    interval.save(force_insert=True)
    return interval
