"""A walk in pieces. Each piece is worked out without writing anything, and then kept in one statement that names the
place where it began. So two processes with the same piece keep it once, and a walk that was cancelled meanwhile stays
cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from django.db import DatabaseError

from scheduling.audit.verification.answers import AnswerWalk, answers_walk, without_answer
from scheduling.audit.verification.archived import Archives
from scheduling.audit.verification.course import course_verify, sums_differ
from scheduling.audit.verification.days import days_on
from scheduling.audit.verification.ends import ends_verify
from scheduling.audit.verification.feed import feed_beside, feed_walk, feed_walk_from
from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.audit.verification.money import money_verify
from scheduling.audit.verification.runs import phase_after
from scheduling.audit.verification.settings import settings_verify
from scheduling.audit.verification.standing import noted_verify, rules_verify
from scheduling.audit.verification.walk import Walk, WalkBounds, walk_end, walk_on
from scheduling.common import one_moment
from scheduling.market.decide import FEED, START, answers_name
from scheduling.models import (
    OPEN_WORK,
    Award,
    FeedSeal,
    InstantAnswer,
    Lane,
    Phase,
    Pool,
    TrainingJob,
    VerificationRun,
    WorkState,
)
from tenants import history, rights_audit
from tenants.ledger import audit
from tenants.scoping import scope_disabled

LONG = timedelta(seconds=1)  # after so long a piece reads nothing more
TOO_LONG = timedelta(seconds=5)  # after so long it leaves even the rest of what it has read
MOST_AWARDS, MOST_ANSWERS, MOST_JOBS = 200, 100, 500
MOST_FINDINGS = 200  # so many are kept; all are counted
MOST_TRIES = 5  # of one piece, by processes that ended while they worked at it

Clock = Callable[[], datetime]


@dataclass
class VerifiedPiece:
    """The figures and findings that a piece adds to its run."""

    steps: int = 0
    intervals: int = 0
    awards: int = 0
    findings: list[Finding] = field(default_factory=list)
    is_last: bool = False  # whether it is the last piece of its phase
    columns: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadingLimits:
    """The limits of a piece: once `enough` holds, it reads nothing more; once `too_long` holds, it leaves even what it
    has read. `progress` is called after each interval."""

    enough: Callable[[], bool] = lambda: False
    too_long: Callable[[], bool] = lambda: False
    progress: Callable[[], None] = lambda: None


def piece_next(run: VerificationRun, limits: ReadingLimits, archives: Archives | None = None) -> VerifiedPiece:
    """Verify the next steps, as many as the limits allow, and one at least. This only reads. `archives` has old
    intervals, where they are at hand."""
    with scope_disabled("a verification looks at everybody's awards and payments"):
        if run.phase == Phase.INTERVALS:
            return _intervals(run, limits, archives)
        return _PIECES[run.phase](run, limits)


def columns_after(run: VerificationRun, piece: VerifiedPiece) -> dict[str, Any]:
    """Return the run's columns as they are after the piece."""
    room = max(MOST_FINDINGS - len(run.findings), 0)
    columns = {
        "state": WorkState.RUNNING,
        "done": min(run.done + piece.steps, run.total),
        "intervals": run.intervals + piece.intervals,
        "awards": run.awards + piece.awards,
        "differences": run.differences + len(piece.findings),
        "findings": [*run.findings, *([finding.where, finding.what] for finding in piece.findings[:room])],
        "tries": 0,
        **piece.columns,
    }
    if not piece.is_last:
        return columns
    phase = phase_after(run.phase)
    return columns | ({"state": WorkState.DONE, "done": run.total} if phase is None else {"phase": phase})


