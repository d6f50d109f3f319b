"""Decides the same intervals as the market, a hundred in one transaction, with what would be read back in memory.

This is for a pool in which nothing outlives its slot: each slot is one window, and every job runs in one. Only what an
audit reads is written: intervals, floors, awards, jobs and their events, posted prices and the book, and of the
calendar the last slot alone. Two things show that all is as the market would have it: built by the market alone, the
chain ends with the same digest, and a verification of everything finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import transaction

from scheduling.core import records, settlement
from scheduling.core.collector import collector_resting
from scheduling.core.types import Floor, Job, Plan, Policy, View
from scheduling.feed.events import event, events_append, job_subject
from scheduling.market.calendar.rows import batch_reserve, prices_post
from scheduling.market.decide import plans
from scheduling.market.decide.chain import START, interval_new, policy_bytes
from scheduling.market.decide.interval import batch_policy
from scheduling.market.reads import Contents
from scheduling.market.settle.payments import parts_by_account
from scheduling.market.view.batch import ENDLESS, BatchSnapshot, batch_view
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.jobs import JobReader
from scheduling.market.view.windows import windows_bytes
from scheduling.models import Award, AwardState, Event, Interval, JobFloor, JobState, Lane, LaneClock, Pool, TrainingJob
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import Posting, available
from tenants.ledger.postings import settlement as settled
from tenants.ledger.selectors import balances
from tenants.ledger.services import post_many


@dataclass
class World:
    """The state of the pool between two slots."""

    frame: PoolFrame
    clock: LaneClock
    policy: Policy
    reader: JobReader
    number: int  # of the last interval
    waiting: dict[int, TrainingJob]
    jobs: dict[int, Job]
    floors: dict[int, Floor]
    spendable: dict[int, int]  # tenant id -> micro-credits


@dataclass(frozen=True)
class Decided:
    snapshot: BatchSnapshot
    plan: Plan
    refusals: Sequence[Event]
    interval: Interval
    floors: Sequence[JobFloor]
    awards: Sequence[Award]


@transaction.atomic
def slots_at_once(pool: Pool, first: int, end: int) -> int:
    """Settle and decide the slots [first, end), as `slot_settle` and `interval_run` would one by one."""
    with collector_resting():
        world = _world(pool, first)
        arriving = list(TrainingJob.objects.filter(pool=pool, arrival__gt=first).order_by("arrival", "pk"))
        touched = [*world.waiting.values(), *arriving]
        postings, decided = _settled(world, first), []
        for slot in range(first, end):
            while arriving and arriving[0].arrival <= slot:
                job = arriving.pop(0)
                world.waiting[job.pk], world.jobs[job.pk] = job, world.reader.read(job)
            decided.append(_decide(world, slot))
        _store(world, decided, touched, postings)
        world.clock.decided_slot, world.clock.settled_slot = end - 1, end - 2
        world.clock.save()
    return end - first


def _world(pool: Pool, first: int) -> World:
    """Return the state of the pool as the market would see it now."""
    clock = LaneClock.objects.select_for_update(no_key=True).get(pool=pool, lane=Lane.BATCH)
    snapshot = batch_view(pool, first, clock, pool.slot_start(first))
    frame, view = snapshot.frame, snapshot.view
    outlives = [*view.active, *view.windows, *view.occupied.ravel()]
    assert not outlives, "nothing may outlive its slot here"
    funds = balances(accounts=[available(tenant_id) for tenant_id in frame.tenant_ids])
    last = Interval.objects.filter(pool=pool).order_by("-number").values_list("number", flat=True).first()
    return World(
        frame=frame,
        clock=clock,
        policy=batch_policy(frame),
        reader=JobReader(frame),
        number=last or 0,
        waiting=dict(snapshot.waiting),
        jobs=dict(view.jobs),
        floors=dict(view.floors),
        spendable={tenant_id: funds[available(tenant_id)] for tenant_id in frame.tenant_ids},
    )


def _decide(world: World, slot: int) -> Decided:
    snapshot = _snapshot(world, slot)
    plan = world.policy.decide(snapshot.view)
    interval = _interval(world, snapshot, plan)
    refusals = plans.refusal_events(snapshot, plan.refusals, (), interval.decided_at)
    amounts = settlement.charges_of_all(plan.bookings)
    awards = [plans.award_of(snapshot, booking, due) for booking, due in zip(plan.bookings, amounts, strict=True)]
    interval.paid = plans.paid_by(plan.bookings)
    for award in awards:
        assert (award.start, award.end) == (slot, slot + 1)
        award.awarded_at = interval.decided_at
        world.spendable[award.tenant_id] -= award.paid
        world.waiting.pop(award.job_id).state = JobState.RUNNING
    for refusal in plan.refusals:
        job = world.waiting[refusal.job]
        job.state, job.reason_code = plans.state_of(refusal), refusal.reason.code
        job.reason_numbers = plans.numbers_of(refusal.reason)
        if job.state != JobState.QUEUED:
            del world.waiting[job.pk]
    floors = [_floor(plans.floor_row(snapshot, interval, floor), interval) for floor in plan.floors]
    world.floors |= {floor.job: floor for floor in plan.floors}
    world.clock.head, world.number = interval.digest, interval.number
    world.clock.memory = world.clock.memory if plan.memory is None else dict(plan.memory)
    world.clock.frontier = max(world.clock.frontier, slot + 1 if plan.frontier is None else plan.frontier)
    return Decided(snapshot, plan, refusals, interval, floors, awards)


def _floor(row: tuple[Any, ...], interval: Interval) -> JobFloor:
    """Return the row of a floor. It is stored once its interval is."""
    columns = dict(zip(plans.FLOOR_COLUMNS, row, strict=True))
    del columns["interval_id"]
    return JobFloor(**columns, interval=interval)


def _snapshot(world: World, slot: int) -> BatchSnapshot:
    """Return what `batch_view` would read, from what is kept in memory."""
    frame = world.frame
    world.floors = {n: f for n, f in sorted(world.floors.items()) if f.end > slot or n in world.waiting}
    spare = dict(world.spendable)
    for row in world.waiting.values():
        spare[row.tenant_id] -= 1
    named = sorted(world.waiting.keys() | world.floors.keys())
    view = View(
        slot=slot,
        horizon=ENDLESS,
        cluster=frame.batch_cluster,
        waiting=tuple(world.jobs[number] for number in world.waiting),
        remaining=np.array([float(world.jobs[number].work) for number in world.waiting]),
        occupied=np.zeros((len(frame.resource_ids), 0, len(frame.server_ids))),
        jobs={number: world.jobs[number] for number in named},
        floors=world.floors,
        funds=np.array([max(spare[tenant_id], 0) / MICRO for tenant_id in frame.tenant_ids]),
        memory=world.clock.memory,
        frontier=world.clock.frontier,
    )
    return BatchSnapshot(frame, view, dict(world.waiting), {}, frozenset(), {}, {})


def _interval(world: World, snapshot: BatchSnapshot, plan: Plan) -> Interval:
    view = snapshot.view
    contents = Contents(
        policy_bytes(world.policy),
        records.view_bytes(view),
        records.plan_bytes(plan),
        windows_bytes(world.frame, plan.windows),
    )
    interval = interval_new(
        pool_id=world.frame.pool.pk,
        number=world.number + 1,
        slot=view.slot,
        at=world.frame.pool.slot_start(view.slot),
        previous=world.clock.head or START,
        contents=contents,
    )
    interval.window_start = min(window.start for window in plan.windows)
    interval.window_end = max(window.end for window in plan.windows)
    interval.jobs_waiting, interval.jobs_awarded = len(view.waiting), len(plan.bookings)
    return interval


def _store(world: World, decided: Sequence[Decided], touched: Sequence[TrainingJob], before: Sequence[Posting]) -> None:
    """Store everything that was decided, and post the money. The awards of the last slot wait for their settlement."""
    Interval.objects.bulk_create(each.interval for each in decided)
    JobFloor.objects.bulk_create(row for each in decided for row in each.floors)
    last = decided[-1].interval.slot
    for award in (award for each in decided for award in each.awards):
        award.state = AwardState.RUNNING if award.start == last else AwardState.DONE
        if award.start < last:
            award.job.state, award.job.ended_at = JobState.FINISHED, world.frame.pool.slot_start(award.end)
    for each in decided:
        for floor in each.floors:
            floor.interval = each.interval
        for award in each.awards:
            award.interval = each.interval
    Award.objects.bulk_create(award for each in decided for award in each.awards)
    for each in decided:
        finished = [_finished(award) for award in each.awards if award.start < last]
        events_append([*each.refusals, *plans.award_events(each.awards, each.interval), *finished])
        prices_post(world.frame, each.plan.windows)
    batch_reserve(world.frame, decided[-1].snapshot.view.jobs, decided[-1].plan.bookings)
    TrainingJob.objects.bulk_update(touched, ["state", "reason_code", "reason_numbers", "ended_at"])
    postings = list(before)
    for each in decided:
        postings += plans.holds_of(each.awards, each.interval)
        if each.interval.slot < last:
            postings += [_settlement(world.frame.pool, award) for award in each.awards if award.paid]
    assert isinstance(post_many(postings=postings), tuple)


def _settled(world: World, first: int) -> list[Posting]:
    """End the awards of the slot before `first`. Return the postings that settle them."""
    running = list(Award.objects.filter(pool=world.frame.pool, state=AwardState.RUNNING).order_by("pk"))
    Award.objects.filter(pk__in=[award.pk for award in running]).update(state=AwardState.DONE)
    jobs = TrainingJob.objects.filter(pk__in=[award.job_id for award in running])
    jobs.update(state=JobState.FINISHED, ended_at=world.frame.pool.slot_start(first))
    events_append(_finished(award) for award in running)
    return [_settlement(world.frame.pool, award) for award in running if award.paid]


def _finished(award: Award) -> Event:
    at, subject = award.pool.slot_start(award.end), job_subject(award.job_id)
    about = {"pool_id": award.pool_id, "tenant_id": award.tenant_id, "subject": subject}
    return event("job_finished", **about, at=at, data={"slot": award.end})


def _settlement(pool: Pool, award: Award) -> Posting:
    return settled(
        key=f"settle:{pool.pk}:{award.start}:{award.pk}",
        tenant_id=award.tenant_id,
        parts=parts_by_account(award.charges[0]),
        at=pool.slot_start(award.end),
        subject=job_subject(award.job_id),
        facts={"slot": award.start, "award": award.pk},
    )
