"""All stored intervals of a pool, replayed in order: bytes, chain, awards and book. Linear in their number."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.models import Award, Interval, JobFloor, Lane, LaneClock
from scheduling.services.chain import START
from scheduling.services.verification.awards import awards_verify, floors_verify
from scheduling.services.verification.fairness import fairness_verify
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.money import money_verify
from scheduling.services.verification.replay import Replayed, name_of, replay
from tenants.access import Refused
from tenants.scoping import scope_disabled

OnProgress = Callable[[int, int], None]
CHUNK = 20  # intervals in memory at once


@dataclass(frozen=True)
class Verified:
    intervals: int
    awards: int
    findings: tuple[Finding, ...]
    heads: Mapping[int, str]  # pool -> digest of its last interval

    @property
    def is_clean(self) -> bool:
        return not self.findings


@dataclass
class _Walk:
    """One pool's chain as far as it was followed. What the first interval looked at follows is taken on trust."""

    pool_id: int
    number: int
    digest: str
    memory: Mapping[str, Any] | None  # what the policy must have been told; None: not known yet
    findings: list[Finding] = field(default_factory=list)
    awards: int = 0


def intervals_verify(
    *, pool_ids: Sequence[int], first: int = 1, on_progress: OnProgress = lambda done, total: None
) -> Verified:
    """Replay the intervals from number `first` on of each pool. Changes nothing, and may run beside the market."""
    with scope_disabled("a verification looks at everybody's awards and payments"):
        total = Interval.objects.filter(pool__in=pool_ids, number__gte=first).count()
        done, walks = 0, []
        for pool_id in pool_ids:
            # The clock is read first: what is decided while we read lies behind it and is left to the next run.
            clock = LaneClock.objects.filter(pool_id=pool_id, lane=Lane.BATCH).first() or LaneClock(pool_id=pool_id)
            walk = _walk(pool_id, first)
            for interval in _intervals(clock, first):
                _step(walk, interval, clock)
                done += 1
                on_progress(done, max(total, done))
            _end(walk, clock)
            walks.append(walk)
    findings = tuple(finding for walk in walks for finding in walk.findings)
    heads = {walk.pool_id: walk.digest for walk in walks}
    return Verified(done, sum(walk.awards for walk in walks), findings, heads)


MOST_JOBS = 1_000  # waiting in an interval that is replayed while somebody waits for the page


@dataclass(frozen=True)
class IntervalVerified:
    """One interval: what was looked at, and what was found wrong. `plan_bytes`: compared one by one."""

    number: int
    jobs: int
    awards: int
    slots_settled: int  # payments by award and slot that were looked for in the book
    plan_bytes: int
    findings: tuple[Finding, ...]


UNKNOWN_INTERVAL = Refused("unknown_interval", "There is no such interval.")
TOO_LARGE = Refused(
    "too_large", f"More than {MOST_JOBS} jobs waited in it: too many to replay on a page. Ask an operator to verify it."
)


def interval_verify(*, pool_id: int, number: int) -> IntervalVerified | Refused:
    """One interval decided again, with its links to both sides, its awards and what the book says about them."""
    with scope_disabled("a verification looks at everybody's awards and payments"):
        clock = LaneClock.objects.filter(pool_id=pool_id, lane=Lane.BATCH).first() or LaneClock(pool_id=pool_id)
        interval = Interval.objects.filter(pool=pool_id, number=number).first()
        if interval is None:
            return UNKNOWN_INTERVAL
        if interval.jobs_waiting > MOST_JOBS:
            return TOO_LARGE
        walk = _walk(pool_id, number)
        _step(walk, interval, clock)
        walk.findings += _followed(interval, clock)
        awards = Award.objects.filter(interval=interval).values_list("start", "end", "paid")
        slots = sum(max(min(end, clock.settled_slot + 1) - start, 0) for start, end, paid in awards if paid)
    size = len(zlib.decompress(bytes(interval.plan))) if walk.memory is not None else 0
    return IntervalVerified(number, interval.jobs_waiting, walk.awards, slots, size, tuple(walk.findings))


def _followed(interval: Interval, clock: LaneClock) -> list[Finding]:
    """The next interval, or the clock where this is the last one, names this one's digest."""
    following = Interval.objects.filter(pool=interval.pool_id, number=interval.number + 1).first()
    if following is not None:
        return differences(name_of(interval), {"what follows it names": (following.previous, interval.digest)})
    if interval.slot > clock.decided_slot:  # decided while we read
        return []
    return differences(name_of(interval), {"the last digest of the chain": (clock.head or START, interval.digest)})


def _walk(pool_id: int, first: int) -> _Walk:
    if first <= 1:
        return _Walk(pool_id, 0, START, {})
    before = Interval.objects.filter(pool=pool_id, number=first - 1).values_list("digest", flat=True).first()
    return _Walk(pool_id, first - 1, before or START, None)


def _intervals(clock: LaneClock, first: int) -> Any:
    rows = Interval.objects.filter(pool=clock.pool_id, number__gte=first, slot__lte=clock.decided_slot)
    return rows.order_by("number").iterator(chunk_size=CHUNK)


def _step(walk: _Walk, interval: Interval, clock: LaneClock) -> None:
    where = name_of(interval)
    walk.findings += differences(
        where, {"its number": (interval.number, walk.number + 1), "what it follows": (interval.previous, walk.digest)}
    )
    walk.number, walk.digest = interval.number, interval.digest
    replayed, found = replay(interval)
    walk.findings += found
    if replayed is None:
        walk.memory = None
        return
    if walk.memory is not None:
        walk.findings += differences(where, {"what its policy was told": (dict(replayed.view.memory), walk.memory)})
    walk.memory = dict(replayed.view.memory if replayed.plan.memory is None else replayed.plan.memory)
    walk.findings += _rows(walk, interval, replayed, clock.settled_slot)


def _rows(walk: _Walk, interval: Interval, replayed: Replayed, settled_slot: int) -> list[Finding]:
    awards = list(Award.objects.filter(interval=interval).order_by("pk"))
    walk.awards += len(awards)
    return [
        *awards_verify(interval, replayed, awards),
        *floors_verify(interval, replayed, list(JobFloor.objects.filter(interval=interval))),
        *money_verify([award for award in awards if award.paid], settled_slot),
        *fairness_verify(interval, replayed),
    ]


def _end(walk: _Walk, clock: LaneClock) -> None:
    """The chain ends where the clock says, and no award is from nowhere."""
    where = f"pool {walk.pool_id}"
    walk.findings += differences(where, {"the last digest of the chain": (walk.digest, clock.head or START)})
    if walk.memory is not None and walk.number:
        walk.findings += differences(where, {"what its policy is told next": (dict(clock.memory), walk.memory)})
    stray = Award.objects.filter(pool=walk.pool_id, lane=Lane.BATCH, interval=None).order_by("pk")
    walk.findings += [Finding(where, f"award {award.pk} of job {award.job_id} has no interval") for award in stray]
