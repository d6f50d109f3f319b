"""Renewed plans: drafts of what each tenant would run alone, made anew at every boundary until a job starts (K1 to K4).

The view's floors hold the world in which a tenant is alone. A floor that is no draft belongs to a job that has started
there, or was dropped (value 0). A draft belongs to a job that waits there, with or without a schedule. Whether the job
was served meanwhile, by renting, makes no difference to that world, so it depends on no other tenant.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scheduling.core.policies.astraea.home.calendar import HomeCalendar
from scheduling.core.policies.astraea.home.floor_search import FloorSearch
from scheduling.core.policies.astraea.home.floors import HomeQueue
from scheduling.core.policies.astraea.rules.clock import Span
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.policies.astraea.schedules.search import TIE
from scheduling.core.policies.astraea.ways.candidates import Candidates, candidates
from scheduling.core.policies.astraea.ways.rests import Rest, kept_at_home, standing
from scheduling.core.types import RENEW, Booking, Cluster, Floor, Job, Settlement, View

LEAST_VALUE = 1e-9  # a job that would not be worth more if it began at once is dropped (K1)

Drafts = dict[int, Floor]  # by job; only jobs that have a schedule


def renews(view: View, jobs: Iterable[Job]) -> bool:
    """Return whether any plan is renewed at this boundary: one of a job that waits in the world in which its owner is
    alone, or that of a new job."""
    tenants = view.cluster.tenants
    return any(floor.draft for floor in view.floors.values()) or any(tenants[job.tenant].plan == RENEW for job in jobs)


def renew(settings: Settings, view: View, new: Sequence[Job], windows: Sequence[Span]) -> list[Floor]:
    """Return the floors that this boundary changes, by job: drafts, starts (K3) and drops (K1). Of the `new` jobs, only
    those of tenants that renew take part."""
    worlds: defaultdict[int, list[Job]] = defaultdict(list)
    for number, floor in view.floors.items():
        if floor.draft:
            worlds[view.jobs[number].tenant].append(view.jobs[number])
    for job in new:
        if view.cluster.tenants[job.tenant].plan == RENEW:
            worlds[job.tenant].append(job)
    fixed: defaultdict[int, list[Floor]] = defaultdict(list)
    for number, floor in view.floors.items():
        if not floor.draft and view.jobs[number].tenant in worlds:
            fixed[view.jobs[number].tenant].append(floor)
    changes: dict[int, Floor] = {}
    for tenant, jobs in worlds.items():
        changes |= _World(settings, view, tenant, fixed[tenant], windows).boundary(jobs)
    return [floor for number, floor in sorted(changes.items()) if view.floors.get(number) != floor]


def settlements(
    view: View, floors: Mapping[int, Floor], rests: Mapping[int, Rest], going_on: Container[int]
) -> list[Settlement]:
    """Settle each open rent whose job has now started alone, or was dropped there (K4, D9). A provisional rent is
    settled only once the job is done, is sure to be done at home, or is over, which means not in `going_on` (D16).

    Where value - paid fell short of what the job is worth alone, the payer gets the difference back, and the owners
    give it in proportion to what each received. It is never more than was paid: a job that rents in a window has not
    started alone before the window's end, so alone it ends later, and value never rises with time (K11). `rests` are
    those of divisible jobs that wait, with the worth that is stored now.
    """
    settled = []
    for job, rents in _by_job(view):
        floor = floors.get(job, Floor(job)) if _is_provisional(rents) else floors.get(job)
        undecided = _is_provisional(rents) and job in going_on and not kept_at_home(floor)
        if floor is not None and not floor.draft and not undecided:
            settled.append(_settlement(view, rents, floor, rests))
    return settled


def settlements_at_the_end(view: View, rests: Mapping[int, Rest]) -> list[Settlement]:
    """Settle the open rents of divisible jobs where a run is cut. It is cut in both worlds, so alone nothing would have
    come of them, and what was paid for parts beyond their worth is refunded (D9). A job that rents whole never pays
    more than its value."""
    divisible = [(job, rents) for job, rents in _by_job(view) if view.jobs[job].divisible]
    return [_settlement(view, rents, Floor(job), rests) for job, rents in divisible]


def _by_job(view: View) -> list[tuple[int, list[Booking]]]:
    """Return (job, its open rents) pairs, in the order of each job's first rent."""
    rents: dict[int, list[Booking]] = {}
    for rent in view.open_rents:
        rents.setdefault(rent.job, []).append(rent)
    return list(rents.items())


def _is_provisional(rents: Sequence[Booking]) -> bool:
    return any(rent.provisional for rent in rents)


def _settlement(view: View, rents: Sequence[Booking], floor: Floor, rests: Mapping[int, Rest]) -> Settlement:
    rest = rests.get(floor.job)
    if rest is not None:
        value = standing(view.cluster, rest, floor)
    else:
        value = 0.0 if floor.job in view.undone else rents[-1].value
    paid = math.fsum(rent.paid for rent in rents)
    refund = min(max(0.0, floor.value - (value - paid)), paid)
    payouts = sum((rent.payouts for rent in rents if rent.payouts is not None), np.zeros(len(view.cluster.owners)))
    reversal = payouts * (refund / paid if refund else 0.0)
    return Settlement(floor.job, floor.value, refund, reversal, value if view.jobs[floor.job].divisible else None)


