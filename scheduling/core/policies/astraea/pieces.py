"""Long jobs rent in pieces: what is left of a job that was begun, and the parts of it that a window may sell (D1-D8).

A job that is `divisible` may be saved and go on later, elsewhere. The world in which its owner is alone does not know
of pieces (D2): its home schedule begins when it would have begun anyway, and only gets shorter (D3).
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.policies.astraea.candidates import (
    Candidates,
    Gangs,
    IntArray,
    candidates,
    ceilings,
    gangs_of,
    limit_of_ps,
)
from scheduling.core.policies.astraea.terms import AllTerms
from scheduling.core.speed import TOLERANCE, booked_rate, ceiling
from scheduling.core.types import BoolArray, Cluster, FloatArray, Floor, Job, View

LEFT = 1e-6  # mini-batches: what sums of floats may leave over


@dataclass(frozen=True)
class Rest:
    """What is left of a divisible job that waits."""

    job: Job
    work: int  # mini-batches left, at least one
    paid: float = 0.0  # credits for pieces so far, less what came back
    worth: float | None = None  # credits that what is done is worth to its owner; None: its plan at home says (D4)

    @property
    def is_whole(self) -> bool:
        return self.work >= self.job.work

    @property
    def share_done(self) -> float:
        return 1.0 - self.work / self.job.work

    def ways(self, cluster: Cluster, *, exact: bool) -> Candidates:
        """The ways to finish it."""
        return candidates(self.job, cluster, exact=exact, work=self.work)

    def after(self, work: int, paid: float, worth: float | None) -> Rest:
        """The rest when a piece has done so many mini-batches for so many credits."""
        return replace(self, work=self.work - work, paid=self.paid + paid, worth=worth)


def rests(view: View) -> dict[int, Rest]:
    """Of the divisible jobs that wait, by number."""
    left = view.remaining.tolist()
    return {
        job.number: Rest(job, math.ceil(amount - LEFT), view.paid.get(job.number, 0.0), view.worths.get(job.number))
        for job, amount in zip(view.waiting, left, strict=True)
        if job.divisible
    }


def kept_at_home(floor: Floor | None) -> bool:
    """Whether a job will be done at home whatever happens: it has a schedule there, and that is no projection."""
    return floor is not None and bool(floor.allocation) and not floor.draft


def worth_nothing(rests: Mapping[int, Rest], unfinished: Container[int]) -> dict[int, Rest]:
    """The rests, where what is done of these jobs is worth nothing, for they will never be finished (D10)."""
    return {number: replace(rest, worth=None) if number in unfinished else rest for number, rest in rests.items()}


def end_at_home(cluster: Cluster, floor: Floor, rest: Rest) -> int:
    """When the rest is done at home: the schedule's own start, servers and workers, and no later an end (D3)."""
    if rest.is_whole:
        return floor.end
    return min(floor.end, floor.start + _slots_at_home(cluster, floor, rest.job, rest.work))


def _slots_at_home(cluster: Cluster, floor: Floor, job: Job, work: int) -> int:
    return max(1, ceiling(work / minibatches_at_home(cluster, floor, job)))


def minibatches_at_home(cluster: Cluster, floor: Floor, job: Job) -> float:
    """That the gang of a home schedule does in a slot."""
    workers = sum(row.workers for row in floor.allocation)
    types = floor.worker_type, floor.ps_type
    return workers * booked_rate(job, cluster, types, workers, centralized=len(floor.allocation) == 1)


def standing(cluster: Cluster, rest: Rest, floor: Floor | None) -> float:
    """What a job that waits has without buying: credits that the next piece must beat (D4). With no schedule at home
    that is its stored worth, which `stored` has worked out."""
    if floor is None or not floor.allocation:
        return rest.worth or 0.0
    at_home = float(rest.job.value(end_at_home(cluster, floor, rest) - rest.job.arrival))
    return max(at_home, rest.worth or 0.0) if floor.draft else at_home


def stored(cluster: Cluster, rest: Rest, floor: Floor | None, slot: int, *, exact: bool) -> Rest:
    """The rest with the worth that holds from the boundary at `slot` on: where nothing is planned at home and none is
    stored, the share that is done of what finishing at once would be worth (D4)."""
    if rest.is_whole or rest.worth is not None or (floor is not None and floor.allocation):
        return rest
    end = slot + rest.ways(cluster, exact=exact).shortest
    return replace(rest, worth=rest.share_done * max(0.0, float(rest.job.value(end - rest.job.arrival))))


