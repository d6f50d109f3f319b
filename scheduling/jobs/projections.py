"""Read the projected start of a job that waits: where it was before and why it moved, and how past projections held."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

from django.db.models import Exists, F, OuterRef, Q, Subquery

from scheduling.core import records
from scheduling.core.policies.astraea import Astraea, MoveCause, why_moved
from scheduling.core.types import Policy, View
from scheduling.market.decide import code_version
from scheduling.market.reads import REPLAY_ERRORS, Contents, contents_of
from scheduling.market.view import policy_built
from scheduling.models import Award, AwardState, Interval, JobFloor, JobState, Pool, TrainingJob
from tenants.scoping import scope_disabled

HEAVY = ("interval__policy", "interval__view", "interval__plan", "interval__windows")  # a megabyte, not needed here
MOST_FLOORS = 20  # the newest of a job, which are searched for the last change of its start
MOST_JOBS = 1_000  # jobs that may wait in an interval which is read again for a page
INTERVALS = 200  # the last ones, whose projections a record counts
MOST_LOOKED_AT = 2_000
ENDED = (JobState.REJECTED, JobState.EXPIRED, JobState.FAILED, JobState.STOPPED)


@dataclass(frozen=True)
class ProjectionMove:
    """The last change of a projected start. `before` is the start that was projected until then, or None where none
    was. `jobs` are those that have its place now."""

    interval: int
    before: int | None
    before_at: datetime | None
    why: MoveCause
    jobs: tuple[int, ...]

    @property
    def sentence(self) -> str:
        return f"Planned anew at interval {self.interval}{_because(self.why, self.jobs)}."


@dataclass(frozen=True)
class PastProjections:
    """How the projections of `projections` jobs held: how many started by then, how many started later and by a median
    of how many slots, and how many never started, or not yet though the projected start has passed."""

    projections: int = 0
    by_then: int = 0
    later: int = 0
    later_by: float | None = None  # slots
    not_started: int = 0

    @property
    def sentence(self) -> str:
        jobs = f"{self.projections} job{'' if self.projections == 1 else 's'} with a projected start"
        parts = [f"{self.by_then} started by then"]
        if self.later_by is not None:
            slots = f"{self.later_by:g} slot{'' if self.later_by == 1 else 's'}"
            parts += [f"{self.later} later, {'by' if self.later == 1 else 'half of them by at most'} {slots}"]
        parts += [f"{self.not_started} not at all, or not yet"] if self.not_started else []
        return f"of {jobs}, {'; '.join(parts)}."


@dataclass(frozen=True)
class Projection:
    start: int
    start_at: datetime
    moved: ProjectionMove | None
    mine: PastProjections
    pool: PastProjections


@dataclass(frozen=True)
class _FirstStart:
    """The first start that was projected for a job, and what has become of it."""

    tenant_id: int
    start: int
    began: int | None
    state: str


def job_projection(job: TrainingJob, *, at: datetime) -> Projection | None:
    """Return the projected start of a job, or None where it waits for no place that may still move. Needs the tenant's
    scope, and the job with its pool."""
    if job.state != JobState.QUEUED:
        return None
    rows = JobFloor.objects.filter(job=job, attempt=job.attempt).select_related("interval").defer(*HEAVY)
    floors = list(rows.order_by("-interval")[:MOST_FLOORS])
    if not floors or not floors[0].draft or not floors[0].allocation:
        return None
    pool, slot = job.pool, job.pool.slot_at(at)
    estimates = _first_starts(pool, slot)
    return Projection(
        start=floors[0].start,
        start_at=pool.slot_start(floors[0].start),
        moved=_moved(job, floors),
        mine=held([each for each in estimates if each.tenant_id == job.tenant_id], slot),
        pool=held(estimates, slot),
    )


def held(estimates: Iterable[_FirstStart], slot: int) -> PastProjections:
    """Return how projections held, as seen in the running slot. Jobs that were cancelled before they began, or that are
    still to start, do not count."""
    by_then = not_started = 0
    late: list[int] = []
    for each in estimates:
        if each.began is not None and each.began <= slot:
            if each.began <= each.start:
                by_then += 1
            else:
                late.append(each.began - each.start)
        elif each.state != JobState.CANCELLED and (each.state in ENDED or each.start < slot):
            not_started += 1
    later_by = float(statistics.median(late)) if late else None
    return PastProjections(by_then + len(late) + not_started, by_then, len(late), later_by, not_started)


def _first_starts(pool: Pool, slot: int) -> list[_FirstStart]:
    """Return the first projection of each attempt of a job in the pool's last intervals, newest first. Jobs of other
    tenants are counted among them, and never named."""
    newest = Interval.objects.filter(pool=pool).order_by("-number").values("number")[:1]
    earlier = JobFloor.objects.filter(
        job=OuterRef("job"), attempt=OuterRef("attempt"), interval__lt=OuterRef("interval"), end__gt=F("start")
    )
    cut = Q(state=AwardState.VOID, cut_at__lte=F("start"))
    runs = Award.objects.filter(~cut, job=OuterRef("job"), attempt__gte=OuterRef("attempt")).order_by("start")
    with scope_disabled("how often projections held is counted over all tenants, and nobody's job is named"):
        rows = JobFloor.objects.filter(
            ~Exists(earlier),
            interval__pool=pool,
            interval__number__gt=Subquery(newest) - INTERVALS,
            draft=True,
            end__gt=F("start"),
        )
        starts = rows.annotate(began=Subquery(runs.values("start")[:1])).order_by("-pk")
        ends_seen = starts.values_list("tenant_id", "start", "began", "job__state")[:MOST_LOOKED_AT]
        return [_FirstStart(*row) for row in ends_seen]


def _moved(job: TrainingJob, floors: Sequence[JobFloor]) -> ProjectionMove | None:
    """Return the last change of the job's start, or None where there was none."""
    for newer, older in pairwise(floors):
        if (newer.start, newer.end) != (older.start, older.end):
            interval = newer.interval
            why, jobs = _why(interval.pk, interval.digest, job.pk)
            before = older.start if older.allocation else None
            before_at = None if before is None else job.pool.slot_start(before)
            return ProjectionMove(interval.number, before, before_at, why, jobs)
    return None


