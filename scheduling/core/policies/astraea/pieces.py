"""Long jobs rent in pieces: what is left of a job that was begun, and the parts of it that a window may sell (D1-D8).

A job that is `divisible` may be saved and go on later, elsewhere. The world in which its owner is alone does not know
of pieces (D2): its home schedule begins when it would have begun anyway, and only gets shorter (D3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.policies.astraea.candidates import (
    Candidates,
    IntArray,
    Pair,
    candidates,
    ceilings,
    least_ps_of,
    limit_of_ps,
    pairs_of,
    rates_of,
    worker_counts,
)
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


def end_at_home(cluster: Cluster, floor: Floor, rest: Rest) -> int:
    """When the rest is done at home: the schedule's own start, servers and workers, and no later an end (D3)."""
    if rest.is_whole:
        return floor.end
    return min(floor.end, floor.start + _slots_at_home(cluster, floor, rest.job, rest.work))


def _slots_at_home(cluster: Cluster, floor: Floor, job: Job, work: int) -> int:
    return max(1, ceiling(work / _minibatches_at_home(cluster, floor, job)))


def _minibatches_at_home(cluster: Cluster, floor: Floor, job: Job) -> float:
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
    after: IntArray  # (candidates,) slots that what is left would take at the same rate; 0 where it finishes
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
class Bound:
    """The best that one pair of types and placement could meet in a window: a bound for every piece of that kind."""

    rate: float  # mini-batches per worker and slot
    workers: int  # that are free at once, at most
    price: float  # credits for a worker and slot, at least
    ps_price: float  # credits for the parameter servers of any gang and a slot, at least

    def cost(self, work: FloatArray, lost: float) -> FloatArray:
        """Of so many mini-batches, at least, where `lost` slots of each gang are for saving."""
        worker_slots = work / self.rate
        slots = np.maximum(1.0, worker_slots / max(self.workers, 1) + lost)
        return self.price * (worker_slots + lost) + self.ps_price * slots


def may_gain(
    rest: Rest, floor: Floor | None, cluster: Cluster, window: tuple[int, int], has: float, bounds: Sequence[Bound]
) -> bool:
    """Whether any piece could be worth more than it costs and than `has`: if not, none need be looked at. What a piece
    is worth is bounded by its mini-batches, and so is what it costs; a mini-batch less stands for what rounding may do.
    """
    job, (start, end) = rest.job, window
    at_once = float(job.value(start + 1 - job.arrival))  # of whatever is done with the window's first slot
    planned = floor is not None and bool(floor.allocation)
    if floor is not None and floor.allocation:
        lengths = np.arange(1, end_at_home(cluster, floor, rest) - floor.start)
        gains = np.asarray(job.value(floor.start + lengths - job.arrival)) - has
        work = np.maximum(rest.work - lengths * _minibatches_at_home(cluster, floor, job) - 1, 0.0)
    for bound in bounds:
        most = bound.workers * bound.rate * (end - start) + 1
        if rest.work <= most and at_once - has > bound.cost(np.array(rest.work - 1.0), 0.0):
            return True
        if not planned:  # a share that is linear in the work, less a price with one bend: an end or the bend is best
            bend = bound.workers * bound.rate * max(1.0 - job.save_slots, 0.0) + 1
            work = np.array([1.0, min(bend, rest.work, most), min(float(rest.work), most)])
            gains = (1.0 - (rest.work - work) / job.work) * at_once - has
            work = work - 1
        if (gains > bound.cost(work, job.save_slots))[work <= most].any():
            return True
    return False


Most = Callable[[Pair, bool], IntArray]  # (slots,) the largest gang that may fit for so long, centralized or not


