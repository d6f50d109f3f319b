"""The engine is silent: awards that it should be running are told as failed before their slot is paid for."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduling.models import Award, Lane, LaneClock, Pool, Run, RunState
from scheduling.models.runs import OPEN
from scheduling.services.failures import award_fail
from scheduling.services.run_plans import end_slot
from scheduling.services.settlement import ALIVE
from scheduling.snapshots.specs import PROGRAM
from tenants.scoping import scope_disabled

PATIENCE = timedelta(seconds=20)  # without a look of the engine
PAUSE = timedelta(seconds=60)  # after a stop of the market, until gangs go on
SILENT = "the engine is silent"


def runs_watch(*, pool: Pool, at: datetime) -> int:
    """How many awards were failed. `at` is now: an engine is no part of the market's own time."""
    with scope_disabled("the engine may be silent for any tenant"):
        first = _first_unsettled(pool)
        running = Award.objects.filter(
            pool=pool, state__in=ALIVE, start__lte=pool.slot_at(at), end__gt=first, job__spec__has_key=PROGRAM
        )
        awards = [award for award in running.select_related("pool") if end_slot(award) > first]
        runs = {
            run.award_id: run for run in Run.objects.filter(award__in=awards).order_by("number")
        }  # the last of each
        late = [award for award in awards if _is_late(award, runs.get(award.pk), at)]
        for award in late:
            award_fail(award_id=award.pk, slot=_undelivered(award, runs.get(award.pk)), detail=SILENT, at=at)
    return len(late)


def _first_unsettled(pool: Pool) -> int:
    settled = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).values_list("settled_slot", flat=True).first()
    return 0 if settled is None else settled + 1


def _undelivered(award: Award, run: Run | None) -> int:
    """The first slot of which nobody knows that anything ran in it to its end."""
    return award.start if run is None else max(award.start, award.pool.slot_at(run.seen_at))


def _is_late(award: Award, run: Run | None, at: datetime) -> bool:
    if run is None:
        return at - max(award.pool.slot_start(award.start), award.awarded_at) > PATIENCE
    if run.state == RunState.PAUSED:
        return at - run.seen_at > PAUSE
    return run.state in OPEN and at - run.seen_at > PATIENCE
