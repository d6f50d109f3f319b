"""Jobs that are bought together: in one interval all waiting jobs of a group are served, or none of them is.

Two decisions need this, and `sort_out` serves both. At home, the new members of a group get their floors if all of them
begin in the coming window; otherwise each has the floor 0, and the floors of its owner's other jobs are those of a
world without the group. In the pool, a group that would be bought in part is left out, and everything is decided again
without it. Either decision is first tried with all groups. Where a group comes apart, groups are added one at a time,
the oldest first. So the result depends on the view alone, and a plan at home on its owner's own jobs alone.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from scheduling.core.policies.astraea.home.floors import plan_floors
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.types import Floor, Job, Reason, View

TRIES = 8  # the most groups tried one by one at a boundary, as each try decides everything once more
# The most jobs in all tries together: where many wait, fewer groups are tried, so that no boundary comes late.
MOST_DECIDED = 20_000

Answer = TypeVar("Answer")
Groups = dict[int, frozenset[int]]  # the numbers of the members of each, at least two


@dataclass(frozen=True)
class Served:
    """The jobs that one decision serves in full (`whole`), and those to which it gives anything at all (`some`)."""

    whole: frozenset[int]
    some: frozenset[int]

    def in_part(self, members: frozenset[int]) -> bool:
        """Return whether the decision serves a group in part."""
        return not members <= self.whole and bool(members & self.some)


@dataclass(frozen=True)
class Sorted(Generic[Answer]):
    """The decision with the groups that stay. For each group that was left out, `left_out` has how many of its members
    would have been served, None where it was not tried."""

    answer: Answer
    left_out: Mapping[int, int | None]


def groups_of(jobs: Iterable[Job], floors: Mapping[int, Floor]) -> Groups:
    """Return the groups among the jobs, without jobs that have a plan at home that is kept: these are served in any
    case. A job that is the last of its group counts as a single job."""
    members_by_group: defaultdict[int, set[int]] = defaultdict(set)
    for job in jobs:
        if job.together is not None and not (job.number in floors and floors[job.number].value > 0):
            members_by_group[job.together].add(job.number)
    return {group: frozenset(members) for group, members in members_by_group.items() if len(members) > 1}


def tries_among(jobs: int) -> int:
    """Return how many groups are tried one by one where `jobs` jobs are decided about."""
    return max(1, min(TRIES, MOST_DECIDED // max(jobs, 1)))


def sort_out(
    groups: Groups,
    slot: int,
    decide: Callable[[frozenset[int]], Answer],
    served: Callable[[Answer], Served],
    *,
    tries: int,
) -> Sorted[Answer]:
    """Find the decision in which no group is served in part. `decide` gets the numbers of the jobs that are left out,
    and `served` reads from a decision which jobs it serves."""
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
    """Plan the floors of newly collected jobs (G2), for all members of a group in the window or for none. `groups` has
    the new members; a group with a member that is not among the jobs gets no floors."""
    if not groups:
        return plan_floors(settings, view, jobs, window)
    tenants: defaultdict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        tenants[job.tenant].append(job)
    floors: list[Floor] = []
    for tenant in sorted(tenants):  # the plan of one tenant depends on no other
        numbers = {job.number for job in tenants[tenant]}
        mine = {group: members for group, members in groups.items() if members & numbers}
        floors += _floors_of_one(settings, view, tenants[tenant], window, mine)
    return floors


def reasons(groups: Groups, left_out: Mapping[int, int | None]) -> dict[int, Reason]:
    """Return why each member of a group that was left out waits."""
    return {
        number: Reason("bought_together", {"members": len(groups[group]), "served": served})
        for group, served in left_out.items()
        for number in groups[group]
    }


def _floors_of_one(
    settings: Settings, view: View, jobs: Sequence[Job], window: tuple[int, int], groups: Groups
) -> list[Floor]:
    """Plan the floors of one tenant's jobs."""

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
    """Return the groups to try, the oldest first. Of too many, a draw picks some, which differs from slot to slot."""
    order = sorted(groups, key=lambda group: hashlib.sha256(f"{slot}:{group}".encode()).hexdigest())
    return sorted(order[:tries])


def _apart(groups: Groups, served: Served) -> bool:
    return any(served.in_part(members) for members in groups.values())


def _members(groups: Groups, stay: Collection[int]) -> frozenset[int]:
    """Return the members of all groups that are not in `stay`."""
    return frozenset(number for group, members in groups.items() if group not in stay for number in members)
