"""The cooling-off time: a job that the instant lane refused, or that was cancelled there, must wait before another try.

Otherwise it would cost nothing to submit it again and again until the price is better. Two jobs count as the same if
their specifications are equal apart from what the job is worth: a job with another value is another try of the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scheduling.models import JobState, Lane, Pool, TrainingJob
from tenants.access import Refused

WORTH = ("value", "max_price", "rent")  # fields that may differ between two tries of the same job


@dataclass(frozen=True)
class Cooling(Refused):
    """A refusal during the cooling-off time. The lane accepts the job again at `until`, which is `slots` slots away."""

    slots: int
    until: datetime


def cooling(pool: Pool, spec: Mapping[str, Any], at: datetime) -> Cooling | None:
    """Return why the tenant of the open scope must wait before it submits this job to the instant lane again, or None.
    It may use the batch lane meanwhile."""
    if not pool.instant_cooling_slots:
        return None
    length = timedelta(seconds=pool.instant_cooling_slots * pool.slot_seconds)
    tried = TrainingJob.objects.filter(
        pool=pool,
        lane=Lane.INSTANT,
        state__in=(JobState.REJECTED, JobState.CANCELLED),
        ended_at__gt=at - length,
        submitted_at__lte=at,
    )
    ends = [ended for ended, other in tried.values_list("ended_at", "spec") if _same(other, spec) and ended is not None]
    if not ends:
        return None
    until = max(ends) + length
    slots = -(-(until - at) // timedelta(seconds=pool.slot_seconds))
    sentence = f"The instant lane looks at this job again at {until:%H:%M:%S} UTC. The batch lane takes it now."
    return Cooling("cooling", sentence, slots, until)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _without_worth(one) == _without_worth(other)


def _without_worth(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in WORTH}
