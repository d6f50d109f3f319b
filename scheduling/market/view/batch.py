"""The view of the batch lane: the input of its policy at a slot boundary.

It is read under the lane's lock, so that nothing in it changes until the plan is stored. The waiting jobs are read
first, and once; everything else is about them, or about earlier decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import numpy as np
from django.db import connection
from django.db.models import F, Q, QuerySet, Sum

from scheduling.core.currency import credits_of_each
from scheduling.core.types import OWN, REJECTED, Allocation, Booking, FloatArray, Floor, Job, Refusal, View
from scheduling.market.elastic.read_slots import SlotsSoFar, gangs_going_on, remaining, slots_so_far
from scheduling.market.view.demands import member_too_little, within_engine
from scheduling.market.view.floors import StandingFloor, floors_standing
from scheduling.market.view.frame import PoolFrame, planning_frame
from scheduling.market.view.held import held_array, held_rows, held_sql
from scheduling.market.view.known import KnownPool, known_pool, without_spec
from scheduling.market.view.pieces import PiecesSoFar, left_of, pieces_so_far
from scheduling.market.view.rents import rent_open, rents_open, undone, values_given_up
from scheduling.market.view.windows import published_windows
from scheduling.models import (
    PROGRAM,
    Award,
    AwardState,
    JobState,
    Lane,
    LaneClock,
    Part,
    Pool,
    TrainingJob,
    unsettled_from,
)
from scheduling.money import BudgetLimit, limits, member_caps, rent_spent, tenant_lefts
from tenants.common.repeated import RepeatedRead, Whose
from tenants.ledger.amounts import credits_of
from tenants.ledger.postings import available
from tenants.ledger.selectors import balances

ENDLESS = 2**53  # the horizon, as the market has no last slot: the end of the whole numbers that a float holds exactly


@dataclass(frozen=True, eq=False)
class BatchSnapshot:
    frame: PoolFrame
    view: View
    waiting: Mapping[int, TrainingJob]  # rows of the view's waiting jobs, by number
    open_rents: Mapping[int, Sequence[Award]]  # rows of the view's open rents, by job, in order; with their jobs
    by_budget: frozenset[int]  # tenants whose budget lets them pay less than they have
    slots: Mapping[int, SlotsSoFar]  # waiting jobs of an elastic pool that have run before
    caps: Mapping[int, int]  # job -> the most it may cost under its submitter's budget, in micro-credits
    unfit: tuple[Refusal, ...] = ()  # for rows of `waiting` left out of the view: accepted before, and impossible now
    begun: Mapping[int, PiecesSoFar] = field(default_factory=dict)  # waiting jobs of any other pool, begun in pieces
    budgets: Sequence[BudgetLimit] = ()  # of all tenants, as the view was made from them
    paid: Mapping[int, int] = field(default_factory=dict)  # waiting jobs -> the micro-credits that they paid so far

    def paid_before(self, number: int) -> int:
        """Return the micro-credits that a waiting job has paid so far."""
        return self.paid.get(number, 0)

    def row(self, number: int) -> TrainingJob:
        """Return the row of a job whose floor may change: a job that waits, or waits in its owner's world alone."""
        return self.waiting[number] if number in self.waiting else self.open_rents[number][0].job