@dataclass(frozen=True)
class Waiting:
    """A job that waits in the world in which its owner is alone. `best` is what its shortest run would be worth if it
    began at once."""

    job: Job
    ways: Candidates
    best: float

    @property
    def density(self) -> float:
        """Return the value of that run by worker and slot (K2), to nine digits, so that the last bit of an exponential
        decides no order."""
        return float(f"{self.best / (self.ways.shortest * self.ways.fewest):.8e}")

    @property
    def rank(self) -> tuple[float, float, float, int]:
        """Return the key by which jobs are sorted when all are planned anew (K2)."""
        return -self.job.priority, -self.density, self.job.arrival, self.job.number


def waiting_from(settings: Settings, cluster: Cluster, job: Job, start: int) -> Waiting:
    """Return the job as it waits at the boundary at `start`."""
    ways = candidates(job, cluster, exact=settings.workers == "exact")
    return Waiting(job, ways, float(job.value(start + ways.shortest - job.arrival)))


class _World:
    """The world in which one tenant is alone, at one boundary. `fixed` are its floors that are no drafts."""

    def __init__(
        self, settings: Settings, view: View, tenant: int, fixed: Sequence[Floor], windows: Sequence[Span]
    ) -> None:
        self.settings, self.view, self.tenant, self.fixed = settings, view, tenant, fixed
        (self.start, self.first_end), self.end = windows[0], windows[-1][1]

    def boundary(self, jobs: Sequence[Job]) -> dict[int, Floor]:
        """Return the floor of each job after this boundary."""
        waiting = [waiting_from(self.settings, self.view.cluster, job, self.start) for job in jobs]
        floors = {each.job.number: Floor(each.job.number) for each in waiting if each.best <= LEAST_VALUE}  # K1
        waiting = [each for each in waiting if each.best > LEAST_VALUE]
        self._queue = HomeQueue(self._empty, [(each.job, each.ways) for each in waiting])
        drafts = self._better_of_two(waiting)
        for each in waiting:
            number = each.job.number
            if number not in drafts:
                floors[number] = Floor(number, draft=self._ever_fits(each))
            elif drafts[number].start < self.end:  # K3
                floors[number] = replace(drafts[number], draft=False)
            else:
                floors[number] = drafts[number]
        return floors

    def _ever_fits(self, each: Waiting) -> bool:
        """Return whether the job would have a schedule of positive value if all of its owner's cells were free. If not,
        it never has one, as value never rises. Such a job is dropped at once, so that it keeps no rent open."""
        return FloorSearch(self._empty, each.job, each.ways, None).finds_any()

    @cached_property
    def _empty(self) -> HomeCalendar:
        """Return the tenant's calendar with nothing on its cells. Nothing is ever entered in it."""
        return HomeCalendar(self.view.cluster, self.tenant, self.start)

    def _better_of_two(self, waiting: Sequence[Waiting]) -> Drafts:
        """Keep the old drafts and plan the new jobs after them, unless planning all anew by density is worth more (K2).
        Where old drafts have no room any more, or their time has passed, all jobs are planned anew (K7)."""
        by_density = sorted(waiting, key=lambda e: e.rank)
        old = {e.job.number: self.view.floors[e.job.number] for e in waiting if self._has_draft(e.job)}
        calendar = self._calendar()
        if not all(floor.start >= self.start and calendar.holds(floor, self.view.jobs[n]) for n, floor in old.items()):
            return self._planned(by_density, self._calendar())
        new = [each for each in waiting if each.job.number not in old]
        new.sort(key=lambda e: (-e.job.priority, e.job.arrival, e.job.number))
        if not old and new == by_density:
            return self._planned(new, calendar)
        staying = old | self._planned(new, calendar)
        enough = math.fsum(floor.value for floor in staying.values())
        enough += TIE * max(1.0, enough)
        if math.fsum(each.best for each in waiting) <= enough:
            return staying  # no plan can be worth more than if all jobs began at once
        anew = self._planned(by_density, self._calendar())
        return anew if math.fsum(floor.value for floor in anew.values()) > enough else staying

    def _has_draft(self, job: Job) -> bool:
        return job.number in self.view.floors and bool(self.view.floors[job.number].allocation)

    def _calendar(self) -> HomeCalendar:
        """Return the tenant's calendar with what has started, and what is kept for good."""
        calendar = HomeCalendar(self.view.cluster, self.tenant, self.start)
        for floor in self.fixed:
            calendar.reserve(floor, self.view.jobs[floor.job])
        return calendar

    def _planned(self, waiting: Sequence[Waiting], calendar: HomeCalendar) -> Drafts:
        """Plan the jobs one after the other: each gets its best schedule of positive value on what those before it
        leave."""
        order = [each.job.number for each in waiting]
        floors = self._queue.floors(self.settings, calendar, self.first_end - self.start, order)
        return {floor.job: replace(floor, draft=True) for floor in floors if floor.value > 0}
