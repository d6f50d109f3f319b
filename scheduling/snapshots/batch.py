"""The view of the batch lane: what its policy is asked at a slot boundary.

Read under the lane's lock, so that nothing it names changes until the plan is stored. The waiting jobs are read
once, first; everything else is about them, or about what was decided before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from django.db import connection
from django.db.models import F, QuerySet

from scheduling.core.types import Allocation, Booking, FloatArray, Floor, Job, View
from scheduling.models import Award, AwardState, JobFloor, JobState, Lane, LaneClock, Part, Pool, TrainingJob
from scheduling.snapshots.budgets import limits, member_caps, tenant_lefts
from scheduling.snapshots.frame import PoolFrame, planning_frame
from scheduling.snapshots.jobs import JobReader
from scheduling.snapshots.slots import SlotsSoFar, remaining, slots_so_far
from scheduling.snapshots.spending import rent_spent
from scheduling.snapshots.windows import published_windows
from tenants.ledger.postings import MICRO, available
from tenants.ledger.selectors import balances

ENDLESS = 2**53  # the market has no last slot; the largest number that every float counts exactly


@dataclass(frozen=True, eq=False)
class BatchSnapshot:
    frame: PoolFrame
    view: View
    waiting: Mapping[int, TrainingJob]  # rows of the view's waiting jobs, by number
    by_budget: frozenset[int]  # tenants whose budget lets them pay less than they have
    slots: Mapping[int, SlotsSoFar]  # of an elastic pool: waiting jobs that have run before
    caps: Mapping[int, int]  # job -> the most it may cost under its submitter's budget, in micro-credits


def batch_view(
    pool: Pool,
    slot: int,
    clock: LaneClock,
    at: datetime,
    *,
    supposed: TrainingJob | None = None,
    seen: PoolFrame | None = None,
) -> BatchSnapshot:
    """Everything the batch policy may know at the boundary before `slot`. Needs the scope of all tenants.

    `supposed`: a job that is looked at as if it waited too (a quote). `seen`: the pool as it was just read, under
    the same lock or for the same quote; it is read again if somebody waits who was not known then.
    """
    queue = _queue(pool, slot)
    waiting = {row.pk: row for row in queue.order_by("arrival", "pk")}
    if supposed is not None:
        waiting[supposed.pk] = supposed
    before = slots_so_far(waiting.values()) if pool.is_elastic else {}
    awards = list(Award.objects.filter(pool=pool, lane=Lane.BATCH, state__in=ALIVE, end__gt=slot).order_by("pk"))
    asking = {row.tenant_id for row in waiting.values()}
    frame = seen if seen and asking <= seen.tenant_index.keys() else planning_frame(pool, asking)
    floors = _floors(frame, slot, waiting)
    jobs = _jobs(frame, waiting, {award.job_id for award in awards} | floors.keys())
    budgets = limits(tenant_ids=frame.tenant_ids, at=at)
    lefts, caps = tenant_lefts(budgets), member_caps(budgets, waiting.values())
    jobs |= _capped(jobs, caps, before)
    spendable = _available(frame)
    view = View(
        slot=slot,
        horizon=ENDLESS,
        cluster=frame.batch_cluster,
        waiting=tuple(jobs[number] for number in waiting),
        remaining=np.array([remaining(jobs[number], before.get(number)) for number in waiting]),
        occupied=_occupied(frame, slot),
        active=tuple(_booking(frame, award, jobs[award.job_id]) for award in awards if _until(award) > slot),
        jobs=jobs,
        floors=floors,
        windows=published_windows(frame, slot),
        spent=_spent(frame, at),
        funds=_funds(frame, waiting.values(), spendable, lefts),
        paid={number: found.paid / MICRO for number, found in before.items() if found.paid},
        memory=clock.memory,
        frontier=clock.frontier,
    )
    by_budget = frozenset(tenant_id for tenant_id, left in lefts.items() if left < spendable[tenant_id])
    return BatchSnapshot(frame, view, waiting, by_budget, before, caps)


def glance(pool: Pool, slot: int, clock: LaneClock, *, supposed: TrainingJob | None = None) -> BatchSnapshot:
    """What says whether anything is due at the boundary before `slot`: of the queue only the first, and who is new."""
    queue = _queue(pool, slot)
    in_order = queue.order_by("arrival", "pk")
    waiting = {row.pk: row for row in [*in_order[:1], *in_order.filter(arrival__gt=slot - 1)]}
    if supposed is not None:
        waiting[supposed.pk] = supposed
    frame = planning_frame(pool, {row.tenant_id for row in waiting.values()})
    reader = JobReader(frame)
    jobs = {number: reader.read(row) for number, row in waiting.items()}
    view = View(
        slot=slot,
        horizon=ENDLESS,
        cluster=frame.batch_cluster,
        waiting=tuple(jobs.values()),
        remaining=np.array([float(job.work) for job in jobs.values()]),
        occupied=np.zeros((len(frame.resource_ids), 0, len(frame.server_ids))),
        jobs=jobs,
        memory=clock.memory,
        frontier=clock.frontier,
    )
    return BatchSnapshot(frame, view, waiting, frozenset(), {}, {})


def states_decided(pool: Pool) -> list[str]:
    """In which a job may be given a schedule, or be refused one. In an elastic pool whoever runs is looked at again."""
    return [JobState.QUEUED.value, JobState.RUNNING.value] if pool.is_elastic else [JobState.QUEUED.value]


def _queue(pool: Pool, slot: int) -> QuerySet[TrainingJob]:
    """All that may be looked at; not those that the platform failed again and again, and that rest."""
    queued = TrainingJob.objects.filter(pool=pool, lane=Lane.BATCH, state__in=states_decided(pool))
    return queued.filter(arrival__lte=slot, not_before__lte=slot)


ALIVE = (AwardState.BOOKED, AwardState.RUNNING)


def _jobs(frame: PoolFrame, waiting: Mapping[int, TrainingJob], named: Iterable[int]) -> dict[int, Job]:
    """By number, in order: those that wait and those that other parts of the view name."""
    others = TrainingJob.objects.filter(pk__in=[number for number in named if number not in waiting])
    rows = {row.pk: row for row in others} | dict(waiting)
    reader = JobReader(frame)
    return {number: reader.read(rows[number]) for number in sorted(rows)}


def _floors(frame: PoolFrame, slot: int, waiting: Mapping[int, TrainingJob]) -> dict[int, Floor]:
    """Floors still to end, and those of waiting jobs. One of an earlier attempt is void, and so is one on a server
    where its owner has no cells any more: that server is lost."""
    given = JobFloor.objects.filter(job__pool=frame.pool, attempt=F("job__attempt"))
    rows = {row.job_id: row for row in given.filter(end__gt=slot)}
    rows |= {row.job_id: row for row in given.filter(job__in=waiting)}
    return {number: _floor(frame, rows[number]) for number in sorted(rows) if _at_home(frame, rows[number])}


def _at_home(frame: PoolFrame, row: JobFloor) -> bool:
    tenant = frame.tenant_index.get(row.tenant_id)
    if tenant is None:
        return not row.allocation
    return all(frame.cells[:, tenant, frame.server_index[server_id]].any() for server_id, *_ in row.allocation)


def _floor(frame: PoolFrame, row: JobFloor) -> Floor:
    return Floor(
        job=row.job_id,
        value=row.value,
        start=row.start,
        end=row.end,
        allocation=_allocation(frame, row.allocation),
        worker_type=row.worker_type,
        ps_type=row.ps_type,
    )


def _until(award: Award) -> int:
    """The slot from which its units are no longer its own: what a job gave up is its owner's to lend again."""
    return award.end if award.cut_at is None else min(award.cut_at, award.end)