def batch_view(
    pool: Pool,
    slot: int,
    clock: LaneClock,
    at: datetime,
    *,
    supposed: TrainingJob | None = None,
    last_frame: PoolFrame | None = None,
    alone: int | None = None,
) -> BatchSnapshot:
    """Read everything that the batch policy may know at the boundary before `slot`. Needs the scope of all tenants.

    `supposed` is a job that is treated as if it waited too (a quote). `last_frame` is the pool as it was just read,
    under the same lock or for the same quote; it is read again if a tenant that is not in it has waiting jobs. `alone`
    is the id of a tenant, if only its `alone_view` is needed: then the awards and floors of others and the calendar are
    not read.
    """
    # 1. Who asks: the jobs that wait. What was decided before and still counts: awards and open rents.
    queue = _waiting_jobs[pool.is_elastic](pool_id=pool.pk, slot=slot, now=float(slot))
    waiting = {row.pk: row for row in queue}
    if supposed is not None:
        waiting[supposed.pk] = supposed
    its = Q() if alone is None else Q(tenant=alone)
    awards = list(Award.objects.filter(unsettled_from(slot), its, pool=pool, lane=Lane.BATCH).order_by("pk"))
    rents = rents_open(pool, slot)
    # 2. The pool, with all tenants that ask.
    asking = _tenants_of(waiting, rents)
    frame = last_frame if last_frame and asking <= last_frame.tenant_index.keys() else planning_frame(pool, asking)
    # 3. The floors that stand, and all jobs that anything is about.
    cache = known_pool(frame)
    cache.begin_floors()
    standing = floors_standing(
        pool.pk,
        its & Q(end__gt=slot, draft=False),
        its & Q(job__in=waiting.keys() | rents.keys()),
        cache=cache.floor_rows,
    )
    floors = _still_used(frame, awards) | _floors(frame, cache, standing)
    jobs = _jobs(cache, waiting, {award.job_id for award in awards} | floors.keys() | rents.keys())
    cache.forget_but(jobs.keys(), standing.keys())
    # 4. What the jobs that wait had and paid so far.
    before, begun, lost = dict[int, SlotsSoFar](), dict[int, PiecesSoFar](), dict[int, int]()
    if pool.is_elastic:
        before = slots_so_far(waiting.values())
    else:
        begun, lost = pieces_so_far(waiting.values()), _paid_for_lost(waiting.values())
    had = before | begun
    paid = Counter({number: so_far.paid for number, so_far in had.items()})
    paid.update(lost)
    # 5. What they may still pay. A budget is a highest price of its jobs, too.
    budgets = limits(tenant_ids=frame.tenant_ids, at=at)
    going_on = gangs_going_on(slot, (jobs[number] for number in waiting), before)
    lefts, caps = tenant_lefts(budgets), member_caps(budgets, waiting.values(), going_on)
    spendable = _available(frame)
    jobs |= _capped(jobs, caps, paid)
    # 6. What an engine can run of them: smaller gangs, and none of jobs whose members are too small.
    if pool.is_elastic:
        jobs |= {number: within_engine(jobs[number]) for number, row in waiting.items() if PROGRAM in row.spec}
    unfit = _unfit(frame, waiting, jobs)
    fit = [number for number in waiting if number not in unfit]
    # 7. All of it as one value of the core.
    view = View(
        slot=slot,
        horizon=ENDLESS,
        cluster=frame.batch_cluster,
        waiting=tuple(jobs[number] for number in fit),
        remaining=np.array([_remaining(jobs[number], before.get(number), begun.get(number)) for number in fit]),
        occupied=_occupied(frame, slot) if alone is None else _nothing_occupied(frame),
        active=tuple(_booking(frame, award, jobs[award.job_id]) for award in awards if award.used_until > slot),
        jobs=jobs,
        floors=floors,
        windows=published_windows(frame, slot),
        spent=_spent(frame, at),
        funds=_funds(frame, waiting.values(), spendable, lefts),
        paid={
            number: credits_of(so_far.paid)
            for number, so_far in had.items()
            if (so_far.paid or number in before) and number not in unfit
        },
        paid_for_lost={number: credits_of(amount) for number, amount in lost.items() if number not in unfit},
        memory=clock.memory,
        frontier=clock.frontier,
        open_rents=_rents(frame, rents, jobs),
        undone=undone(pool, rents, unfit),
        worths={number: row.worth for number, row in waiting.items() if row.worth is not None and number not in unfit},
    )
    return BatchSnapshot(
        frame=frame,
        view=view,
        waiting=waiting,
        open_rents=rents,
        by_budget=frozenset(tenant_id for tenant_id, rest in lefts.items() if rest < spendable[tenant_id]),
        slots=before,
        caps=caps,
        unfit=tuple(unfit.values()),
        begun=begun,
        budgets=budgets,
        paid=paid,
    )


