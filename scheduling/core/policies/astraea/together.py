"""Jobs that are bought together: in one interval all that wait of a group are served, or none of them is.

Two questions ask for it, each with the same answer. At home, the floors of a group's new members are given as long as
all of them begin in the coming window; else each of them has the floor 0, and the floors of its owner's other jobs are
those of a world without the group. In the pool, a group that would be bought in part is left out, and everything is
decided again without it. Both are first tried with all groups, and where one comes apart, with one more at a time, the
oldest first; so it is a function of the view, and what is planned at home is one of the owner's own jobs.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from scheduling.core.policies.astraea.floors import plan_floors
from scheduling.core.policies.astraea.settings import Settings
from scheduling.core.types import Floor, Job, Reason, View

TRIES = 8  # groups that are tried one by one at a boundary, for each try decides everything once more
# Jobs, in all tries together: where many wait fewer groups are tried, so that no boundary comes late.
MOST_DECIDED = 20_000

Answer = TypeVar("Answer")
Groups = dict[int, frozenset[int]]  # the numbers of the members of each, at least two


@dataclass(frozen=True)
class Served:
    """Jobs of one decision: those that it serves, and those to which it gives anything at all."""

    whole: frozenset[int]
    some: frozenset[int]

    def in_part(self, members: frozenset[int]) -> bool:
        """Whether a group comes apart in it."""
        return not members <= self.whole and bool(members & self.some)


@dataclass(frozen=True)
class Sorted(Generic[Answer]):
    """What was decided with the groups that stay, and of each that was left out how many of its members would have been
    served; None where it was not tried."""

    answer: Answer
    left_out: Mapping[int, int | None]


def groups_of(jobs: Iterable[Job], floors: Mapping[int, Floor]) -> Groups:
    """Those of the jobs that go together and have no plan at home that is kept: who has one is served in any case. One
    that is left of its group is a job as any other."""
    members_by_group: defaultdict[int, set[int]] = defaultdict(set)
    for job in jobs:
        if job.together is not None and not (job.number in floors and floors[job.number].value > 0):
            members_by_group[job.together].add(job.number)
    return {group: frozenset(members) for group, members in members_by_group.items() if len(members) > 1}


def tries_among(jobs: int) -> int:
    """How many groups are tried one by one where so many jobs are decided about."""
    return max(1, min(TRIES, MOST_DECIDED // max(jobs, 1)))


def sort_out(
    groups: Groups,
    slot: int,
    decide: Callable[[frozenset[int]], Answer],
    served: Callable[[Answer], Served],
    *,
    tries: int,
) -> Sorted[Answer]:
    """The decision in which no group is served in part. `decide` is told which jobs are left out."""
    answer = decide(frozenset())
    if not groups or not _apart(groups, served(answer)):
        return Sorted(answer, {})
    stay: Groups = {}
    left_out: dict[int, int | None] = dict.fromkeys(groups)
    best: Answer | None = None
    for group in _tried(groups, slot, tries):
        answer = decide(_members(groups, {*stay, group}))
        winners = served(answer)
        if _apart({**stay, group: groups[group]}, winners):
            left_out[group] = len(groups[group] & winners.whole)
        else:
            stay[group], best = groups[group], answer
            del left_out[group]
    return Sorted(decide(_members(groups, ())) if best is None else best, left_out)


def plan_floors_together(
    settings: Settings, view: View, jobs: Sequence[Job], window: tuple[int, int], groups: Groups
) -> list[Floor]:
    """Floors of newly collected jobs (G2), of each group all in the window or none. `groups`: their new members; a
    group with a member that is not among the jobs has no floors."""
    if not groups:
        return plan_floors(settings, view, jobs, window)
    tenants: defaultdict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        tenants[job.tenant].append(job)
    floors: list[Floor] = []
    for tenant in sorted(tenants):  # what is planned for one depends on nobody else
        numbers = {job.number for job in tenants[tenant]}
        mine = {group: members for group, members in groups.items() if members & numbers}
        floors += _floors_of_one(settings, view, tenants[tenant], window, mine)
    return floors


def reasons(groups: Groups, left_out: Mapping[int, int | None]) -> dict[int, Reason]:
    """By member of a group that was left out, why it waits."""
    return {
        number: Reason("bought_together", {"members": len(groups[group]), "served": served})
        for group, served in left_out.items()
        for number in groups[group]
    }


def _floors_of_one(
    settings: Settings, view: View, jobs: Sequence[Job], window: tuple[int, int], groups: Groups
) -> list[Floor]:
    """Of one tenant's jobs."""

    def decide(left_out: frozenset[int]) -> list[Floor]:
        return plan_floors(settings, view, [job for job in jobs if job.number not in left_out], window)

    def served(floors: list[Floor]) -> Served:
        planned = [floor for floor in floors if floor.value > 0]
        due = frozenset(floor.job for floor in planned if floor.start < window[1])
        return Served(due, frozenset(floor.job for floor in planned))

    floors_kept = sort_out(groups, view.slot, decide, served, tries=tries_among(len(jobs))).answer
    numbers = {floor.job for floor in floors_kept}
    return floors_kept + [Floor(job.number) for job in jobs if job.number not in numbers]


def _tried(groups: Groups, slot: int, tries: int) -> list[int]:
    """The oldest first. Of too many, those that a draw by the slot names: another slot, others."""
    order = sorted(groups, key=lambda group: hashlib.sha256(f"{slot}:{group}".encode()).hexdigest())
    return sorted(order[:tries])


def _apart(groups: Groups, served: Served) -> bool:
    return any(served.in_part(members) for members in groups.values())


def _members(groups: Groups, stay: Collection[int]) -> frozenset[int]:
    """Of all groups that do not stay."""
    return frozenset(number for group, members in groups.items() if group not in stay for number in members)
