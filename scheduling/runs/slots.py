"""Gangs that live through many awards of single slots: which one comes next, and whether one may still come."""

from __future__ import annotations

from scheduling.models import ALIVE, Award, JobState, Lane, LaneClock, Run, TrainingJob


def next_slot(run: Run) -> Award | None:
    """The job's award after the run's own, once it is decided."""
    later = Award.objects.filter(job=run.job_id, state__in=ALIVE, start__gt=run.award.start)
    return later.select_related("pool", "job").order_by("start").first()


def still_open(run: Run) -> bool:
    """Whether the slot after its award may still be given to the job: its boundary is not done. Until it is, or the
    gang's own end comes, nobody stops it."""
    award = run.award
    waits = TrainingJob.objects.filter(pk=run.job_id, state=JobState.RUNNING).exists()
    decided = LaneClock.objects.filter(pool=award.pool_id, lane=Lane.BATCH, decided_slot__gte=award.end).exists()
    return waits and not decided
