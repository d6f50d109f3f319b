"""Note the end of a gang once, and decide what follows for the job, the award and the money."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Q

from scheduling.core.types import OWN, SHARED
from scheduling.engines.base import FAILED, FINISHED, LOST, PAUSED, STOPPED, Status
from scheduling.market.calendar import lane_lock
from scheduling.market.view import PiecesInVain, SpecReader, floors_standing, pieces_in_vain
from scheduling.models import ALIVE, Award, AwardState, JobState, Lane, RentState, Run, RunState
from scheduling.models.runs import OPEN
from scheduling.runs.early_ends import NO_PROGRESS, job_end_early
from scheduling.runs.failures import award_fail

PROGRAM_FAILED = "program_failed"
PROGRESS = ("epoch", "epochs")  # the numbers of its progress that say how far it came
STATES = {
    FINISHED: RunState.FINISHED,
    STOPPED: RunState.STOPPED,
    PAUSED: RunState.PAUSED,
    FAILED: RunState.FAILED,
    LOST: RunState.LOST,
}
log = structlog.stdlib.get_logger(__name__)


@transaction.atomic
def run_end(*, run: Run, status: Status, at: datetime) -> bool:
    """Note how a run ended, and what follows. Return False if it was noted before. Needs every tenant's scope.

    If the platform is at fault, what was not delivered is refunded, and the job waits again. If the program is at fault
    or ended before its time, what was reserved is paid. If its time was over, the clock decides what that means, but a
    job whose pieces bring it no further rents no more.
    A gang that is lost after its award was taken back is no loss, as its server may be gone. One whose award is over is
    a loss: the engine waited for a sign of it while the clock went on.
    """
    back = Award.objects.filter(pk=run.award_id, state__in=(AwardState.VOID, AwardState.ENDED))
    taken_back = status.end == LOST and back.exists()
    moved = Run.objects.filter(pk=run.pk, state__in=OPEN).update(
        state=RunState.STOPPED if taken_back else STATES[status.end],
        started_at=_moment(status.started_at),
        ended_at=_moment(status.ended_at) or at,
        exit_code=status.exit_code,
        detail=status.detail[:200],
        progress=dict(status.progress),
        restarts=status.restarts,
        delivered=[[each.server, each.began, each.ended] for each in status.delivered],
        seen_at=at,
    )
    if not moved:
        return False
    log.info("end", id=f"run job {run.job_id}", run=run.key, award=run.award_id, how=status.end, detail=status.detail)
    if status.end == FINISHED:
        job_end_early(award_id=run.award_id, state=JobState.FINISHED, code="", numbers={}, at=at)
    elif status.end == FAILED:
        numbers = {"detail": status.detail[:200]} | {n: status.progress[n] for n in PROGRESS if n in status.progress}
        numbers["reserved"] = run.award.paid - run.award.returned
        job_end_early(award_id=run.award_id, state=JobState.FAILED, code=PROGRAM_FAILED, numbers=numbers, at=at)
    elif status.end == LOST:  # also if its award was taken back: the gang may have been gone before that
        slot, began = run.award.pool.slot_at(_moment(status.ended_at) or at), _moment(status.started_at)
        if run.number == 0 and (began is None or run.award.pool.slot_at(began) > run.award.start):
            slot = run.award.start  # nothing of the award ran in it, so it is not paid, unless it was already
        award_fail(award_id=run.award_id, slot=slot, detail=status.detail, at=at, losses=losses_in_a_row(run.job_id))
    elif status.end == STOPPED and (in_vain := _too_many_in_vain(run)):
        numbers = {"pieces": in_vain.pieces, "done": in_vain.done / in_vain.whole}
        job_end_early(award_id=run.award_id, state=JobState.STOPPED, code=NO_PROGRESS, numbers=numbers, at=at)
    return True


def _too_many_in_vain(run: Run) -> PiecesInVain | None:
    """Return the last pieces of the job of a run whose time was over, if they brought it no further and are too many.

    A job that is promised a place at home, or is there, keeps it: it is never worse off than alone. While a rent of the
    job is open, nothing that it pays is final, and what its program reports ends nothing.
    """
    if run.award.work is None or run.award.phase != SHARED:
        return None
    in_vain = pieces_in_vain([run.job_id]).get(run.job_id)
    if in_vain is None or not in_vain.are_too_many(SpecReader(run.award.pool).read(run.job)):
        return None
    lane_lock(pool_id=run.award.pool_id, lane=Lane.BATCH)  # no interval promises it a place while we look
    keeps = Q(phase=OWN, state__in=ALIVE) | Q(rent=RentState.OPEN)
    promised = floors_standing(run.award.pool_id, Q(job=run.job_id)).values()
    if any(floor.allocation for floor in promised) or Award.objects.filter(keeps, job=run.job_id).exists():
        return None
    return in_vain


def losses_in_a_row(job_id: int) -> int:
    """Return how often in a row the platform lost this job, without an epoch (or a step) more than it had before.

    Of a program that reports nothing it is known only how long it ran: its row of losses ends with a run that was not
    lost and took longer than each that was."""
    losses, farthest, longest_lost = 0, 0, timedelta()
    rows = Run.objects.filter(job=job_id).order_by("pk").values_list("state", "progress", "started_at", "ended_at")
    for state, progress, started_at, ended_at in rows:
        numbers = progress.get("numbers", progress)
        epoch = numbers.get("epoch", numbers.get("step", 0))
        lasted = ended_at - started_at if started_at and ended_at else timedelta()
        outlasts = not farthest and state != RunState.LOST and lasted > longest_lost
        if epoch > farthest or outlasts:
            losses, longest_lost = 0, timedelta()
        if state == RunState.LOST:
            losses, longest_lost = losses + 1, max(longest_lost, lasted)
        farthest = max(farthest, epoch)
    return losses


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
