"""Make an engine's gang out of an award: which members run on which server, from when to when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from scheduling.engines.base import Counts, Fault, Generation, OwnProgram, merged
from scheduling.engines.launcher.unpack import SCRIPT
from scheduling.market.view import MOST_MEMBERS, SpecReader, member_too_little
from scheduling.models import ALIVE, Award, JobState, Pool
from scheduling.programs.catalogue import NONE, Program, command_of
from scheduling.programs.parameters import Value

# A gang waits so long after a slot's beginning for the slot's decision; then it has saved and ended. A long slot leaves
# time for a large pool to be decided, and for a worker that starts anew (0355).
LEAST_WAIT, MOST_WAIT = 8.0, 60.0  # seconds
PART_OF_SLOT = 0.1


def ends_at(award: Award, at: datetime) -> datetime:
    """Return when an award's gang has to be gone: now, if the award is over. A gang that is sized anew at the end of
    its slot may continue until that is decided, for `decided_within` at most; not if its job is cancelled or has ended,
    since this slot is then the last."""
    if award.state not in ALIVE:
        return at
    end = award.pool.slot_start(award.used_until)
    last = award.work_left is None or award.job.state in (JobState.CANCELLED, JobState.FINISHED)
    return end if last else end + decided_within(award.pool)


def decided_within(pool: Pool) -> timedelta:
    """Return how long after a boundary a gang waits for its decision, unpaid."""
    seconds = min(max(LEAST_WAIT, PART_OF_SLOT * pool.slot_seconds), MOST_WAIT)
    return timedelta(seconds=min(seconds, pool.slot_seconds))


def generations(
    award: Award, servers: Mapping[int, str], at: datetime, *, all_reduce: bool = False
) -> tuple[Generation, ...]:
    """Return the generations that run from `at` until the award ends. Each has the number of the slot with which it
    begins.

    A job without parameter servers of its own gets one on its first server, which keeps the parameters, unless it is
    `all_reduce`.
    """
    pool = award.pool
    first = max(award.start, pool.slot_at(at))
    edges = {edge for _, start, end, _, _ in award.allocation for edge in (start, end)}
    slots = [first, *sorted(edge for edge in edges if first < edge < award.used_until)]
    ends = [*slots[1:], max(award.used_until, first + 1)]
    return merged(
        [
            Generation(slot, _moment(pool, slot), _moment(pool, end), _counts(award, servers, slot, all_reduce))
            for slot, end in zip(slots, ends, strict=True)
        ]
    )


def is_all_reduce(award: Award) -> bool:
    """Return whether the award's job asks for workers only."""
    return award.job.spec.get("ps_demand") == []


def gang_fault(award: Award, planned: Sequence[Generation], *, keeps_size: bool = False) -> Fault | None:
    """Return why a gang is not started: a server would run more of its members than the award has units there, or it
    has more members than an engine starts. Jobs that are submitted now cannot ask for that, but older awards can.
    `keeps_size` says that its program has one size from start to end."""
    specs = SpecReader(award.pool)
    if (little := member_too_little(specs.read(award.job), specs.resources)) is not None:
        return Fault(f"It is not started: {little.sentence}.")
    sizes = {
        tuple(sum(roles[role] for roles in each.servers.values()) for role in ("worker", "ps"))
        for each in planned
        if each.servers
    }
    if keeps_size and len(sizes) > 1:
        return Fault("It is not started: its award has several sizes, and its program keeps one from start to end.")
    members = max((sum(sum(roles.values()) for roles in each.servers.values()) for each in planned), default=0)
    if members > MOST_MEMBERS:
        return Fault(f"It is not started: it has {members} members, and one program has {MOST_MEMBERS} at most.")
    return None


def own_program(
    program: Program,
    values: Mapping[str, Value],
    *,
    job: int,
    slot_seconds: float,
    archive: bytes | None = None,
    secrets: tuple[tuple[str, str], ...] = (),
) -> OwnProgram:
    """Return a version of the catalogue with a job's values, as an engine gets it. `secrets` are variables with values.
    A program that can change its size live is saved, ended and started again all the same: only our own trainer has the
    protocol for that."""
    limits = {name: number for name, number in asdict(program.limits).items() if number is not None}
    return OwnProgram(
        name=program.name,
        command=command_of(program, values, str(SCRIPT)),
        job=job,
        slot_seconds=slot_seconds,
        script=program.script,
        archive=archive,
        keeps_size=program.resize == NONE,
        grace_seconds=program.grace_in(slot_seconds),
        limits=limits,
        image=program.image,
        modules=program.modules,
        secrets=secrets,
    )


def amounts(award: Award) -> dict[str, dict[str, float]]:
    """Return by role what one member takes of each resource."""
    specs = SpecReader(award.pool)
    job = specs.read(award.job)
    return {
        role: dict(zip(specs.resources, map(float, types[number].amounts), strict=True))
        for role, types, number in (
            ("worker", job.worker_types, award.worker_type),
            ("ps", job.ps_types, award.ps_type),
        )
    }


def _counts(award: Award, servers: Mapping[int, str], slot: int, all_reduce: bool) -> Counts:
    """Return the members on each server in a slot. Where there is no worker, nothing runs."""
    counts: dict[str, dict[str, int]] = {}
    for server_id, start, end, workers, ps in award.allocation:
        if start <= slot < end and workers + ps:
            roles = counts.setdefault(servers[server_id], {"worker": 0, "ps": 0})
            roles["worker"] += workers
            roles["ps"] += ps
    if not any(roles["worker"] for roles in counts.values()):
        return {}
    if not all_reduce and not any(roles["ps"] for roles in counts.values()):
        counts[min(counts)]["ps"] = 1
    return counts


def _moment(pool: Pool, slot: int) -> float:
    return pool.slot_start(slot).timestamp()