def stands_still(cluster: Cluster, rest: Rest, floor: Floor | None, slot: int, *, exact: bool) -> float | None:
    """What finishing from `slot` on would be worth, where that is no more than what is saved, so that no piece is ever
    bought again; None where the job goes on."""
    if rest.is_whole or (floor is not None and floor.allocation):
        return None
    end = slot + rest.ways(cluster, exact=exact).shortest
    finishing = float(rest.job.value(end - rest.job.arrival))
    return finishing if finishing <= (rest.worth or 0.0) else None


@dataclass(frozen=True, eq=False)
class Pieces:
    """The ways to do a part of a rest or all of it in a window, by ascending length, then workers, then centralized
    first, then pair of types: the order in which ties of one start are broken (D6)."""

    ways: Candidates
    work: IntArray  # (candidates,) mini-batches done
    finishes: BoolArray  # (candidates,)
    share: FloatArray  # (candidates,) of all work that is then done; 1 where it finishes
    after: IntArray  # (candidates,) slots that what is left would take at the same rate; 0 where a plan says its end
    home: FloatArray | None  # (candidates,) value of the end at home after the piece; None: nothing is planned there
    last: int  # slots of the window by which a piece must end that is followed by a schedule at home
    job: Job
    start: int  # slot of the window's beginning

    def worth(self, rows: IntArray, ends: IntArray) -> FloatArray:
        """What they bring their owner if they end with the window's 1st, 2nd, ... slot; -inf where they may not (D5).
        It never rises with the end."""
        value = np.asarray(self.job.value(self.start + ends + self.after[rows] - self.job.arrival))
        if self.home is None:
            return np.where(self.finishes[rows] | (value > 0), self.share[rows] * value, -np.inf)
        followed = np.where(ends <= self.last, self.home[rows], -np.inf)
        return np.where(self.finishes[rows], value, followed)


@dataclass(frozen=True)
class Met:
    """What a job meets in a window, and the surplus that a piece must exceed to be worth a look."""

    terms: AllTerms
    payer: int  # of those that the terms are known of
    least: float
    whole: bool  # whether a run that finishes it is worth a look, too


def pieces(
    cluster: Cluster, rest: Rest, floor: Floor | None, window: tuple[int, int], met: Met | None, *, exact: bool
) -> Pieces | None:
    """What a window may sell of a rest; None: nothing. `floor`: its schedule at home, where it has one. `met`: pieces
    that cannot fit, or could be worth no more than they cost and than the job has, are left out; None: there is room
    for any.

    Of pieces that do the same for the home schedule's end, or of the whole work, only the shortest with so many
    workers, and the smallest gang of one length, can win; the others are left out.
    """
    job, (start, end) = rest.job, window
    planned = floor if floor is not None and floor.allocation else None
    slots, gangs = end - start, gangs_of(job, cluster, exact=exact)
    whole = rest.ways(cluster, exact=exact)
    # Columns: pair, central, workers, duration, least ps, mini-batches, slots that would be left at the same rate.
    table = _unfinished(cluster, rest, planned, (start, slots), gangs, met)
    if met is None or met.whole:
        short = np.flatnonzero(whole.duration <= slots)
        finishing = np.zeros((len(short), 7), dtype=np.int64)
        columns = (whole.pair, whole.central, whole.workers, whole.duration, whole.least_ps)
        for number, column in enumerate(columns):
            finishing[:, number] = column[short]
        finishing[:, 5] = rest.work
        table = np.concatenate([finishing, table])
    if not len(table):
        return None
    table = table[np.lexsort((table[:, 0], 1 - table[:, 1], table[:, 2], table[:, 3]))]
    pair_of, central_of, workers, duration, least_ps, work, after = np.ascontiguousarray(table.T)
    level = np.frexp(duration.astype(np.float64))[1].astype(np.int64) - 1
    ways = Candidates(
        gangs.pairs, pair_of, central_of == 1, workers, duration, level, least_ps, limit_of_ps(job),
        whole.shortest, whole.fewest, (),
    )  # fmt: skip
    finishes = work >= rest.work
    share = np.where(finishes, 1.0, 1.0 - (rest.work - work) / job.work)
    home, last = None, slots
    if planned is not None:
        left = np.maximum(rest.work - work, 1)
        ends = planned.start + np.maximum(1, ceilings(left / minibatches_at_home(cluster, planned, job)))
        home = np.asarray(job.value(np.minimum(planned.end, ends) - job.arrival), dtype=np.float64)
        last = planned.start - start
    return Pieces(ways, work, finishes, share, after, home, last, job, start)


