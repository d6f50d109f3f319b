"""What the clock asks about runs when an award ends. Apart from `runs`, which stands on settlement itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduling.models import Run, RunState

RESERVATION_ENDED = "reservation_ended"


def unfinished(award_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Of these awards, the jobs whose program did not do all of its work: job -> how far it came."""
    if not award_ids:
        return {}
    last = {run.award_id: run for run in Run.objects.filter(award__in=award_ids).order_by("number")}
    return {
        run.job_id: {name: run.progress.get(name, 0) for name in ("epoch", "epochs")}
        for run in last.values()
        if run.state != RunState.FINISHED
    }
