"""From an award to what an engine is told: who runs where, from when to when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from scheduling.engines.base import Member, Phase
from scheduling.models import Award, JobState, Pool
from scheduling.services.settlement import ALIVE

DECIDED_WITHIN = timedelta(seconds=8)  # of a slot's beginning, or the slot; a later clock finds gangs saved and ended
Counts = dict[tuple[str, str], int]  # (role, server) -> how many


def end_slot(award: Award) -> int:
    """The first slot in which nothing of it runs any more."""
    return award.end if award.cut_at is None else min(award.cut_at, award.end)


def ends_at(award: Award, at: datetime) -> datetime:
    """When its gang has to be gone: now, where the award is over. One that is sized anew at the end of its slot is told
    to go on until that is decided, at most for so long; not if its job is cancelled, for then this slot is the last."""
    if award.state not in ALIVE:
        return at
    end = award.pool.slot_start(end_slot(award))
    last = award.work_left is None or award.job.state == JobState.CANCELLED
    return end if last else end + decided_within(award.pool)


def decided_within(pool: Pool) -> timedelta:
    """How long after a boundary a gang waits for its decision, unpaid."""
    return min(DECIDED_WITHIN, timedelta(seconds=pool.slot_seconds))


def phases(
    award: Award, servers: Mapping[int, str], at: datetime, before: tuple[Member, ...] = ()
) -> tuple[Phase, ...]:
    """What runs from `at` on. Somebody who goes on keeps its rank; after a pause ranks begin at 0 again. `before`: who
    runs now, of a gang that goes on from another award."""
    pool, found = award.pool, []
    first = max(award.start, pool.slot_at(at))
    for slot in _changes(award, first):
        before = _members(_counts(award.allocation, servers, slot), before)
        found.append(Phase(_moment(pool, slot), before))
    return tuple(found)


def _changes(award: Award, first: int) -> Iterator[int]:
    edges = {edge for _, start, end, _, _ in award.allocation for edge in (start, end)}
    yield first
    yield from sorted(edge for edge in edges if first < edge < end_slot(award))


def _counts(allocation: Sequence[Sequence[int]], servers: Mapping[int, str], slot: int) -> Counts:
    counts: Counts = {}
    for server_id, start, end, workers, ps in allocation:
        if start <= slot < end:
            for role, number in (("worker", workers), ("ps", ps)):
                key = (role, servers[server_id])
                counts[key] = counts.get(key, 0) + number
    if not any(number for (role, _), number in counts.items() if role == "worker"):
        return {}
    if not any(number for (role, _), number in counts.items() if role == "ps"):
        counts["ps", min(server for (_, server), number in counts.items() if number)] = 1  # somebody keeps the numbers
    return counts


def _members(counts: Counts, before: Sequence[Member]) -> tuple[Member, ...]:
    """Those who can stay do; others get the lowest rank that nobody of this or the last phase has.

    Where no worker or no parameter server could stay, ranks begin at 0 again.
    """
    left, staying = dict(counts), []
    for member in before:
        if left.get((member.role, member.server), 0):
            left[member.role, member.server] -= 1
            staying.append(member)
    if {member.role for member in staying} != {"worker", "ps"}:
        left, staying, before = dict(counts), [], ()  # nobody could hand over to anybody: it begins again
    taken = {(member.role, member.rank) for member in before}
    members = staying
    for (role, server), number in sorted(left.items()):
        for _ in range(number):
            rank = next(rank for rank in range(len(taken) + 1) if (role, rank) not in taken)
            taken.add((role, rank))
            members.append(Member(role, rank, server))
    return tuple(members)


def _moment(pool: Pool, slot: int) -> float:
    return pool.slot_start(slot).timestamp()