def verification_piece(run: VerificationRun, *, clock: Clock) -> bool:
    """Do one piece, and keep it in the run's row. Return False where another process moved the row on. A piece that
    breaks ends its run."""
    rows = VerificationRun.objects.filter(pk=run.pk, state__in=OPEN_WORK)
    if not rows.filter(tries=run.tries).update(tries=run.tries + 1):
        return False
    began = clock()
    limits = ReadingLimits(lambda: clock() >= began + LONG, lambda: clock() >= began + TOO_LONG)
    try:
        if run.tries >= MOST_TRIES:
            return _give_up(run, f"{MOST_TRIES} processes ended over what comes next", clock())
        piece = piece_next(run, limits)
    except DatabaseError:  # the next tick tries again
        raise
    except Exception as error:
        return _give_up(run, f"{type(error).__name__}: {error}", clock())
    columns = columns_after(run, piece)
    return _keep(run, columns | ({"ended_at": clock()} if columns["state"] == WorkState.DONE else {}), clock())


def _give_up(run: VerificationRun, why: str, at: datetime) -> bool:
    findings = [Finding(str(run), f"it broke off in {run.phase} after {run.number} ({why})")]
    columns = columns_after(run, VerifiedPiece(findings=findings))
    return _keep(run, columns | {"state": WorkState.FAILED, "ended_at": at}, at)


def _keep(run: VerificationRun, columns: Mapping[str, Any], at: datetime) -> bool:
    """Write the columns in one statement, if the row is still where the piece began."""
    where_it_was = {"phase": run.phase, "number": run.number, "award_id": run.award_id, "day": run.day}
    where_it_was |= {"answer_number": run.answer_number, "job_id": run.job_id}
    rows = VerificationRun.objects.filter(pk=run.pk, state__in=OPEN_WORK, done=run.done, **where_it_was)
    return rows.update(**columns, seen_at=at) == 1


def _intervals(run: VerificationRun, limits: ReadingLimits, archives: Archives | None) -> VerifiedPiece:
    walk, bounds = Walk(run.pool_id or 0, run.number, run.digest, run.memory), WalkBounds(**run.bounds)
    more = True
    while more:
        with one_moment():
            more = walk_on(walk, bounds, archives=archives, too_long=limits.too_long, progress=limits.progress)
        if limits.enough():
            break
    columns = {"number": walk.number, "digest": walk.digest, "memory": walk.memory}
    return VerifiedPiece(walk.intervals, walk.intervals, walk.awards, walk.findings, is_last=not more, columns=columns)


def _answers(run: VerificationRun, limits: ReadingLimits) -> VerifiedPiece:
    bounds = WalkBounds(**run.bounds)
    walk, more = AnswerWalk(run.pool_id or 0, run.answer_number, run.answer_digest or START), True
    while more:
        with one_moment():
            more = answers_walk(walk, upto=bounds.answers, most=MOST_ANSWERS)
        if limits.enough():
            break
    if not more:
        where, links = f"pool {walk.pool_id}", InstantAnswer.objects.filter(pool=walk.pool_id)
        walk.findings += differences(where, {"the last digest of its answers": (walk.digest, bounds.answers_head)})
        walk.findings += noted_verify(answers_name(walk.pool_id), links, lambda number: f"answer {number} of {where}")
    columns = {"answer_number": walk.number, "answer_digest": walk.digest}
    return VerifiedPiece(walk.answers, findings=walk.findings, is_last=not more, columns=columns)


def _instant(run: VerificationRun, limits: ReadingLimits) -> VerifiedPiece:
    """Verify awards of the instant lane: each has its answer and terms that add up, and the book follows them."""
    bounds, piece = WalkBounds(**run.bounds), VerifiedPiece(columns={"award_id": run.award_id})
    while not piece.is_last:
        with one_moment():
            rows = Award.objects.filter(pool=run.pool_id, lane=Lane.INSTANT, pk__gt=piece.columns["award_id"])
            awards = list(rows.order_by("pk")[:MOST_AWARDS])
            piece.findings += [finding for award in awards for finding in sums_differ(award)]
            piece.findings += without_answer(awards)
            piece.findings += course_verify(awards, bounds.settled_slot)
            piece.findings += money_verify([award for award in awards if award.paid], bounds.settled_slot)
        piece.steps, piece.awards = piece.steps + len(awards), piece.awards + len(awards)
        piece.columns = {"award_id": awards[-1].pk if awards else piece.columns["award_id"]}
        piece.is_last = len(awards) < MOST_AWARDS
        if limits.enough():
            break
    return piece


