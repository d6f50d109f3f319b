"""What the clock needs to know about runs when an award ends. It is kept apart from `runs`, which itself imports the
settlement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def not_heard_of(job_ids: Sequence[int]) -> set[int]:
    """Return those of these jobs whose time was over before an engine said how their programs ended. One whose program
    was done in the last moment will be finished."""
    if not job_ids:
        return set()
    open_runs = Run.objects.filter(job__in=job_ids, state__in=OPEN)
    stopped = open_runs.filter(job__state=JobState.STOPPED, job__reason_code=RESERVATION_ENDED)
    return set(stopped.values_list("job_id", flat=True))
