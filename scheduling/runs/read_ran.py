"""Compare charges with runs: for every slot of a job with a program, what it was charged and how long it ran on each
server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.engines.base import Accounted
from scheduling.market.reads import slots_missed
from scheduling.models import Award, Pool, Run, RunState, Server

CLOSE_SECONDS = 3.0  # seconds of a slot for starting and saving; a smaller difference does not count
REASONS = {
    RunState.FINISHED: "the program was done",
    RunState.STOPPED: "it was stopped",
    RunState.PAUSED: "it was saved, to go on later",
    RunState.FAILED: "the program failed",
    RunState.LOST: "the platform lost it",
}
HEADS = (
    "job", "tenant", "slot", "server", "workers", "ps", "charged_seconds", "ran_seconds", "accounted_seconds",
    "difference",
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """One job in one slot on one server. `accounted_seconds` are those of the cluster's own accounting, or None if that
    was not read or does not know. `difference` says why it ran for less than it was charged, or longer; else empty."""

    job: int
    tenant: str
    slot: int
    server: str
    workers: int
    ps: int
    charged_seconds: float
    ran_seconds: float
    accounted_seconds: float | None
    difference: str


def charged_against_ran(
    pool: Pool, first: int, last: int, parts: Sequence[Accounted] | str = "nobody was asked"
) -> Iterator[Ran]:
    """Yield a row for each job, slot and server, in the slots from `first` to `last`, all of them settled. `parts` come
    from `accounted_of`. Needs every tenant's scope."""
    awards = Award.objects.filter(pool=pool, start__lte=last, end__gt=first, job__spec__has_key="program")
    awards = awards.select_related("tenant", "pool").order_by("pk")
    names = dict(Server.objects.filter(pool=pool).values_list("pk", "name"))
    runs: dict[int, list[Run]] = {}
    for run in Run.objects.filter(job__in={award.job_id for award in awards}).order_by("pk"):
        runs.setdefault(run.job_id, []).append(run)
    missed = slots_missed(awards)
    for award in awards:
        unpaid = missed.get(award.pk, frozenset())
        for slot in range(max(award.start, first), min(award.end, last + 1)):
            there = [(names[row[0]], row[3], row[4]) for row in award.allocation if row[1] <= slot < row[2]]
            for server, workers, ps in there:
                charged = float(pool.slot_seconds) if slot < award.paid_until and slot not in unpaid else 0.0
                mine = runs.get(award.job_id, [])
                ran = sum(_overlap(pool, slot, run, server) for run in mine)
                account_seconds = None if isinstance(parts, str) else _accounted(pool, slot, mine, server, parts)
                why = _difference(charged, ran, _run_in(pool, slot, mine)) or _less_accounted(ran, account_seconds)
                slug = award.tenant.slug
                yield Ran(award.job_id, slug, slot, server, workers, ps, charged, round(ran, 3), account_seconds, why)


def _overlap(pool: Pool, slot: int, run: Run, server: str) -> float:
    return sum(_inside(pool, slot, since, until) for name, since, until in run.delivered if name == server)


def _accounted(pool: Pool, slot: int, runs: Sequence[Run], server: str, parts: Sequence[Accounted]) -> float:
    """Return the accounted seconds in the slot. A part starts early and waits inside its Slurm job for the slot; that
    time is not in a slot of its own, and does not count."""
    keys = {run.key for run in runs}
    mine = [each for each in parts if each.key in keys and each.server == server]
    return round(sum(_inside(pool, slot, each.begin, math.inf if each.end is None else each.end) for each in mine), 3)


def _inside(pool: Pool, slot: int, since: float, until: float) -> float:
    begin, end = pool.slot_start(slot).timestamp(), pool.slot_start(slot + 1).timestamp()
    return max(0.0, min(end, until) - max(begin, since))


def _less_accounted(ran: float, account_seconds: float | None) -> str:
    if account_seconds is None or ran - account_seconds <= CLOSE_SECONDS:
        return ""
    return "its cluster's accounting knows of less"


def _run_in(pool: Pool, slot: int, runs: Sequence[Run]) -> Run | None:
    """Return the run that says why a slot is not full: the first one that ended in it, or else the last one that began
    before it was over. A later run of the job says nothing about it."""
    begin, end = pool.slot_start(slot), pool.slot_start(slot + 1)
    ending = [run for run in runs if run.ended_at is not None and begin <= run.ended_at < end]
    begun = [run for run in runs if (run.started_at or run.due_at) < end]
    return ending[0] if ending else begun[-1] if begun else None


def _difference(charged: float, ran: float, run: Run | None) -> str:
    if abs(charged - ran) <= CLOSE_SECONDS:
        return ""
    if run is None:
        return "nothing was started"
    if charged < ran:
        return "it ran in a slot that was refunded"
    return REASONS.get(RunState(run.state), "it has not ended")
