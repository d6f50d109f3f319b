"""Replaying stored intervals, all of a pool at one go or a single one: bytes, chain, awards, fairness and book."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.audit.verification.archived import ARCHIVED, Archives
from scheduling.audit.verification.course import course_verify
from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.money import money_verify
from scheduling.audit.verification.pieces import ReadingLimits, columns_after, piece_next
from scheduling.audit.verification.replay import name_of, replay
from scheduling.audit.verification.rows import rows_of
from scheduling.audit.verification.runs import feed_run, pool_run
from scheduling.audit.verification.standing import known_verify, rules_verify
from scheduling.audit.verification.walk import WalkBounds, bounds_of, left_behind, walk_from
from scheduling.common import one_moment
from scheduling.market.reads import UNKNOWN_INTERVAL, contents_of
from scheduling.models import OPEN_WORK, Interval
from tenants.access import Refused
from tenants.scoping import scope_disabled

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class VerifiedIntervals:
    """The outcome of a verification: what was verified, what was found wrong, and where the chains end."""

    intervals: int
    answers: int
    awards: int
    findings: tuple[Finding, ...]
    heads: Mapping[int, str]  # pool -> digest of its last interval
    answer_heads: Mapping[int, str]  # pool -> digest of its last answer
    feed_head: str  # digest of the feed's last seal

    @property
    def is_clean(self) -> bool:
        return not self.findings


def intervals_verify(
    *,
    pool_ids: Sequence[int],
    first: int = 1,
    known_heads: Sequence[str] = (),
    archives: Archives | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> VerifiedIntervals:
    """Replay the intervals of each pool from number `first` on, then the answers of its instant lane and their awards,
    its jobs, the end of its chains and its sums by day; and verify the seals of the feed. These are the pieces of a
    verification of everything, one after the other, without a row to keep them in. Then come the rules that keep all of
    it, and the digests that were noted elsewhere. Intervals whose bytes lie in an archive are read from `archives`;
    without them only their places in the chain are verified. This changes nothing, and may run beside the market."""
    archives = archives or Archives()
    with scope_disabled("a verification looks at everybody's awards and payments"):
        runs = [*(pool_run(pool_id, first=first) for pool_id in pool_ids), feed_run()]
    total, looked_at, findings = sum(run.total for run in runs), itertools.count(1), list[Finding]()
    for run in runs:
        while run.state in OPEN_WORK:
            piece = piece_next(run, ReadingLimits(progress=lambda: on_progress(next(looked_at), total)), archives)
            findings += piece.findings
            for name, value in columns_after(run, piece).items():
                setattr(run, name, value)
    findings += [*rules_verify(), *known_verify(pool_ids, known_heads)]
    on_progress(total, total)
    *of_pools, feed = runs
    return VerifiedIntervals(
        intervals=sum(run.intervals for run in of_pools),
        answers=sum(run.answer_number for run in of_pools),
        awards=sum(run.awards for run in of_pools),
        findings=tuple(findings),
        heads={pool_id: run.digest for pool_id, run in zip(pool_ids, of_pools, strict=True)},
        answer_heads={pool_id: run.answer_digest for pool_id, run in zip(pool_ids, of_pools, strict=True)},
        feed_head=feed.digest,
    )


MOST_JOBS = 1_000  # most jobs waiting in an interval that is replayed while somebody waits for the page


@dataclass(frozen=True)
class IntervalVerified:
    """The outcome for one interval: what was verified, and what was found wrong. `plan_bytes` counts the bytes that
    were compared."""

    number: int
    jobs: int
    awards: int
    slots_settled: int  # payments by award and slot that were looked for in the book
    plan_bytes: int
    findings: tuple[Finding, ...]


TOO_LARGE = Refused(
    "too_large", f"More than {MOST_JOBS} jobs waited in it: too many to replay on a page. Ask an operator to verify it."
)


def interval_verify(*, pool_id: int, number: int, most_jobs: float = MOST_JOBS) -> IntervalVerified | Refused:
    """Verify one interval: decide it again, and check its links to both sides, its awards and what the book says about
    them.

    An interval in which more than `most_jobs` waited is refused; a caller for whose answer nobody waits needs no limit.
    """
    with scope_disabled("a verification looks at everybody's awards and payments"), one_moment():
        bounds = bounds_of(pool_id)
        interval = Interval.objects.filter(pool=pool_id, number=number).first()
        if interval is None:
            return UNKNOWN_INTERVAL
        if interval.jobs_waiting > most_jobs:
            return TOO_LARGE
        if interval.is_archived and Archives().row_of(interval) is not None:
            return ARCHIVED
        before = walk_from(pool_id, number)
        findings = differences(name_of(interval), {"what it follows": (interval.previous, before.digest)})
        rows = rows_of([interval])
        replayed, flaws = replay(interval)
        findings += flaws
        if replayed is not None:
            if number == 1:
                findings += differences(
                    name_of(interval), {"what its policy was told": (dict(replayed.view.memory), {})}
                )
            findings += left_behind(interval, replayed, rows)
        awards = rows.awards[interval.pk]
        findings += course_verify(awards, bounds.settled_slot)
        findings += money_verify([award for award in awards if award.paid], bounds.settled_slot)
        findings += _followed(interval, bounds)
    size = len(contents_of(interval).plan) if replayed is not None else 0
    slots = sum(max(min(award.end, bounds.settled_slot + 1) - award.start, 0) for award in awards if award.paid)
    return IntervalVerified(number, interval.jobs_waiting, len(awards), slots, size, tuple(findings))


def _followed(interval: Interval, bounds: WalkBounds) -> list[Finding]:
    """Check that the next interval, or the clock where this is the last one, names this one's digest."""
    following = Interval.objects.filter(pool=interval.pool_id, number=interval.number + 1).first()
    if following is not None:
        return differences(name_of(interval), {"what follows it names": (following.previous, interval.digest)})
    if interval.slot > bounds.decided_slot:  # the interval was decided while we read
        return []
    return differences(name_of(interval), {"the last digest of the chain": (bounds.head, interval.digest)})