def pieces(
    cluster: Cluster, rest: Rest, floor: Floor | None, window: tuple[int, int], most: Most | None, *, exact: bool
) -> Pieces:
    """What a window may sell of a rest. `floor`: its schedule at home, where it has one. `most`: gangs that cannot fit
    are not worth a look; None: there is room for any.

    Of pieces that do the same for the home schedule's end, or of the whole work, only the shortest with so many
    workers, and the smallest gang of one length, can win; the others are left out.
    """
    job, (start, end) = rest.job, window
    planned = floor if floor is not None and floor.allocation else None
    slots, pairs = end - start, pairs_of(job)
    whole = rest.ways(cluster, exact=exact)
    short = np.flatnonzero(whole.duration <= slots)
    # Columns: pair, central, workers, duration, least ps, mini-batches, slots that would be left at the same rate.
    table = np.zeros((len(short), 7), dtype=np.int64)
    table[:, 0], table[:, 1], table[:, 2] = whole.pair[short], whole.central[short], whole.workers[short]
    table[:, 3], table[:, 4], table[:, 5] = whole.duration[short], whole.least_ps[short], rest.work
    tables = [table]
    counts = worker_counts(job, exact=exact)
    for index, pair in enumerate(pairs):
        for central in (True, False):
            room = np.full(slots, counts[-1] if len(counts) else 0) if most is None else most(pair, central)
            rows = _unfinished(cluster, rest, planned, pair, counts if central else counts[counts >= 2], central, room)
            if len(rows):
                tables.append(np.column_stack([np.full(len(rows), index), np.full(len(rows), central), rows]))
    table = np.concatenate(tables)
    table = table[table[:, 4] <= limit_of_ps(job)]
    table = table[np.lexsort((table[:, 0], 1 - table[:, 1], table[:, 2], table[:, 3]))]
    pair_of, central_of, workers, duration, least_ps, work, after = np.ascontiguousarray(table.T)
    level = np.frexp(duration.astype(np.float64))[1].astype(np.int64) - 1
    shortest, fewest = whole.shortest, whole.fewest
    ways = Candidates(
        pairs, pair_of, central_of == 1, workers, duration, level, least_ps, limit_of_ps(job), shortest, fewest, (),
        np.argsort(duration, kind="stable"),
    )  # fmt: skip
    finishes = work >= rest.work
    share = np.where(finishes, 1.0, 1.0 - (rest.work - work) / job.work)
    home, last = None, slots
    if planned is not None:
        left = np.maximum(rest.work - work, 1)
        ends = planned.start + np.maximum(1, ceilings(left / _minibatches_at_home(cluster, planned, job)))
        home = np.asarray(job.value(np.minimum(planned.end, ends) - job.arrival), dtype=np.float64)
        last = planned.start - start
    return Pieces(ways, work, finishes, share, after, home, last, job, start)


def _unfinished(
    cluster: Cluster, rest: Rest, planned: Floor | None, pair: Pair, counts: IntArray, central: bool, room: IntArray
) -> IntArray:
    """(rows, 5) workers, duration, least ps, mini-batches, slots left at the same rate: pieces that leave something.
    `room` (slots,): the largest gang that may fit for 1, 2, ... slots; it never grows."""
    counts = counts[counts <= room[0]]
    if not len(counts) or rest.work < 2:
        return np.zeros((0, 5), dtype=np.int64)
    room = room[room >= counts[0]]
    rate = rates_of(rest.job, cluster, pair, counts, central) * counts  # mini-batches of the gang in a slot
    lengths = np.arange(1, len(room) + 1)
    done = rate[:, None] * np.maximum(lengths - rest.job.save_slots, 0.0)  # (counts, lengths)
    work = np.floor(done + TOLERANCE * np.maximum(1.0, done)).astype(np.int64)
    worthwhile = (work >= 1) & (work < rest.work) & (counts[:, None] <= room)
    if planned is None:
        worthwhile[:, 1:] &= work[:, 1:] > work[:, :-1]  # longer for the same
    else:
        per_slot = _minibatches_at_home(cluster, planned, rest.job)
        at_home = np.maximum(1, ceilings((rest.work - work) / per_slot))  # (counts, lengths) slots left there
        at_home = np.minimum(at_home, planned.end - planned.start)
        worthwhile &= at_home < end_at_home(cluster, planned, rest) - planned.start
        worthwhile[:, 1:] &= at_home[:, 1:] < at_home[:, :-1]
        worthwhile[1:] &= at_home[1:] < at_home[:-1]
    row, column = np.nonzero(worthwhile)
    left = ceilings((rest.work - work[row, column]) / rate[row])
    least_ps = least_ps_of(cluster, pair, counts, central)[row]
    return np.column_stack([counts[row], lengths[column], least_ps, work[row, column], left])


def changed(view: View, known: Mapping[int, Rest]) -> dict[int, float | None]:
    """The worths that are not what the view says, of jobs that were begun."""
    return {
        number: rest.worth
        for number, rest in known.items()
        if not rest.is_whole and rest.worth != view.worths.get(number)
    }
