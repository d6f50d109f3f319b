"""The pieces of a verification of everything, one after the other until the time is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError

from scheduling.models import OPEN_WORK, Award, Lane, Phase, VerificationRun, WorkState
from scheduling.services.moments import AUDIT_LOCK, alone, one_moment
from scheduling.services.verification.course import course_verify
from scheduling.services.verification.days import days_verify
from scheduling.services.verification.findings import Finding, differences
from scheduling.services.verification.money import money_verify
from scheduling.services.verification.runs import phase_after
from scheduling.services.verification.walk import Bounds, Walk, walk_end, walk_on
from tenants.ledger import audit
from tenants.scoping import scope_disabled

ROUND = timedelta(seconds=8)  # of one call: the process that verifies also moves the market
PIECE = timedelta(seconds=1)  # of intervals between two looks at the row
MOST_AWARDS = 200
MOST_FINDINGS = 200  # kept; all are counted

Clock = Callable[[], datetime]


@dataclass
class _Piece:
    """What a piece adds to its run."""

    steps: int = 0
    awards: int = 0
    findings: list[Finding] = field(default_factory=list)
    is_last: bool = False  # of its phase
    columns: dict[str, Any] = field(default_factory=dict)


def verification_round(*, clock: Clock) -> int:
    """Work on what was asked for, oldest first. Returns how many pieces were done; none where somebody is at it."""
    ends, pieces = clock() + ROUND, 0
    with alone(AUDIT_LOCK) as ours:
        while ours and clock() < ends:
            run = VerificationRun.objects.filter(state__in=OPEN_WORK).order_by("pk").first()
            if run is None:
                break
            verification_piece(run, clock=clock)
            pieces += 1
    return pieces


def verification_piece(run: VerificationRun, *, clock: Clock) -> bool:
    """One piece, kept in the run's row. False: the row went on without us. A piece that breaks ends its run."""
    try:
        with scope_disabled("a verification looks at everybody's awards and payments"):
            piece = _PIECES[run.phase](run, Bounds(**run.bounds), clock)
    except DatabaseError:  # the next tick goes on
        raise
    except Exception as error:
        what = f"it broke off after interval {run.number} ({type(error).__name__}: {error})"
        piece = _Piece(findings=[Finding(f"pool {run.pool_id}", what)])
        return _keep(run, piece, {"state": WorkState.FAILED, "ended_at": clock()}, clock())
    return _keep(run, piece, _what_follows(run, piece, clock()), clock())


def _what_follows(run: VerificationRun, piece: _Piece, at: datetime) -> dict[str, Any]:
    if not piece.is_last:
        return {"state": WorkState.RUNNING}
    phase = phase_after(run.phase)
    if phase is None:
        return {"state": WorkState.DONE, "done": run.total, "ended_at": at}
    return {"state": WorkState.RUNNING, "phase": phase}


def _keep(run: VerificationRun, piece: _Piece, follows: Mapping[str, Any], at: datetime) -> bool:
    """In one statement, if the row still is where the piece went on from."""
    room = max(MOST_FINDINGS - len(run.findings), 0)
    columns = {
        "done": min(run.done + piece.steps, run.total),
        "awards": run.awards + piece.awards,
        "differences": run.differences + len(piece.findings),
        "findings": [*run.findings, *([found.where, found.what] for found in piece.findings[:room])],
        "seen_at": at,
    }
    where_it_was = {"phase": run.phase, "number": run.number, "award_id": run.award_id, "done": run.done}
    rows = VerificationRun.objects.filter(pk=run.pk, state__in=OPEN_WORK, **where_it_was)
    return rows.update(**{**columns, **piece.columns, **follows}) == 1


def _intervals(run: VerificationRun, bounds: Bounds, clock: Clock) -> _Piece:
    walk = Walk(run.pool_id, run.number, run.digest, run.memory)
    ends, more = clock() + PIECE, True
    while more:
        with one_moment():
            more = walk_on(walk, bounds)
        if clock() >= ends:
            break
    columns = {"number": walk.number, "digest": walk.digest, "memory": walk.memory}
    return _Piece(walk.intervals, walk.awards, walk.findings, is_last=not more, columns=columns)


def _instant(run: VerificationRun, bounds: Bounds, clock: Clock) -> _Piece:
    """Awards that were made at once have no interval; they have terms, and the book follows them."""
    with one_moment():
        rows = Award.objects.filter(pool=run.pool_id, lane=Lane.INSTANT, pk__gt=run.award_id).order_by("pk")
        awards = list(rows[:MOST_AWARDS])
        found = [finding for award in awards for finding in _sums(award)]
        found += course_verify(awards, bounds.settled_slot)
        found += money_verify([award for award in awards if award.paid], bounds.settled_slot)
    last = awards[-1].pk if awards else run.award_id
    is_last = len(awards) < MOST_AWARDS
    return _Piece(len(awards), len(awards), found, is_last=is_last, columns={"award_id": last})


def _sums(award: Award) -> list[Finding]:
    charged = sum(amount for slot in award.charges for _, amount in slot)
    where = f"award {award.pk} of job {award.job_id}"
    return differences(where, {"the sum of its charges": (charged, award.paid)})


def _book(run: VerificationRun, bounds: Bounds, clock: Clock) -> _Piece:
    """The end of the chain, the sums by day, and everything in the ledger that is about no award."""
    walk = Walk(run.pool_id, run.number, run.digest, run.memory)
    with one_moment():
        walk_end(walk, bounds)
    book = [Finding(f"ledger, {found.culprit}", f"{found.check}: {found.detail}") for found in audit.verify().findings]
    return _Piece(1, 0, [*walk.findings, *days_verify(pool_ids=[run.pool_id]), *book], is_last=True)


_PIECES: Mapping[str, Callable[[VerificationRun, Bounds, Clock], _Piece]] = {
    str(Phase.INTERVALS): _intervals,
    str(Phase.INSTANT): _instant,
    str(Phase.BOOK): _book,
}
