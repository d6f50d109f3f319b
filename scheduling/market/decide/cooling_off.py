"""A job that the instant lane refused, or that was taken back, is not tried there again at once.

Waiting for a better price by asking again and again would cost nothing otherwise. The same job is one that says the
same apart from what it is worth: another value is another try, not another job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scheduling.models import JobState, Lane, Pool, TrainingJob
from tenants.access import Refused

WORTH = ("value", "max_price", "rent")  # what a tenant may vary from one try to the next


@dataclass(frozen=True)
class Cooling(Refused):
    """`slots`: how many are left until the lane looks at the job again, at `until`."""

    slots: int
    until: datetime


def cooling(pool: Pool, spec: Mapping[str, Any], at: datetime) -> Cooling | None:
    """Why the open tenant must wait with this job. It may ask the batch lane meanwhile."""
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
