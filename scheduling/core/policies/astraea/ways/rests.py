"""What is left of divisible jobs that wait, and what it is worth to their owners without buying (D2-D4, D10).

A job that is `divisible` may be saved and continue later, on other servers. The world in which its owner is alone does
not know of pieces (D2): its home schedule begins when it would have begun anyway, and only gets shorter (D3).
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from scheduling.core.policies.astraea.ways.candidates import Candidates, candidates
from scheduling.core.speed import booked_rate, ceiling
from scheduling.core.types import Cluster, Floor, Job, View

RESIDUE = 1e-6  # mini-batches that the rounding of sums of floats may leave over


@dataclass(frozen=True)
class Rest:
    """What is left of a divisible job that waits."""

    job: Job
    work: int  # mini-batches left, at least one
    paid: float = 0.0  # credits for pieces so far, less refunds
    worth: float | None = None  # credits that the part done is worth to its owner; None: its plan at home decides (D4)

    @property
    def is_whole(self) -> bool:
        return self.work >= self.job.work

    @property
    def share_done(self) -> float:
        return 1.0 - self.work / self.job.work

    def ways(self, cluster: Cluster, *, exact: bool) -> Candidates:
        """Return the ways to finish it."""
        return candidates(self.job, cluster, exact=exact, work=self.work)

    def after(self, work: int, paid: float, worth: float | None) -> Rest:
        """Return the rest after a piece that does `work` mini-batches for `paid` credits."""
        return replace(self, work=self.work - work, paid=self.paid + paid, worth=worth)


def rests_of(view: View) -> dict[int, Rest]:
    """Return the rests of the divisible jobs that wait, by number."""
    amounts = view.remaining.tolist()
    return {
        job.number: Rest(job, math.ceil(amount - RESIDUE), view.paid.get(job.number, 0.0), view.worths.get(job.number))
        for job, amount in zip(view.waiting, amounts, strict=True)
        if job.divisible
    }


def kept_at_home(floor: Floor | None) -> bool:
    """Return whether a job will be done at home whatever happens: it has a schedule there that is not a projection."""
    return floor is not None and bool(floor.allocation) and not floor.draft


def worth_nothing(rests: Mapping[int, Rest], unfinished: Container[int]) -> dict[int, Rest]:
    """Return the rests, with no worth for the `unfinished` jobs: these will never be finished, so that what is done of
    them is worth nothing (D10)."""
    return {number: replace(rest, worth=None) if number in unfinished else rest for number, rest in rests.items()}


def end_at_home(cluster: Cluster, floor: Floor, rest: Rest) -> int:
    """Return the end slot of the rest at home, by the schedule's own start, servers and workers: no later than it was
    (D3)."""
    if rest.is_whole:
        return floor.end
    return min(floor.end, floor.start + _slots_at_home(cluster, floor, rest.job, rest.work))


def _slots_at_home(cluster: Cluster, floor: Floor, job: Job, work: int) -> int:
    return max(1, ceiling(work / minibatches_at_home(cluster, floor, job)))


def minibatches_at_home(cluster: Cluster, floor: Floor, job: Job) -> float:
    """Return the mini-batches that the gang of a home schedule does in a slot."""
    workers = sum(row.workers for row in floor.allocation)
    types = floor.worker_type, floor.ps_type
    return workers * booked_rate(job, cluster, types, workers, centralized=len(floor.allocation) == 1)


def standing(cluster: Cluster, rest: Rest, floor: Floor | None) -> float:
    """Return what a job that waits has without buying: the credits that the next piece must beat (D4).

    With no schedule at home that is its stored worth, which `with_worth` has worked out.
    """
    if floor is None or not floor.allocation:
        return rest.worth or 0.0
    at_home = float(rest.job.value(end_at_home(cluster, floor, rest) - rest.job.arrival))
    return max(at_home, rest.worth or 0.0) if floor.draft else at_home


def with_worth(cluster: Cluster, rest: Rest, floor: Floor | None, slot: int, *, exact: bool) -> Rest:
    """Return the rest with the worth that holds from the boundary at `slot` on.

    Where nothing is planned at home and no worth is stored, that is the share of the job that is done, times the value
    of finishing it at once (D4).
    """
    if rest.is_whole or rest.worth is not None or (floor is not None and floor.allocation):
        return rest
    end = slot + rest.ways(cluster, exact=exact).shortest
    return replace(rest, worth=rest.share_done * max(0.0, float(rest.job.value(end - rest.job.arrival))))


def stands_still(cluster: Cluster, rest: Rest, floor: Floor | None, slot: int, *, exact: bool) -> float | None:
    """Return what finishing from `slot` on would be worth, if the job stands still, else None.

    It stands still where finishing is worth no more than what is saved: then no piece is ever bought again.
    """
    if rest.is_whole or (floor is not None and floor.allocation):
        return None
    end = slot + rest.ways(cluster, exact=exact).shortest
    finishing = float(rest.job.value(end - rest.job.arrival))
    return finishing if finishing <= (rest.worth or 0.0) else None


def worths_changed(view: View, rests: Mapping[int, Rest]) -> dict[int, float | None]:
    """Return, by job, the worths of jobs that were begun, where they differ from those in the view."""
    return {
        number: rest.worth
        for number, rest in rests.items()
        if not rest.is_whole and rest.worth != view.worths.get(number)
    }
