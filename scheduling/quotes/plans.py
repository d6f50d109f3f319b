"""Compare what a tenant's choice between kept and renewed plans would change: the places at home of its waiting jobs,
as the next interval would plan them under each.

Nothing is locked or written. A place at home depends on the tenant's own jobs and cells alone, so the answer is exact
but for jobs that come, or are cancelled, before that interval. Jobs that an earlier interval has collected keep the
plan under which they were collected, whatever is chosen now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from scheduling.core.metrics.certificates import alone_view, cells_of
from scheduling.core.policies.astraea import Astraea
from scheduling.core.types import Floor, View
from scheduling.market.decide import batch_policy
from scheduling.market.view import batch_view, gives_floors, glance
from scheduling.models import AlonePlan, JobState, Lane, LaneClock, Pool, TrainingJob
from scheduling.sharing import sharing_of
from tenants.access import Access, Refused
from tenants.common.patience import give_way
from tenants.ledger.amounts import micro
from tenants.roles import Permission
from tenants.scoping import scope, scope_disabled
from tenants.services.members import NOT_ALLOWED

MOST_SHOWN = 100
NO_PLANS = Refused("no_plans", "This pool promises no places at home, so there is nothing to plan.")


@dataclass(frozen=True)
class HomePlace:
    """A place at home, in slots. `worth` is in micro-credits. `projected` says that later intervals may move it."""

    start: int
    end: int
    worth: int
    projected: bool


@dataclass(frozen=True)
class PlannedJob:
    """A job that waits. `collected` says that an interval has planned it before, and that it keeps the plan that it
    has: so `keep` and `renew` differ only by what becomes of the others."""

    job: TrainingJob
    collected: bool
    keep: HomePlace | None
    renew: HomePlace | None

    @property
    def same(self) -> bool:
        return self.keep == self.renew


@dataclass(frozen=True)
class Plans:
    """The comparison of both plans. `slot` is that of the next interval. Sums are over all waiting jobs, also those not
    listed."""

    pool: Pool
    chosen: str
    slot: int
    jobs: tuple[PlannedJob, ...]
    waiting: int
    free: int  # those of them that are not collected yet, for which the choice counts
    keep_worth: int
    renew_worth: int

    @property
    def decided_at(self) -> datetime:
        return self.pool.slot_start(self.slot)


def plans_compare(*, pool: Pool, by: Access, at: datetime) -> Plans | Refused:
    """Return the comparison for the tenant that asks. Jobs whose places differ come first."""
    if by.tenant is None or not (by.allows(Permission.JOBS_VIEW) and by.allows(Permission.QUOTA_VIEW)):
        return NOT_ALLOWED
    if not gives_floors(pool):
        return NO_PLANS
    with scope(by.tenant):
        choice = sharing_of(by.tenant, pool).plan
        queue = TrainingJob.objects.filter(pool=pool, lane=Lane.BATCH, state=JobState.QUEUED)
        rows = {row.pk: row for row in queue.select_related("pool").order_by("arrival", "pk")}
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first() or LaneClock(pool=pool, lane=Lane.BATCH)
    if not rows:
        return Plans(pool, choice, max(clock.frontier, pool.slot_at(at) + 1), (), 0, 0, 0, 0)
    with scope_disabled("the next boundary depends on everybody who waits; only the tenant's own jobs are planned"):
        view, policy, index = _boundary(pool, clock, by.tenant.pk, at)
    give_way()
    alone = alone_view(view, index, cells_of(view.cluster))
    keep, renew = (_planned(policy, alone, index, plan) for plan in (AlonePlan.KEEP, AlonePlan.RENEW))
    numbers = [job.number for job in alone.waiting if job.number in rows and job.arrival < view.slot]
    jobs = [
        PlannedJob(rows[number], number in view.floors, _place(keep.get(number)), _place(renew.get(number)))
        for number in numbers
    ]
    return Plans(
        pool=pool,
        chosen=choice,
        slot=view.slot,
        jobs=tuple(sorted(jobs, key=lambda each: each.same)[:MOST_SHOWN]),
        waiting=len(jobs),
        free=sum(not each.collected for each in jobs),
        keep_worth=sum(each.keep.worth for each in jobs if each.keep),
        renew_worth=sum(each.renew.worth for each in jobs if each.renew),
    )


def _boundary(pool: Pool, clock: LaneClock, tenant_id: int, at: datetime) -> tuple[View, Astraea, int]:
    """Return what the next interval will be asked, as far as it is known now, and the tenant's index there."""
    slot = max(clock.decided_slot + 1, pool.slot_at(at) + 1)
    snapshot = glance(pool, slot, clock)
    policy = batch_policy(snapshot.frame, slot)
    if not isinstance(policy, Astraea):
        raise TypeError(f"{policy.name} gives no floors")  # `gives_floors` admits no other
    boundary = policy.next_boundary(snapshot.view)
    if boundary is not None:
        slot, memory = boundary
        clock = LaneClock(pool=pool, lane=Lane.BATCH, memory=dict(memory))
    view = batch_view(pool, slot, clock, at, alone=tenant_id)
    return view.view, policy, view.frame.tenant_index[tenant_id]


def _planned(policy: Astraea, alone: View, index: int, plan: str) -> dict[int, Floor]:
    tenants = list(alone.cluster.tenants)
    tenants[index] = replace(tenants[index], plan=plan)
    view = replace(alone, cluster=replace(alone.cluster, tenants=tuple(tenants)))
    return {**view.floors, **{floor.job: floor for floor in policy.promises(view)}}


def _place(floor: Floor | None) -> HomePlace | None:
    if floor is None or not floor.allocation:
        return None
    return HomePlace(floor.start, floor.end, micro(floor.value), floor.draft)
