"""Following one pool's chain from interval to interval, in pieces, so that a walk can be stopped and continued."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.audit.verification.archived import Archives
from scheduling.audit.verification.awards import awards_verify, floors_verify
from scheduling.audit.verification.course import course_verify
from scheduling.audit.verification.fairness import fairness_verify
from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.money import money_verify
from scheduling.audit.verification.rents import adjusted_verify, settlements_verify
from scheduling.audit.verification.replay import Replayed, name_of, read_or_named, replay
from scheduling.audit.verification.rows import Rows, rows_of
from scheduling.audit.verification.standing import noted_verify
from scheduling.audit.verification.ticks import ticks_verify
from scheduling.core.collector import collector_resting
from scheduling.market.decide import START, heads_beside, intervals_name
from scheduling.models import Interval, Lane, LaneClock

CHUNK = 60  # intervals in memory at once: half a second of work where a hundred tenants take part


@dataclass(frozen=True)
class WalkBounds:
    """The end of a walk: how far the clock was when it began. The walk leaves out what is decided meanwhile."""

    decided_slot: int
    settled_slot: int
    head: str
    memory: Mapping[str, Any]
    answers: int = 0  # the number of the instant lane's last answer
    answers_head: str = START


@dataclass
class Walk:
    """The state of a walk along the chain: how far it was followed. The digest before the first interval is taken on
    trust."""

    pool_id: int
    number: int
    digest: str
    memory: Mapping[str, Any] | None  # the policy's memory; None where it is not known
    findings: list[Finding] = field(default_factory=list)
    intervals: int = 0
    awards: int = 0


def bounds_of(pool_id: int) -> WalkBounds:
    clock = LaneClock.objects.filter(pool_id=pool_id, lane=Lane.BATCH).first() or LaneClock(pool_id=pool_id)
    answers, head = json.loads(heads_beside(pool_id))["answers"]
    return WalkBounds(clock.decided_slot, clock.settled_slot, clock.head or START, dict(clock.memory), answers, head)


def walk_from(pool_id: int, first: int) -> Walk:
    """Return the walk as it is before interval `first`, which is the next one to verify."""
    if first <= 1:
        return Walk(pool_id, 0, START, {})
    before = Interval.objects.filter(pool=pool_id, number=first - 1).values_list("digest", flat=True).first()
    return Walk(pool_id, first - 1, before or START, None)


def walk_on(
    walk: Walk,
    bounds: WalkBounds,
    *,
    archives: Archives | None = None,
    too_long: Callable[[], bool] = lambda: False,
    progress: Callable[[], None] = lambda: None,
) -> bool:
    """Verify the next intervals of the chain, at most `CHUNK`, until `too_long` holds. Return False where there are no
    more. `progress` is called after each. Intervals whose bytes lie in an archive are read from `archives`."""
    archives = archives or Archives()
    rest = Interval.objects.filter(pool=walk.pool_id, number__gt=walk.number, slot__lte=bounds.decided_slot)
    with collector_resting():
        intervals = list(rest.order_by("number").prefetch_related("base")[:CHUNK])
        rows, done = rows_of(intervals), 0
        while done < len(intervals):
            _step(walk, intervals[done], rows, archives)
            done += 1
            progress()
            if too_long():
                break
        awards = [award for interval in intervals[:done] for award in rows.awards.get(interval.pk, ())]
        walk.findings += course_verify(awards, bounds.settled_slot)
        walk.findings += money_verify([award for award in awards if award.paid], bounds.settled_slot)
        walk.findings += adjusted_verify(awards, archives)
    return len(intervals) == CHUNK or done < len(intervals)


def walk_end(walk: Walk, bounds: WalkBounds) -> None:
    """Check that the chain ends where the clock says, and has all that was noted of it."""
    where = f"pool {walk.pool_id}"
    walk.findings += differences(where, {"the last digest of the chain": (walk.digest, bounds.head)})
    if walk.memory is not None and walk.number:
        walk.findings += differences(where, {"what its policy is told next": (dict(bounds.memory), dict(walk.memory))})
    links = Interval.objects.filter(pool=walk.pool_id)
    walk.findings += noted_verify(intervals_name(walk.pool_id), links, lambda number: f"interval {number} of {where}")


def _step(walk: Walk, interval: Interval, rows: Rows, archives: Archives) -> None:
    where = name_of(interval)
    walk.findings += differences(
        where, {"its number": (interval.number, walk.number + 1), "what it follows": (interval.previous, walk.digest)}
    )
    walk.number, walk.digest = interval.number, interval.digest
    walk.intervals += 1
    walk.awards += len(rows.awards[interval.pk])
    if interval.is_archived and archives.filled(interval) is None:
        # Only its place in the chain can be verified here, and which ends of the other chains it saw.
        walk.findings += [*archives.findings_take(), *read_or_named(where, lambda: heads_differ(interval, rows))]
        walk.findings += _missing(interval, rows)
        walk.memory = None
        return
    replayed, findings = replay(interval)
    walk.findings += findings
    if replayed is None:
        walk.memory = None
        return
    if walk.memory is not None:
        words_by_place = {"what its policy was told": (dict(replayed.view.memory), dict(walk.memory))}
        walk.findings += differences(where, words_by_place)
    walk.memory = dict(replayed.view.memory if replayed.plan.memory is None else replayed.plan.memory)
    walk.findings += left_behind(interval, replayed, rows)


def heads_differ(interval: Interval, rows: Rows) -> list[Finding]:
    """Check that the ends of the other chains that the interval saw are in them."""
    if not interval.heads:
        return []
    heads = json.loads(bytes(interval.heads))
    (answer, of_answer), (seal, of_seal) = heads["answers"], heads["feed"]
    return differences(
        name_of(interval),
        {
            f"answer {answer}, as it saw it,": (of_answer, rows.answers.get(answer, START)),
            f"seal {seal} of the feed, as it saw it,": (of_seal, rows.seals.get(seal, START)),
        },
    )


def left_behind(interval: Interval, replayed: Replayed, rows: Rows) -> Sequence[Finding]:
    """Compare the rows that an interval left with its plan, and check the chains beside it."""
    awards, floors, fairness = rows.awards[interval.pk], rows.floors[interval.pk], rows.fairness.get(interval.pk)
    checks: tuple[Callable[[], Iterable[Finding]], ...] = (
        lambda: heads_differ(interval, rows),
        lambda: awards_verify(interval, replayed, awards, rows.attempts),
        lambda: floors_verify(interval, replayed, floors, rows.attempts),
        lambda: settlements_verify(interval, replayed),
        lambda: ticks_verify(interval, replayed, rows.ticks),
        lambda: fairness_verify(interval, replayed, fairness, rows.tenants_in(interval)),
        lambda: _missing(interval, rows),
    )
    return [finding for check in checks for finding in read_or_named(name_of(interval), check)]


def _missing(interval: Interval, rows: Rows) -> list[Finding]:
    """Check that the interval has its fairness. Fairness is worked out in order: where later intervals have it, a
    missing one was removed."""
    there = interval.pk in rows.fairness or interval.number > rows.fairness_until
    return [] if there else [Finding(f"fairness of {name_of(interval)}", "it is missing")]
