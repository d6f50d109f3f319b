"""The engine is silent: awards that it should be running are told as failed before their slot is paid for."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery

from scheduling.models import Award, Lane, LaneClock, Pool, Run, RunState
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
        last = Run.objects.filter(award=OuterRef("pk")).order_by("-number")
        first = _first_unsettled(pool)
        running = Award.objects.filter(
            pool=pool, state__in=ALIVE, start__lte=pool.slot_at(at), end__gt=first, job__spec__has_key=PROGRAM
        )
        rows = list(
            running.annotate(
                run_state=Subquery(last.values("state")[:1]), seen_at=Subquery(last.values("seen_at")[:1])
            ).select_related("pool")
        )
        late = [award for award in rows if end_slot(award) > first and _is_late(award, at)]
        for award in late:
            award_fail(award_id=award.pk, slot=_undelivered(award), detail=SILENT, at=at)
    return len(late)


def _first_unsettled(pool: Pool) -> int:
    settled = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).values_list("settled_slot", flat=True).first()
    return 0 if settled is None else settled + 1


def _undelivered(award: Award) -> int:
    """The first slot of which nobody knows that anything ran in it to its end."""
    seen_at = award.seen_at  # type: ignore[attr-defined]  annotated above
    return award.start if seen_at is None else max(award.start, award.pool.slot_at(seen_at))


def _is_late(award: Award, at: datetime) -> bool:
    state, seen_at = award.run_state, award.seen_at  # type: ignore[attr-defined]  annotated above
    if state is None:
        return at - max(award.pool.slot_start(award.start), award.awarded_at) > PATIENCE
    if state == RunState.PAUSED:
        return bool(at - seen_at > PAUSE)
    return state in (RunState.STARTING, RunState.RUNNING) and at - seen_at > PATIENCE