def _jobs(run: VerificationRun, limits: ReadingLimits) -> VerifiedPiece:
    piece, pool = VerifiedPiece(columns={"job_id": run.job_id}), Pool.objects.get(pk=run.pool_id or 0)
    while not piece.is_last:
        with one_moment():
            rows = TrainingJob.objects.filter(pool=pool, pk__gt=piece.columns["job_id"])
            jobs = list(rows.order_by("pk")[:MOST_JOBS])
            piece.findings += jobs_verify(pool, jobs)
        piece.steps += len(jobs)
        piece.columns = {"job_id": jobs[-1].pk if jobs else piece.columns["job_id"]}
        piece.is_last = len(jobs) < MOST_JOBS
        if limits.enough():
            break
    return piece


def _end(run: VerificationRun, limits: ReadingLimits) -> VerifiedPiece:
    walk = Walk(run.pool_id or 0, run.number, run.digest, run.memory)
    with one_moment():
        walk_end(walk, WalkBounds(**run.bounds))
        walk.findings += ends_verify(walk.pool_id)
    return VerifiedPiece(1, findings=walk.findings, is_last=True)


def _days(run: VerificationRun, limits: ReadingLimits) -> VerifiedPiece:
    days = days_on(run.pool_id or 0, after=run.day or date.min, enough=limits.enough)
    return VerifiedPiece(days.days, findings=list(days.findings), is_last=days.is_last, columns={"day": days.last})


def _book(run: VerificationRun, limits: ReadingLimits) -> VerifiedPiece:
    """Verify what belongs to no single pool: the whole ledger, the history, who may do what, the rules that keep what
    walks over pools read, and what was set."""
    steps: list[Callable[[], Iterable[Finding]]] = [
        partial(_ledger, each) for each in audit.steps(run.bounds["newest"])
    ]
    steps += [_history, _rights, rules_verify, settings_verify]
    place, findings = run.number, list[Finding]()
    while place < len(steps):
        findings += steps[place]()
        place += 1
        if limits.enough():
            break
    is_last = place >= len(steps)
    columns = {"number": 0 if is_last else place}  # the feed's phase counts its seals from 0
    return VerifiedPiece(place - run.number, findings=findings, is_last=is_last, columns=columns)


def _feed(run: VerificationRun, limits: ReadingLimits) -> VerifiedPiece:
    """Verify events under their seals. The run's `number` is that of the last seal that was done."""
    walk, steps, more = feed_walk_from(run.number), 0, True
    while more:
        with one_moment():
            more = feed_walk(walk, upto=run.bounds.get("seals", 0))
        steps += more
        if limits.enough():
            break
    if not more:
        walk.findings += feed_beside()
        walk.findings += noted_verify(FEED, FeedSeal.objects.all(), lambda number: f"seal {number} of the feed")
    columns = {"number": walk.number, "digest": walk.digest}
    return VerifiedPiece(steps, findings=walk.findings, is_last=not more, columns=columns)


def _ledger(step: audit.Step) -> Iterable[Finding]:
    return [Finding(f"ledger, {finding.culprit}", f"{finding.check}: {finding.detail}") for finding in step()]


def _history() -> Iterable[Finding]:
    verdict = history.verify()
    return (
        []
        if isinstance(verdict, history.VerifiedHistory)
        else [Finding("the history", str(flaw)) for flaw in verdict.findings]
    )


def _rights() -> Iterable[Finding]:
    return [Finding("rights", str(flaw)) for flaw in rights_audit.verify()]


_PIECES: Mapping[str, Callable[[VerificationRun, ReadingLimits], VerifiedPiece]] = {
    str(Phase.ANSWERS): _answers,
    str(Phase.INSTANT): _instant,
    str(Phase.JOBS): _jobs,
    str(Phase.END): _end,
    str(Phase.DAYS): _days,
    str(Phase.BOOK): _book,
    str(Phase.FEED): _feed,
}