def glance(pool: Pool, slot: int, clock: LaneClock, *, supposed: TrainingJob | None = None) -> BatchSnapshot:
    """Read just what shows whether anything is due at the boundary before `slot`: of the queue the first job and the
    new ones, and one open rent, if there is any (K5)."""
    where = {"pool_id": pool.pk, "slot": slot, "now": float(slot)}
    first = _first_waiting_job[pool.is_elastic](**where)
    new = _new_jobs[pool.is_elastic](**where, before=float(slot - 1)) if first else []
    waiting = {row.pk: row for row in (*first, *new)}
    if supposed is not None:
        waiting[supposed.pk] = supposed
    open_rent = rent_open(pool, slot)
    rents = {} if open_rent is None else {open_rent.job_id: [open_rent]}
    frame = planning_frame(pool, _tenants_of(waiting, rents))
    cache = known_pool(frame)
    jobs = cache.read(waiting.values())
    jobs = {number: jobs[number] for number in waiting}
    renting = {number: cache.reader.read(awards[0].job) for number, awards in rents.items()}
    view = View(
        slot=slot,
        horizon=ENDLESS,
        cluster=frame.batch_cluster,
        waiting=tuple(jobs.values()),
        remaining=np.array([float(job.work) for job in jobs.values()]),
        occupied=_nothing_occupied(frame),
        jobs=jobs | renting,
        memory=clock.memory,
        frontier=clock.frontier,
        open_rents=_rents(frame, rents, renting),
    )
    return BatchSnapshot(frame, view, waiting, rents, by_budget=frozenset(), slots={}, caps={})


def states_decided(pool: Pool) -> list[str]:
    """Return the states in which a job may be given a schedule, or be refused one. In an elastic pool running jobs are
    decided about again."""
    return _states_decided(pool.is_elastic)


def _states_decided(elastic: bool) -> list[str]:
    return [JobState.QUEUED.value, JobState.RUNNING.value] if elastic else [JobState.QUEUED.value]


def _queue(pool_id: int, slot: int, now: float, *, elastic: bool) -> QuerySet[TrainingJob]:
    """Return all jobs that may be decided about, in order. Jobs that the platform failed repeatedly, and that pause
    until `not_before`, are left out. `now` is the slot as a time."""
    queued = TrainingJob.objects.filter(pool=pool_id, lane=Lane.BATCH, state__in=_states_decided(elastic))
    return without_spec(queued.filter(arrival__lte=now, not_before__lte=slot)).order_by("arrival", "pk")


def _first_waiting(pool_id: int, slot: int, now: float, *, elastic: bool) -> QuerySet[TrainingJob]:
    return _queue(pool_id, slot, now, elastic=elastic)[:1]


def _new(pool_id: int, slot: int, now: float, before: float, *, elastic: bool) -> QuerySet[TrainingJob]:
    return _queue(pool_id, slot, now, elastic=elastic).filter(arrival__gt=before)


def _reads(rows: Callable[..., QuerySet[TrainingJob]], **examples: float) -> Mapping[bool, RepeatedRead[TrainingJob]]:
    """Return the read for elastic pools (True) and all others (False)."""
    return {
        elastic: RepeatedRead(partial(rows, elastic=elastic), of=Whose.ALL, pool_id=-1, slot=-2, now=-3.5, **examples)
        for elastic in (False, True)
    }


_waiting_jobs, _first_waiting_job, _new_jobs = _reads(_queue), _reads(_first_waiting), _reads(_new, before=-4.5)


def _tenants_of(waiting: Mapping[int, TrainingJob], rents: Mapping[int, Sequence[Award]]) -> set[int]:
    return {row.tenant_id for row in (*waiting.values(), *(awards[0] for awards in rents.values()))}


def _jobs(cache: KnownPool, waiting: Mapping[int, TrainingJob], named: Iterable[int]) -> dict[int, Job]:
    """Return by number, in order, the waiting jobs and those that other parts of the view name."""
    others = TrainingJob.objects.filter(pk__in=[number for number in named if number not in waiting])
    jobs = cache.read([*without_spec(others), *waiting.values()])
    return {number: jobs[number] for number in sorted(jobs)}


def _still_used(frame: PoolFrame, awards: Iterable[Award]) -> dict[int, Floor]:
    """Return floors for jobs at home whose own floors are void, but which still used their cells in slots that a late
    clock has not processed yet. In these slots the cells are in use in the owner's world too. Either the platform
    failed the job in a later slot, so that it does not wait before that slot, or the job had ended before one of its
    servers was lost."""
    floors = {}
    for award in awards:
        owner = frame.tenant_index.get(award.tenant_id)
        if owner is None or award.phase != OWN:
            continue
        rows = _until(_allocation(frame, award.allocation), award.used_until)
        if award.state == AwardState.VOID or any(row.server in frame.lost for row in rows):
            floors[award.job_id] = Floor(
                job=award.job_id,
                value=award.value,
                start=award.start,
                end=award.used_until,
                allocation=tuple(row for row in rows if frame.cells[:, owner, row.server].any()),
                worker_type=award.worker_type,
                ps_type=award.ps_type,
            )
    return floors