def _unfinished(
    cluster: Cluster, rest: Rest, planned: Floor | None, window: tuple[int, int], gangs: Gangs, met: Met | None
) -> IntArray:
    """(rows, 7) pair, central, workers, duration, least ps, mini-batches, slots left at the same rate: pieces that
    leave something. `window`: its first slot, and how many it has."""
    job, (start, slots) = rest.job, window
    some = np.flatnonzero(gangs.least_ps <= limit_of_ps(job)) if rest.work > 1 else np.zeros(0, dtype=np.int64)
    if met is not None and len(some):
        terms = [met.terms.of(gangs.pairs[pair]) for pair, _ in gangs.sorts]
        rooms = np.stack([each.limits.most[int(on_one)] for each, (_, on_one) in zip(terms, gangs.sorts, strict=True)])
        ps = np.array([each.limits.ps.most[0] for each in terms])
        sort = gangs.sort[some]
        some = some[(gangs.workers[some] <= rooms[sort, 0]) & (gangs.least_ps[some] <= ps[sort])]
    if not len(some):
        return np.zeros((0, 7), dtype=np.int64)
    sort, workers, rate, first = gangs.sort[some], gangs.workers[some], gangs.rate[some], gangs.first[some]
    lengths = np.arange(1, slots + 1)
    done = rate[:, None] * np.maximum(lengths - job.save_slots, 0.0)  # (gangs, lengths)
    work = np.floor(done + TOLERANCE * np.maximum(1.0, done))
    worthwhile = (work >= 1) & (work < rest.work)
    if met is not None:
        worthwhile &= workers[:, None] <= rooms[sort]
    left = np.zeros_like(work)
    if planned is None:
        left = ceilings(np.maximum(rest.work - work, 1) / rate[:, None])
        worthwhile[:, 1:] &= work[:, 1:] > work[:, :-1]  # longer for the same
    else:
        per_slot = minibatches_at_home(cluster, planned, job)
        at_home = ceilings((rest.work - work) / per_slot)  # (gangs, lengths) slots left there
        np.clip(at_home, 1, planned.end - planned.start, out=at_home)
        worthwhile &= at_home < end_at_home(cluster, planned, rest) - planned.start
        worthwhile[:, 1:] &= at_home[:, 1:] < at_home[:, :-1]
        worthwhile[1:] &= (at_home[1:] < at_home[:-1]) | first[1:, None]
    if met is not None:
        costs = np.stack([each.worker[met.payer] for each in terms])[sort] * workers[:, None]
        costs += np.stack([each.ps[met.payer] for each in terms])[sort] * gangs.least_ps[some, None]
        if planned is None:
            value = np.asarray(job.value(start + lengths + left - job.arrival))
            worth = np.where(value > 0, (1.0 - (rest.work - work) / job.work) * value, -np.inf)
        else:
            worth = np.asarray(job.value(planned.start + at_home - job.arrival))
        worthwhile &= worth - costs > met.least
    row, column = np.nonzero(worthwhile)
    gang = some[row]
    table = np.empty((len(row), 7), dtype=np.int64)
    table[:, 0], table[:, 1] = gangs.kind(gang)
    table[:, 2], table[:, 3], table[:, 4] = gangs.workers[gang], lengths[column], gangs.least_ps[gang]
    table[:, 5], table[:, 6] = work[row, column], left[row, column]
    return table


def changed(view: View, known: Mapping[int, Rest]) -> dict[int, float | None]:
    """The worths that are not what the view says, of jobs that were begun."""
    return {
        number: rest.worth
        for number, rest in known.items()
        if not rest.is_whole and rest.worth != view.worths.get(number)
    }
