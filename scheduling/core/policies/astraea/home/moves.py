"""Explain why a draft moved at a boundary (K2, K7), from the view and the plan of that boundary alone.

A cause is given only where it follows exactly from the rules; otherwise it is unknown. Only the tenant's own jobs can
be a cause, as no others exist in the world in which it is alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduling.core.policies.astraea.home.calendar import HomeCalendar
from scheduling.core.policies.astraea.home.renewal import LEAST_VALUE, Waiting, waiting_from
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.types import RENEW, Floor, Plan, View


class MoveCause(StrEnum):
    PRIORITY = "higher_priority"  # the jobs that have its place now have a higher priority
    WORTH = "worth_more"  # these jobs have the same priority, and are worth more by worker and slot
    EARLIER = "came_earlier"  # these jobs are worth as much, and came earlier
    BETTER = "better_place"  # its old place is free, and it has one in which it ends earlier
    CELLS = "cells_changed"  # the cells as they are have no room for all that was planned
    PASSED = "time_passed"  # no boundary was decided when something that was planned should have started
    UNKNOWN = ""


@dataclass(frozen=True)
class Move:
    """A draft that moved. `jobs` are those of its tenant that have its old place now, in the order of planning."""

    before: Floor
    after: Floor
    why: MoveCause
    jobs: tuple[int, ...] = ()


def why_moved(settings: Settings, view: View, plan: Plan, number: int) -> Move | None:
    """Return how the job's draft moved at this boundary. Return None where it had no place before, still has the same
    slots, or is no longer planned."""
    changed = {floor.job: floor for floor in plan.floors}
    before, after = view.floors.get(number), changed.get(number)
    if before is None or after is None or not before.draft or not before.allocation or not plan.windows:
        return None
    if (before.start, before.end) == (after.start, after.end) or not (after.draft or after.allocation):
        return None
    start, tenant = plan.windows[0].start, view.jobs[number].tenant
    floors = {**view.floors, **changed}
    ordered = sorted(_world(settings, view, changed, tenant, start), key=lambda each: each.rank)
    ranks = {each.job.number: each.rank for each in ordered}
    old = {n: view.floors[n] for n in ranks if n in view.floors and view.floors[n].allocation}
    calendar = _started(view, tenant, start)
    if any(floor.start < start for floor in old.values()):
        return Move(before, after, MoveCause.PASSED)
    if not all(calendar.holds(floor, view.jobs[n]) for n, floor in old.items()):
        return Move(before, after, MoveCause.CELLS)
    ahead = [n for n in ranks if ranks[n] < ranks[number] and floors[n].allocation]
    calendar = _started(view, tenant, start)
    for n in ahead:
        calendar.reserve(floors[n], view.jobs[n])
    if calendar.holds(before, view.jobs[number]):
        ends_earlier = bool(after.allocation) and after.end < before.end
        return Move(before, after, MoveCause.BETTER if ends_earlier else MoveCause.UNKNOWN)
    takers = tuple(n for n in ahead if _meet(floors[n], before) and _place(floors[n]) != _place(old.get(n)))
    if not takers:
        return Move(before, after, MoveCause.UNKNOWN)
    (priority, density, *_), (its_priority, its_density, *_) = ranks[takers[0]], ranks[number]
    why = (
        MoveCause.PRIORITY
        if priority < its_priority
        else MoveCause.WORTH
        if density < its_density
        else MoveCause.EARLIER
    )
    return Move(before, after, why, takers)


def _world(settings: Settings, view: View, changed: Mapping[int, Floor], tenant: int, start: int) -> list[Waiting]:
    """Return the jobs that waited, at the boundary, in the world in which the tenant is alone, without those that are
    worth nothing (K1)."""
    numbers = [n for n, floor in view.floors.items() if floor.draft]
    if view.cluster.tenants[tenant].plan == RENEW:
        numbers += [n for n in changed if n not in view.floors]
    mine = [view.jobs[n] for n in numbers if view.jobs[n].tenant == tenant and view.jobs[n].together is None]
    waiting = [waiting_from(settings, view.cluster, job, start) for job in mine]
    return [each for each in waiting if each.best > LEAST_VALUE]


def _started(view: View, tenant: int, start: int) -> HomeCalendar:
    """Return the tenant's cells with the floors of jobs that have started alone, and those that are kept for good."""
    calendar = HomeCalendar(view.cluster, tenant, start)
    for number, floor in view.floors.items():
        if not floor.draft and view.jobs[number].tenant == tenant:
            calendar.reserve(floor, view.jobs[number])
    return calendar


def _meet(one: Floor, other: Floor) -> bool:
    """Return whether both are on the same server in the same slot."""
    return any(
        a.server == b.server and a.start < b.end and b.start < a.end for a in one.allocation for b in other.allocation
    )


def _place(floor: Floor | None) -> object:
    return None if floor is None else (floor.start, floor.end, floor.allocation)
