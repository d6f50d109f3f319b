"""From an award to what an engine is told: who runs where, from when to when."""

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

DECIDED_WITHIN = timedelta(seconds=8)  # of a slot's beginning, or the slot; a later clock finds gangs saved and ended


def ends_at(award: Award, at: datetime) -> datetime:
    """When its gang has to be gone: now, where the award is over. One that is sized anew at the end of its slot is told
    to go on until that is decided, at most for so long; not if its job is cancelled or has ended, for then this slot is
    the last."""
    if award.state not in ALIVE:
        return at
    end = award.pool.slot_start(award.used_until)
    last = award.work_left is None or award.job.state in (JobState.CANCELLED, JobState.FINISHED)
    return end if last else end + decided_within(award.pool)


def decided_within(pool: Pool) -> timedelta:
    """How long after a boundary a gang waits for its decision, unpaid."""
    return min(DECIDED_WITHIN, timedelta(seconds=pool.slot_seconds))


def generations(
    award: Award, servers: Mapping[int, str], at: datetime, *, all_reduce: bool = False
) -> tuple[Generation, ...]:
    """What runs from `at` on, until the award ends. Each is numbered by the slot with which it begins.

    A job without parameter servers of its own gets one on its first server, which keeps the numbers, unless it is
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
    """Whether its job asks for workers alone."""
    return award.job.spec.get("ps_demand") == []


def gang_fault(award: Award, planned: Sequence[Generation], *, keeps_size: bool = False) -> Fault | None:
    """No server runs more members of a gang than the award took units of it, and no gang has more than an engine
    starts. What is submitted now cannot ask for that; an award from before can. `keeps_size`: its program has one size
    from start to end."""
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
    """A version of the catalogue and a job's values, as an engine is told them; `secrets`: variable and value. What it
    would do live, it does by being saved, ended and started again: our protocol of parts is the trainer's alone."""
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
    """By role, what one member takes of each resource."""
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
    """Without a worker nobody runs."""
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
