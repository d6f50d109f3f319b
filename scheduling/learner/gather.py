"""Read what a step of a learner needs from rows: the pool's stored slots, the weights in use, and how far it is.

This takes no lock: the code that applies a step checks again whether it is still the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.core import records
from scheduling.core.scenario import Scenario
from scheduling.core.training.own_slots import WINDOW, end_of, scenario_of
from scheduling.core.types import View
from scheduling.learner.read_learner import InUse, in_use_of, next_slot_of
from scheduling.market.reads import Contents, contents_of
from scheduling.models import CandidateState, Interval, Pool, PoolLearner, WeightsCandidate

MOST_WINDOWS = 40  # of the newest slots
MOST_SHADOWS = 100  # slots that are decided in shadow in one step


@dataclass(frozen=True, eq=False)
class Work:
    """A step's input. `in_use` is None where the pool's weights are of no use to this version of the program."""

    learner: PoolLearner
    pool: Pool
    in_use: InUse | None
    next_slot: int  # the first that is not decided
    candidate: WeightsCandidate | None  # the one that is open, if any


def work_of(pool_id: int) -> Work | None:
    """Return the input of a step; None if the pool has no learner, or the learner is switched off."""
    learner = PoolLearner.objects.select_related("pool").filter(pool=pool_id, is_on=True).first()
    if learner is None:
        return None
    next_slot = next_slot_of(learner.pool)
    return Work(learner, learner.pool, in_use_of(learner.pool, next_slot), next_slot, candidate_open(learner.pool))


def candidate_open(pool: Pool) -> WeightsCandidate | None:
    """Return the open candidate; there is one at a time."""
    states = (CandidateState.SHADOW, CandidateState.OFFERED)
    return WeightsCandidate.objects.filter(pool=pool, state__in=states).select_related("weights").first()


def shadows_due(candidate: WeightsCandidate) -> Iterator[Contents]:
    """Yield the contents of the pool's intervals with waiting jobs that the candidate has not decided yet, the oldest
    first. Those that lie in an archive are left out."""
    last = candidate.slots.order_by("-slot").values_list("slot", flat=True).first()
    after = candidate.from_slot - 1 if last is None else last
    due = Interval.objects.filter(pool=candidate.pool_id, slot__gt=after, jobs_waiting__gt=0)
    here = due.exclude(view=b"").order_by("slot").prefetch_related("base")
    for interval in here[:MOST_SHADOWS].iterator(chunk_size=10):
        yield contents_of(interval)


def windows_of(pool: Pool, next_slot: int, wanted: str) -> list[Scenario]:
    """Return the newest whole windows that serve this end, the oldest first. One that lies in an archive, or a part of
    it, is left out."""
    last = next_slot // WINDOW  # the window under way
    numbers = [number for number in range(max(0, last - MOST_WINDOWS), last) if end_of(number) == wanted]
    scenarios = (scenario_of(_views(pool, number), number) for number in numbers)
    return [scenario for scenario in scenarios if scenario is not None]


def _views(pool: Pool, window: int) -> list[View]:
    """Return the views of a window's slots, none where one of them lies in an archive."""
    first = window * WINDOW
    rows = Interval.objects.filter(pool=pool, slot__gte=first, slot__lt=first + WINDOW).order_by("slot")
    intervals = list(rows.prefetch_related("base"))
    if any(interval.is_archived for interval in intervals):
        return []
    return [records.view_from(contents_of(interval).view) for interval in intervals]


def digest_of(content: bytes) -> str:
    """Return the digest of a file of weights."""
    return hashlib.sha256(content).hexdigest()
