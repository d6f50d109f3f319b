"""What the clock needs to know about runs when an award ends. It is kept apart from `runs`, which itself imports the
settlement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduling.models import Run, RunState

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