@lru_cache(maxsize=256)
def _why(interval_id: int, digest: str, number: int) -> tuple[MoveCause, tuple[int, ...]]:
    """Return why a start moved, and which jobs have its place, as read from a stored interval, which never changes.
    `digest` is that of its contents."""
    interval = Interval.objects.filter(pk=interval_id, digest=digest, jobs_waiting__lte=MOST_JOBS).first()
    if interval is None:
        return MoveCause.UNKNOWN, ()
    try:
        contents = contents_of(interval)
        view, plan = records.view_from(contents.view), records.plan_from(contents.plan)
        policy = policy_built(json.loads(contents.policy), view.cluster)
        if not isinstance(policy, Astraea) or not _decides_alike(interval, contents, policy, view):
            return MoveCause.UNKNOWN, ()
    except REPLAY_ERRORS:  # verification reports such an interval
        return MoveCause.UNKNOWN, ()
    move = why_moved(policy, view, plan, number)
    return (MoveCause.UNKNOWN, ()) if move is None else (move.why, move.jobs)


def _decides_alike(interval: Interval, contents: Contents, policy: Policy, view: View) -> bool:
    """Return whether the rules of this version decide the interval as it was decided. Rules that decide otherwise may
    have other reasons."""
    if interval.code_version == code_version():
        return True
    return records.plan_bytes_like(contents.plan, policy.decide(view)) == contents.plan


def _because(why: MoveCause, jobs: Sequence[int]) -> str:
    others = f" (and {len(jobs) - 1} more)" if len(jobs) > 1 else ""
    have, have_a, come = ("are", "have", "came") if others else ("is", "has", "came")
    taker = f": your job J-{jobs[0]}{others}" if jobs else ""
    return {
        MoveCause.WORTH: f"{taker} {have} worth more for its size, and {have_a} that place now",
        MoveCause.PRIORITY: f"{taker} {have_a} a higher priority, and {have_a} that place now",
        MoveCause.EARLIER: f"{taker} {come} earlier and {have} worth as much for its size, and {have_a} that place now",
        MoveCause.BETTER: ": it has a place in which it ends earlier",
        MoveCause.CELLS: ": your cells as they are have no room for all that was planned before",
        MoveCause.PASSED: ": no interval was decided when what was planned should have started",
        MoveCause.UNKNOWN: "",
    }[why]
