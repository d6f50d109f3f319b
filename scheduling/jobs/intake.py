"""What a job that is submitted meets: its pool and tenant as they are, and what may keep it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from typing import Any

from django.db.models import Q

from scheduling.jobs.fitting import Fitting
from scheduling.market.decide import LOOK_BACK, frontier_for
from scheduling.market.settle import not_heard_of
from scheduling.market.view import IntakeRows, NewSpecReader, intake_rows
from scheduling.models import JobArray, JobState, Lane, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.money import left_for, tenant_limits
from scheduling.programs.ordering import Waited, after_arrays, after_jobs, array_named
from scheduling.programs.stored import usable_programs
from tenants.access import Refused, RefusedForMoney
from tenants.models import Tenant, User

MOST_AFTER = 100  # jobs that one job may wait for


@dataclass(frozen=True)
class OverBudget(RefusedForMoney):
    left: int


class Intake:
    """The state of a pool and a tenant that submitted jobs are checked against. Each part is read when the first job
    needs it, so many jobs cost no more queries than one. `rows` are the rows if the caller has just read them. `waits`
    says that the jobs will wait for an interval: then the pool's text, which says whether a job can ever fit, is read
    in the same query."""

    def __init__(
        self,
        pool: Pool,
        tenant: Tenant,
        user: User | None,
        at: datetime,
        rows: IntakeRows | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.pool, self.tenant, self.user, self.at, self._rows, self._waits = pool, tenant, user, at, rows, waits
        self.programs = cache(usable_programs)
        self.unfinished = cache(jobs_unfinished)

    @cached_property
    def rows(self) -> IntakeRows:
        if self._rows is not None:
            return self._rows
        prices_from, fitting = self.pool.slot_at(self.at) - LOOK_BACK, self._waits and not self.pool.is_elastic
        rows = intake_rows(self.pool, self.tenant.pk, prices_from=prices_from, fitting=fitting)
        return replace(rows, frontier=frontier_for(self.pool, self.at, rows.frontier))

    @cached_property
    def fitting(self) -> Fitting:
        return Fitting(self.pool, self.tenant.pk, self.rows.text)

    @cached_property
    def reader(self) -> NewSpecReader:
        return NewSpecReader(self.pool, self.rows)

    @cached_property
    def budget_rest(self) -> int | None:
        """Return what the budgets of this period leave the person to spend, or None if there is no limit."""
        if not self.rows.any_budget:
            return None
        limits = tenant_limits(tenant_id=self.tenant.pk, at=self.at)
        return left_for(limits, self.tenant.pk, self.user.pk if self.user else None)


def pool_closed(intake: Intake, lane: str) -> Refused | None:
    """Return why the lane accepts no new jobs at all, or None if it does."""
    pool = intake.pool
    if intake.at < pool.epoch_at:
        return Refused("pool_not_open", f"{pool.name} opens at {pool.epoch_at:%Y-%m-%d %H:%M} UTC.")
    if intake.rows.draining:
        return Refused("pool_draining", f"{pool.name} is coming to rest and takes no new jobs.")
    if lane == Lane.INSTANT and pool.instant_policy is None:
        return Refused("lane_closed", f"{pool.name} has no instant lane.")
    return None


def over_budget(intake: Intake, spec: Mapping[str, Any]) -> OverBudget | None:
    """Return why a job that may rent is not taken, if the budget is used up, or None."""
    if intake.budget_rest == 0 and spec.get("rent") != "never":
        way_out = "Have it raised, wait for its next period, or forbid the job to rent."
        return OverBudget("over_budget", f"The budget of this period is used up. {way_out}", 0)
    return None


def jobs_unfinished(after: Sequence[Waited]) -> tuple[Waited, ...] | str:
    """Return those of the jobs and arrays that have not finished yet, or a sentence that says why nothing can wait for
    them. Needs the tenant's scope, in which a job of another tenant does not exist. A job whose time is over may still
    end well until its engine has said how its program ended; whoever waits for it already waits for that (0343)."""
    if not after:
        return ()
    if len(after) > MOST_AFTER:
        return f"must be at most {MOST_AFTER} jobs and arrays"
    named = Q(pk__in=after_jobs(after)) | Q(array__in=after_arrays(after))
    rows = TrainingJob.objects.filter(named).annotate(unheard=not_heard_of())
    states: dict[Waited, list[tuple[int, JobState]]] = {each: [] for each in after}
    for number, state, array, unheard in rows.order_by("pk").values_list("pk", "state", "array", "unheard"):
        for each in (number, array_named(array or 0)):
            if each in states:
                states[each].append((number, JobState.RUNNING if unheard else JobState(state)))
    for each, rows_of_it in states.items():
        if not rows_of_it:
            what, name = ("arrays", each) if isinstance(each, str) else ("jobs", f"J-{each}")
            is_array = not isinstance(each, str) and JobArray.objects.filter(pk=each).exists()
            hint = f"; the array of that number is {array_named(int(each))}" if is_array else ""
            return f"must be {what} of the tenant, and there is no {name}{hint}"
        for number, state in rows_of_it:
            if state not in (*LIVE_STATES, JobState.FINISHED):
                name = f"J-{number} of {each}" if isinstance(each, str) else f"J-{number}"
                return f"must be jobs that can end well, and {name} is {state.label.lower()}"
    return tuple(each for each, its in states.items() if any(state != JobState.FINISHED for _, state in its))
