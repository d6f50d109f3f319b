"""Gangs that run through many awards of single slots: find their next award, or whether one may still come."""

from __future__ import annotations

from scheduling.models import ALIVE, Award, JobState, Lane, LaneClock, Run, TrainingJob


def next_slot(run: Run) -> Award | None:
    """Return the job's next award after the run's own, once it is decided. None means that there will be none only if
    `still_open` was asked before, and said no."""
    later = Award.objects.filter(job=run.job_id, state__in=ALIVE, start__gt=run.award.start)
    return later.select_related("pool", "job").order_by("start").first()


def still_open(run: Run) -> bool:
    """Return whether the job may still get the slot after its award, as its boundary is not decided. Until then, or
    until the gang's own end, it is not stopped."""
    award = run.award
    waits = TrainingJob.objects.filter(pk=run.job_id, state=JobState.RUNNING).exists()
    decided = LaneClock.objects.filter(pool=award.pool_id, lane=Lane.BATCH, decided_slot__gte=award.end).exists()
    return waits and not decided
