"""All stored intervals of a pool, replayed in order: bytes, chain, awards and book. Linear in their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.models import Award, Interval, JobFloor, Lane, LaneClock
from scheduling.services.chain import START
from scheduling.services.verification.awards import awards_verify, floors_verify
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.money import money_verify
from scheduling.services.verification.replay import Replayed, name_of, replay
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
    ]


def _end(walk: _Walk, clock: LaneClock) -> None:
    """The chain ends where the clock says, and no award is from nowhere."""
    where = f"pool {walk.pool_id}"
    walk.findings += differences(where, {"the last digest of the chain": (walk.digest, clock.head or START)})
    if walk.memory is not None and walk.number:
        walk.findings += differences(where, {"what its policy is told next": (dict(clock.memory), walk.memory)})
    stray = Award.objects.filter(pool=walk.pool_id, lane=Lane.BATCH, interval=None).order_by("pk")
    walk.findings += [Finding(where, f"award {award.pk} of job {award.job_id} has no interval") for award in stray]
