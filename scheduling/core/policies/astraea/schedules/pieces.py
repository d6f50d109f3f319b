"""Long jobs rent in pieces: the parts of a divisible job that a window may sell (D1, D5, D6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.astraea.schedules.terms import Limits
from scheduling.core.policies.astraea.ways.candidates import (
    Candidates,
    Gangs,
    IntArray,
    ceilings,
    gangs_of,
    limit_of_ps,
)
from scheduling.core.policies.astraea.ways.rests import Rest, end_at_home, minibatches_at_home
from scheduling.core.speed import TOLERANCE
from scheduling.core.types import BoolArray, Cluster, FloatArray, Floor, Job


@dataclass(frozen=True, eq=False)
class Pieces:
    """The ways to do a part of a rest or all of it in a window.

    They are sorted by ascending length, then workers, then centralized first, then pair of types. Ties of one start are
    broken in this order (D6).
    """

    ways: Candidates
    work: IntArray  # (candidates,) mini-batches done
    finishes: BoolArray  # (candidates,)
    share: FloatArray  # (candidates,) share of the job's work that is done after it; 1 where it finishes
    after: IntArray  # (candidates,) slots that the rest after it takes, at its rate or at home; 0 where it finishes
    home: FloatArray | None  # (candidates,) value of the end at home after the piece; None: nothing is planned there
    last: int  # slots of the window within which a piece must end if the job continues at home
    runs: bool  # whether any of them finishes the job
    job: Job
    start: int  # slot of the window's beginning

    def worth(self, rows: IntArray, ends: IntArray) -> FloatArray:
        """Return what the pieces `rows` bring their owner if they end with the window's 1st, 2nd, ... slot, by `ends`;
        -inf where they may not (D5). It never rises with the end."""
        finishes = self.finishes[rows]
        if self.home is None:
            value = np.asarray(self.job.value(self.start + ends + self.after[rows] - self.job.arrival))
            return np.where(finishes | (value > 0), self.share[rows] * value, -np.inf)
        followed = np.where(ends <= self.last, self.home[rows], -np.inf)
        if not self.runs:
            return followed
        return np.where(finishes, np.asarray(self.job.value(self.start + ends - self.job.arrival)), followed)


@dataclass(frozen=True, eq=False)
class RestAtHome:
    """What is left of a job that has a schedule at home, measured in the slots that it takes there."""

    start: int
    rate: float  # mini-batches in a slot
    longest: int  # slots of the whole job
    values: FloatArray  # (slots,) if it takes 1, 2, ... slots there, up to those that what is left now takes

    def slots(self, work: FloatArray) -> IntArray:
        """Return the slots that `work` mini-batches take there."""
        return np.minimum(np.maximum(ceilings(work / self.rate), 1), self.longest)


def rest_at_home(cluster: Cluster, rest: Rest, planned: Floor) -> RestAtHome:
    """Return what is left of a job now, by its schedule at home."""
    slots = np.arange(1, end_at_home(cluster, planned, rest) - planned.start + 1)
    values = np.asarray(rest.job.value(planned.start + slots - rest.job.arrival), dtype=np.float64)
    rate = minibatches_at_home(cluster, planned, rest.job)
    return RestAtHome(planned.start, rate, planned.end - planned.start, values)


@dataclass(frozen=True, eq=False)
class Met:
    """What a job meets in a window, by sort of gang and length, (sorts, slots), and which pieces are worth a look."""

    limits: Limits
    worker: FloatArray  # the least credits that a worker costs for 1, 2, ... slots
    ps: FloatArray  # the same for a parameter server
    lengths: BoolArray  # which lengths pieces may have
    run: bool  # whether a run that finishes the job is worth a look, too
    least: float  # the surplus that a piece must exceed


def pieces(
    cluster: Cluster, rest: Rest, home: RestAtHome | None, window: tuple[int, int], met: Met | None, *, exact: bool
) -> Pieces | None:
    """Return what a window may sell of a rest, or None if that is nothing.

    `home` is what is left at home, for a job with a schedule there. By `met`, pieces are left out that cannot fit, or
    could be worth no more than they cost and than the job has; None means that there is room for any.

    Of pieces that give the home schedule the same end, or do the same part of the whole work, only the shortest with a
    number of workers, and the smallest gang of a length, can win; the others are left out.
    """
    job, (start, end) = rest.job, window
    gangs, whole = gangs_of(job, cluster, exact=exact), rest.ways(cluster, exact=exact)
    # Rows: pair, central, workers, duration, least ps, mini-batches, slots that the rest then takes.
    table = _unfinished(rest, home, window, gangs, met)
    if met is None or met.run:
        short = np.flatnonzero(whole.duration <= end - start)
        finishing = np.zeros((7, len(short)), dtype=np.int64)
        columns = (whole.pair, whole.central, whole.workers, whole.duration, whole.least_ps)
        finishing[:5] = [column[short] for column in columns]
        finishing[5] = rest.work
        table = np.concatenate([finishing, table], axis=1)
    if not table.size:
        return None
    in_order = np.lexsort((table[0], 1 - table[1], table[2], table[3]))
    pair, central, workers, duration, least_ps, work, after = table[:, in_order]
    level = np.frexp(duration.astype(np.float64))[1].astype(np.int64) - 1
    ways = Candidates(
        gangs.pairs, pair, central == 1, workers, duration, level, least_ps, limit_of_ps(job),
        whole.shortest, whole.fewest, (),
    )  # fmt: skip
    finishes = work >= rest.work
    share = np.where(finishes, 1.0, 1.0 - (rest.work - work) / job.work)
    values, last = (None, end - start) if home is None else (home.values[after - 1], home.start - start)
    return Pieces(ways, work, finishes, share, after, values, last, bool(finishes.any()), job, start)


def _unfinished(
    rest: Rest, home: RestAtHome | None, window: tuple[int, int], gangs: Gangs, met: Met | None
) -> IntArray:
    """Return the pieces that leave a part of the rest: (7, pieces) pair, central, workers, duration, least ps,
    mini-batches, slots that the rest then takes."""
    job, (start, end) = rest.job, window
    sort, column = np.nonzero(np.ones((len(gangs.sorts), end - start), dtype=bool) if met is None else met.lengths)
    begins, counts = gangs.begins[sort], gangs.sizes[sort]
    most_ps: int | IntArray = limit_of_ps(job)
    if met is not None:
        most = [met.limits.of(gangs.pairs[pair]).most for pair, _ in gangs.sorts]
        room = np.array([(each[int(on_one)], each[2]) for each, (_, on_one) in zip(most, gangs.sorts, strict=True)])
        counts = np.minimum(np.maximum(room[sort, 0, column] - gangs.workers[begins] + 1, 0), counts)
        most_ps = np.minimum(most_ps, room[sort, 1, column]).repeat(counts)
    # First come all gangs of the first sort and length that there is room for, then those of the next, and so on.
    gang = (begins + counts - counts.cumsum()).repeat(counts)
    gang += np.arange(len(gang))
    length, least_ps, rate = (column + 1).repeat(counts), gangs.least_ps[gang], gangs.rate[gang]
    done = rate * np.maximum(length - job.save_slots, 0.0)
    work = np.floor(done + TOLERANCE * np.maximum(1.0, done))
    some = (work >= 1) & (work < rest.work) & (least_ps <= most_ps)
    if home is None:
        after = ceilings(np.maximum(rest.work - work, 1) / rate)
    else:
        after = home.slots(rest.work - work)
        some &= after < len(home.values)
    if met is not None:
        if home is None:
            value = np.asarray(job.value(start + length + after - job.arrival))
            worth = np.where(value > 0, (1.0 - (rest.work - work) / job.work) * value, -np.inf)
        else:
            worth = home.values[np.minimum(after, len(home.values)) - 1]
        costs = met.worker[met.lengths].repeat(counts) * gangs.workers[gang]
        costs += met.ps[met.lengths].repeat(counts) * least_ps
        some &= worth - costs > met.least
    gang, length, work, after = np.array([gang, length, work, after])[:, some].astype(np.int64)
    some = _distinct(gang, length, work if home is None else after)
    if home is not None:
        same = (gang[1:] == gang[:-1] + 1) & (length[1:] == length[:-1]) & (after[1:] == after[:-1])
        some[1:] &= ~same | gangs.first[gang[1:]]
    columns = gangs.pair[gang], gangs.central[gang], gangs.workers[gang], length, gangs.least_ps[gang], work, after
    return np.array(columns)[:, some]


def _distinct(gang: IntArray, length: IntArray, does: IntArray) -> BoolArray:
    """Return (pieces,) whether a piece does not do the same as its gang one slot shorter, where that is listed, too."""
    key = gang * (int(length.max(initial=0)) + 1) + length
    order = key.argsort()
    key, does, distinct = key[order], does[order], np.ones(len(key), dtype=bool)
    distinct[order[1:]] = (key[1:] != key[:-1] + 1) | (does[1:] != does[:-1])
    return distinct