def _booking(frame: PoolFrame, award: Award, job: Job) -> Booking:
    end = _until(award)
    rows = _allocation(frame, award.allocation)
    return Booking(
        job=award.job_id,
        start=award.start,
        end=end,
        allocation=tuple(replace(row, end=min(row.end, end)) for row in rows if row.start < end),
        work=job.work,
        workers=award.workers,
        ps=award.ps,
        worker_type=award.worker_type,
        ps_type=award.ps_type,
        phase=award.phase or None,
        placement=award.placement or None,
        value=award.value,
        floor=award.floor,
        cost=award.cost,
        paid=award.paid / MICRO,
    )


def _allocation(frame: PoolFrame, rows: Iterable[Iterable[int]]) -> tuple[Allocation, ...]:
    """Stored rows name servers by id, the core by index."""
    return tuple(Allocation(frame.server_index[server_id], *rest) for server_id, *rest in rows)


def _occupied(frame: PoolFrame, slot: int) -> FloatArray:
    """(resources, slots, servers) what batch plans hold from `slot` on, on the part of the pool the lane plans."""
    parts = list(Part.values) if frame.pool.instant_policy is None else [Part.HOME.value]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT server_id, resource_id, slot, batch FROM scheduling_calendarcell"
            " WHERE pool_id = %s AND slot >= %s AND batch > 0 AND part = ANY(%s)",
            [frame.pool.pk, slot, parts],
        )
        rows = cursor.fetchall()
    reach = max((row[2] for row in rows), default=slot - 1) + 1 - slot
    occupied = np.zeros((len(frame.resource_ids), reach, len(frame.server_ids)))
    for server_id, resource_id, taken_in, amount in rows:
        occupied[frame.resource_index[resource_id], taken_in - slot, frame.server_index[server_id]] += amount
    occupied[..., list(frame.lost)] = 0.0
    return occupied


def _spent(frame: PoolFrame, at: datetime) -> FloatArray:
    """(tenants,) credits; 0 for a tenant without a budget of its own."""
    spent = rent_spent(frame.pool, at)
    return np.array([spent.get(tenant_id, 0) / MICRO for tenant_id in frame.tenant_ids])


def _capped(jobs: Mapping[int, Job], caps: Mapping[int, int], before: Mapping[int, SlotsSoFar]) -> dict[int, Job]:
    """Jobs that their submitters' budgets let cost no more than so many micro-credits, beside what they have paid."""
    capped = {}
    for number, more in caps.items():
        cap = more + (before[number].paid if number in before else 0)
        limits_of = [limit for limit in (jobs[number].max_price, cap / MICRO) if limit is not None]
        capped[number] = replace(jobs[number], max_price=min(limits_of))
    return capped


def _available(frame: PoolFrame) -> dict[int, int]:
    """Tenant id -> micro-credits."""
    found = balances(accounts=[available(tenant_id) for tenant_id in frame.tenant_ids])
    return {tenant_id: found[available(tenant_id)] for tenant_id in frame.tenant_ids}


def _funds(
    frame: PoolFrame, waiting: Iterable[TrainingJob], spendable: Mapping[int, int], lefts: Mapping[int, int]
) -> FloatArray:
    """(tenants,) credits that are free to be set aside: what is available, within what budgets leave.

    A payment is rounded to a micro-credit once it is decided. So one micro-credit is left out for each job that may
    be paid for, or the last of them could cost half a micro-credit more than there is.
    """
    spare = {tenant_id: min(amount, lefts.get(tenant_id, amount)) for tenant_id, amount in spendable.items()}
    for row in waiting:
        spare[row.tenant_id] -= 1
    return np.array([max(spare[tenant_id], 0) / MICRO for tenant_id in frame.tenant_ids])
