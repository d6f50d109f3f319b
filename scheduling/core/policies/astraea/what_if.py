"""What would be decided about one more job: the same answers as deciding everything again, without doing so.

The last of the waiting jobs is the one in question. All other jobs are decided once, up to its turn. The decision is
then queried for one form of the job after the other, and nothing is sold to it. Where the job would have changed the
decisions before its turn, by a schedule on its owner's own cells in this window, everything is decided in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from scheduling.core.occupancy import units_in_use
from scheduling.core.policies.astraea.home import renewal
from scheduling.core.policies.astraea.home.floors import award_at_home, plan_floors
from scheduling.core.policies.astraea.renting.offers import Offer, Renting
from scheduling.core.policies.astraea.rules.clock import turn
from scheduling.core.policies.astraea.rules.settings import POSTED
from scheduling.core.policies.astraea.schedules.search import TIE
from scheduling.core.policies.astraea.window import refusals
from scheduling.core.policies.astraea.window.awards import home_booking
from scheduling.core.policies.astraea.window.round import Round, demands, occupied_between
from scheduling.core.policies.astraea.window.screening import screen
from scheduling.core.types import FloatArray, Floor, Job, Plan, Refusal, View

if TYPE_CHECKING:
    from scheduling.core.policies.astraea.policy import Astraea


class OpenDecision:
    """One decision about all waiting jobs but the last, which can then be queried for that job in any form."""

    def __init__(self, policy: Astraea, view: View) -> None:
        self.policy, self.view, self.now = policy.in_force(view), view, turn(policy, view)
        self.others = view.waiting[:-1]
        self.quick = policy.floor and len(self.now.windows) == 1 and policy.price == POSTED
        self.quick = self.quick and not renewal.renews(view, view.waiting)  # one more job may move its owner's drafts
        self.quick = self.quick and not any(job.divisible or job.together is not None for job in self.others)
        if self.quick:
            self._plan_others(*self.now.windows[0])

    def _plan_others(self, start: int, end: int) -> None:
        view = replace(self.view, waiting=self.others, remaining=self.view.remaining[:-1])
        collected = [job for job in self.others if job.arrival < view.slot]
        self.jobs, refused = screen(self.policy, view, collected, self.now.cap, {})
        self.over = {refusal.job for refusal in refused}
        self.new = [job for job in self.jobs if job.number not in view.floors]
        self.new_floors = plan_floors(self.policy, view, self.new, (start, end))
        self.floors = {**view.floors, **{floor.job: floor for floor in self.new_floors}}
        self.round = Round(self.policy, view, start, end)

    @cached_property
    def renting(self) -> Renting:
        """Return the pool after all other jobs have had their turn. It takes long, so it waits until it is needed."""
        award_at_home(self.round, self.jobs, self.floors)
        renting = Renting(self.round, self.floors)
        for job in self.jobs:
            renting.offer(job)
        return renting

    def plan_for(self, job: Job) -> Plan:
        """Return the part of the plan that is about the job, if it waited in place of the last one."""
        view = self._view_with(job)
        if not self.quick or job.divisible:
            return about(job, self.policy.decide(view))
        if job.arrival >= view.slot:
            return self._plan(refused=list(refusals.until_the_interval_closes(self.now, [job])))
        stays, refused = screen(self.policy, view, [job], self.now.cap, {})
        if not stays:
            return self._plan(refused=refused)
        before_others = any(new.tenant == job.tenant and new.priority < job.priority for new in self.new)
        if before_others and job.number not in view.floors:
            return about(job, self.policy.decide(view))  # it would be planned before others of its owner
        return self._of_one_who_stays(job, view)

    def _of_one_who_stays(self, job: Job, view: View) -> Plan:
        start, end = self.now.windows[0]
        promised = view.floors.get(job.number)
        new = [] if promised else plan_floors(self.policy, replace(view, floors=self.floors), [job], (start, end))
        floor = promised or new[0]
        if floor.value > 0 and start <= floor.start < end:
            if self._cannot_do_better(job, floor):
                return self._plan(Plan(bookings=(home_booking(self.round, job, floor),), floors=tuple(new)))
            return about(job, self.policy.decide(view))
        answer = self.renting.answer(job, floor, self.renting.standing(job, floor))
        if isinstance(answer, Offer):
            return self._plan(Plan(bookings=(answer.booking,), floors=tuple(new)))
        self.round.shortfalls[job.number] = answer
        return self._plan(Plan(floors=tuple(new)), refused=[refusals.waiting(self.round, job, floor)])

    def _cannot_do_better(self, job: Job, floor: Floor) -> bool:
        """Return whether no schedule in the pool is worth more than the floor, even one that begins at once for
        nothing."""
        shortest = self.round.ways(job).shortest
        if not self.policy.upgrade or shortest > self.round.slots:
            return True
        best = float(self.round.values(job)[shortest - 1])  # no later end is worth more
        return best <= floor.value + TIE * max(1.0, floor.value)

    def _plan(self, plan: Plan | None = None, refused: list[Refusal] | None = None) -> Plan:
        return replace(
            plan or Plan(), refusals=tuple(refused or ()), memory=self.now.memory, frontier=self.now.frontier
        )

    def _view_with(self, job: Job) -> View:
        remaining = np.append(self.view.remaining[:-1], float(job.work))
        jobs = {**self.view.jobs, job.number: job}
        return replace(self.view, waiting=(*self.others, job), remaining=remaining, jobs=jobs)

    def following(self, job: Job, promised: Sequence[Floor]) -> View | None:
        """Return the view of the next boundary if no job came and this job, the last, got nothing now; None where it is
        unknown.

        `promised` is the job's own floor, if it was given now.
        """
        if not self.quick or self.now.closes_at is None:
            return None
        view, slot = self.view, self.now.closes_at
        memory = self.policy.memory_after(view, self.now, [*self.jobs, job])
        awards = self.renting.round.awards
        waiting = [other for other in self.others if other.number not in awards and other.number not in self.over]
        active = [booking for booking in (*view.active, *awards.values()) if booking.end > slot]
        paid = np.zeros(len(view.cluster.tenants))
        for booking in awards.values():
            paid[view.jobs[booking.job].tenant] += booking.paid
        return replace(
            view,
            slot=slot,
            waiting=(*waiting, job),
            remaining=np.array([float(one.work) for one in (*waiting, job)]),
            jobs={**view.jobs, job.number: job},
            occupied=self._occupied_from(slot),
            active=tuple(active),
            floors={**self.floors, **{floor.job: floor for floor in promised}},
            windows=(),
            spent=view.spent + paid,
            funds=None if view.funds is None else view.funds - paid,
            memory=view.memory if memory is None else memory,
        )

    def _occupied_from(self, slot: int) -> FloatArray:
        """Return the amounts in use (resources, slots, servers) from the next boundary on. Of the new awards, only
        those at home run past it."""
        view = self.view
        crossing = [booking for booking in self.round.awards.values() if booking.end > slot]
        end = max([view.slot + view.occupied.shape[1], slot, *(booking.end for booking in crossing)])
        occupied = occupied_between(replace(view, tail=None), slot, end)
        for booking in crossing:
            worker, ps = demands(view.jobs[booking.job], booking)
            for row in booking.allocation:
                rows = units_in_use([row], worker, ps, slot, end)
                occupied[:, :, row.server] += rows
        return occupied


def about(job: Job, plan: Plan) -> Plan:
    """Return the part of a plan that is about one job. The plan's windows count the job in, so they are left out."""
    return replace(
        plan,
        bookings=tuple(booking for booking in plan.bookings if booking.job == job.number),
        refusals=tuple(refusal for refusal in plan.refusals if refusal.job == job.number),
        floors=tuple(floor for floor in plan.floors if floor.job == job.number),
        windows=(),
        settlements=(),
    )