def _until(rows: Iterable[Allocation], end: int) -> tuple[Allocation, ...]:
    return tuple(replace(row, end=min(row.end, end)) for row in rows if row.start < end)


def _floors(frame: PoolFrame, cache: KnownPool, standing: Mapping[int, StandingFloor]) -> dict[int, Floor]:
    """Return the floors that have not ended yet, and those of jobs that wait here or in their owner's world alone. A
    floor on a server where its owner no longer has cells is void; a draft there becomes a draft without a schedule."""
    floors_kept = cache.floors
    for number, row in standing.items():
        if number not in floors_kept:
            void = Floor(row.job_id, draft=True) if row.draft else None
            floors_kept[number] = _floor(frame, row) if _at_home(frame, row) else void
    floors = {row.job_id: floors_kept[number] for number, row in standing.items()}
    return {job: floor for job in sorted(floors) if (floor := floors[job]) is not None}


def _at_home(frame: PoolFrame, row: StandingFloor) -> bool:
    tenant = frame.tenant_index.get(row.tenant_id)
    if tenant is None:
        return not row.allocation
    return all(frame.cells[:, tenant, frame.server_index[server_id]].any() for server_id, *_ in row.allocation)


def _floor(frame: PoolFrame, row: StandingFloor) -> Floor:
    return Floor(
        job=row.job_id,
        value=row.value,
        start=row.start,
        end=row.end,
        allocation=_allocation(frame, row.allocation),
        worker_type=row.worker_type,
        ps_type=row.ps_type,
        draft=row.draft,
    )


def _remaining(job: Job, before: SlotsSoFar | None, begun: PiecesSoFar | None) -> float:
    """Return the mini-batches that a job has left. A waiting job has at least one left: if none is left by the count,
    the job still did not finish."""
    return remaining(job, before) if begun is None else float(max(left_of(job, begun), 1))


def _rents(frame: PoolFrame, rents: Mapping[int, Sequence[Award]], jobs: Mapping[int, Job]) -> tuple[Booking, ...]:
    """Return the open rents as bookings, job after job. The last one of a job that was done before its last piece began
    has the value of that piece."""
    values = values_given_up(rents)
    bookings = []
    for number, awards in rents.items():
        *before, last = [_rent(frame, award, jobs[number]) for award in awards]
        bookings += [*before, replace(last, value=values.get(number, last.value))]
    return tuple(bookings)


def _rent(frame: PoolFrame, award: Award, job: Job) -> Booking:
    """Return an open rent as a booking, with what it pays (less what was returned) and the owners who are to receive
    it. Owners that are no longer in the pool are left out."""
    payouts = np.zeros(len(frame.owner_ids))
    places = {owner: index for index, owner in enumerate(frame.owner_ids)}
    owners, amounts = award.charges_by_owner()
    columns = [column for column, owner in enumerate(owners) if owner in places]
    indices = [places[owners[column]] for column in columns]
    for slot in amounts[:, columns]:  # slot by slot, so that sums of floats are the same as ever
        payouts[indices] += credits_of_each(slot)
    provisional = award.work is not None and frame.pool.parts_worth_nothing
    paid = credits_of(award.paid - award.returned)
    return replace(_booking(frame, award, job), paid=paid, payouts=payouts, provisional=provisional)


def _booking(frame: PoolFrame, award: Award, job: Job) -> Booking:
    end = award.used_until  # units that a job gave up can be lent again by their owner
    return Booking(
        job=award.job_id,
        start=award.start,
        end=end,
        allocation=_until(_allocation(frame, award.allocation), end),
        work=job.work if award.work is None else award.work,
        workers=award.workers,
        ps=award.ps,
        worker_type=award.worker_type,
        ps_type=award.ps_type,
        phase=award.phase or None,
        placement=award.placement or None,
        value=award.value,
        floor=award.floor,
        cost=award.cost,
        paid=credits_of(award.paid),
    )


