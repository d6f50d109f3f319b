"""What the clock needs to know about runs when an award ends. It is kept apart from `runs`, which itself imports the
settlement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q

from scheduling.models import JobState, Run, RunState
from scheduling.models.runs import OPEN

RESERVATION_ENDED = "reservation_ended"


def unfinished(award_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Map each job of these awards whose program did not do all of its work to how far the program came."""
    if not award_ids:
        return {}
    last = {run.award_id: run for run in Run.objects.filter(award__in=award_ids).order_by("number")}
    return {
        run.job_id: {name: run.progress.get(name, 0) for name in ("epoch", "epochs")}
        for run in last.values()
        if run.state != RunState.FINISHED
    }


def not_heard_of() -> Q:
    """Return a condition on jobs: their time was over before an engine said how their programs ended. One whose program
    was done in the last moment will be finished.

    It is asked together with the jobs' states. Asked after them, it would miss a job that is finished in between.
    """
    open_runs = Run.objects.filter(job=OuterRef("pk"), state__in=OPEN)
    return Q(state=JobState.STOPPED, reason_code=RESERVATION_ENDED) & Q(Exists(open_runs))