def _allocation(frame: PoolFrame, rows: Iterable[Iterable[int]]) -> tuple[Allocation, ...]:
    """Return stored rows as allocations: the rows name servers by id, the core by index."""
    return tuple(Allocation(frame.server_index[server_id], *rest) for server_id, *rest in rows)


_HELD = held_sql("batch", "AND batch > 0 AND part = ANY(%(parts)s)")


def _occupied(frame: PoolFrame, slot: int) -> FloatArray:
    """Return (resources, slots, servers): what batch plans hold from `slot` on, in the part of the pool that the lane
    plans."""
    parts = list(Part.values) if frame.pool.instant_policy is None else [Part.HOME.value]
    with connection.cursor() as cursor:
        cursor.execute(_HELD, {"pool": frame.pool.pk, "slot": slot, "parts": parts})
        return held_array(frame, held_rows(*cursor.fetchone()), slot)


def _nothing_occupied(frame: PoolFrame) -> FloatArray:
    return np.zeros((len(frame.resource_ids), 0, len(frame.server_ids)))


def _spent(frame: PoolFrame, at: datetime) -> FloatArray:
    """Return (tenants,): credits spent on rent under the tenant's budget; 0 for a tenant without one."""
    spent = rent_spent(frame.pool, at)
    return np.array([credits_of(spent.get(tenant_id, 0)) for tenant_id in frame.tenant_ids])


def _paid_for_lost(waiting: Iterable[TrainingJob]) -> dict[int, int]:
    """Return by job the micro-credits that it paid, less what came back, for whole runs that the platform lost. Takes
    one query, if the platform has failed any of these jobs."""
    again = [row.pk for row in waiting if row.attempt > 0]
    if not again:
        return {}
    awards = Award.objects.filter(job__in=again, work__isnull=True).order_by()
    sums = awards.values_list("job").annotate(paid=Sum(F("paid") - F("returned")))
    return {number: paid for number, paid in sums if paid}


def _capped(jobs: Mapping[int, Job], caps: Mapping[int, int], paid: Mapping[int, int]) -> dict[int, Job]:
    """Return the jobs whose submitters have a budget, with that as their highest price. `caps` are the micro-credits
    that each job may still cost, beside what it has `paid`."""
    capped = {}
    for number, more in caps.items():
        cap = more + paid.get(number, 0)
        limits_of = [limit for limit in (jobs[number].max_price, credits_of(cap)) if limit is not None]
        capped[number] = replace(jobs[number], max_price=min(limits_of))
    return capped


def _unfit(frame: PoolFrame, waiting: Mapping[int, TrainingJob], jobs: Mapping[int, Job]) -> dict[int, Refusal]:
    """Return refusals for jobs whose members would take too little of a resource. They were accepted before that rule
    existed, and would start more processes than a server has units for."""
    names, reasons = frame.cluster.resources, {}
    for number, row in waiting.items():
        if PROGRAM in row.spec and (little := member_too_little(jobs[number], names)) is not None:
            reasons[number] = Refusal(number, little.reason, REJECTED)
    return reasons


def _available(frame: PoolFrame) -> dict[int, int]:
    """Map each tenant's id to its available micro-credits."""
    amounts = balances(accounts=[available(tenant_id) for tenant_id in frame.tenant_ids])
    return {tenant_id: amounts[available(tenant_id)] for tenant_id in frame.tenant_ids}


def _funds(
    frame: PoolFrame, waiting: Iterable[TrainingJob], spendable: Mapping[int, int], lefts: Mapping[int, int]
) -> FloatArray:
    """Return (tenants,): the credits that can be set aside. These are the available ones, limited by what budgets
    leave.

    A payment is rounded to a micro-credit after the decision. So one micro-credit is left out for each waiting job;
    otherwise the last of them could cost half a micro-credit more than there is.
    """
    spare = {tenant_id: min(amount, lefts.get(tenant_id, amount)) for tenant_id, amount in spendable.items()}
    for row in waiting:
        spare[row.tenant_id] -= 1
    return np.array([credits_of(max(spare[tenant_id], 0)) for tenant_id in frame.tenant_ids])
