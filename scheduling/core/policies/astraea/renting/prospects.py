"""Finds which of the waiting jobs could gain by a piece at all, by a bound of what the best piece could bring, before
any piece is listed.

Pieces of one length are bounded together: by the most workers that find room for so long on end somewhere in the
window, and by the least that so many slots cost anywhere in it. What a piece brings is at most linear in its workers,
up to some number, and so is what it costs. So two numbers of workers say whether any piece of that length could pay.
What so many workers could bring does not depend on prices. It is worked out once for the room that there is, which
only shrinks until terms are eased; after each sale it is compared with what the workers cost then. A job none of whose
pieces could pay buys none, so its pieces need not be listed. In most windows that is true of most jobs that wait.

Between two sales all jobs meet the same room, and each payer the same prices, so several jobs are bounded at a time,
and more of them the longer nothing is sold. Shapes: (rows, slots), with one row for each sort of gang that a job may
have; the rows of one job follow those of the job before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from scheduling.core.policies.astraea.schedules.pieces import RestAtHome, rest_at_home
from scheduling.core.policies.astraea.schedules.terms import AllTerms
from scheduling.core.policies.astraea.ways.candidates import IntArray, Pair, beside_ps, candidates
from scheduling.core.policies.astraea.ways.rests import Rest
from scheduling.core.speed import booked_rate
from scheduling.core.types import BoolArray, Cluster, FloatArray, Floor, Job
from scheduling.core.value import ValuesOfMany

SLACK = 1e-6  # relative: far more than the rounding of sums of floats, so that no bound is ever too low
ANY = 1e100  # a price or a number so large that it sets no limit
FEWEST, MOST = 16, 512  # jobs that are bounded together: right after a sale, and once nothing was sold for long


class Prospect(NamedTuple):
    """A job that may be offered a piece.

    `has` is the credits that the piece must beat. `easings` is how often terms had been eased when the job was offered
    runs that finish it: such a run is worth another look only if terms were eased since then.
    """

    rest: Rest
    floor: Floor | None  # its schedule at home, where it has one
    has: float
    easings: int


class Look(NamedTuple):
    """A job that could gain, and the pieces by which it could. Shapes: (sorts of gangs, slots)."""

    prospect: Prospect
    home: RestAtHome | None
    lengths: BoolArray  # whether pieces of this length could pay
    run: bool  # whether a run that finishes the job could pay
    worker: FloatArray  # the least credits that a worker costs for 1, 2, ... slots
    ps: FloatArray  # the same for a parameter server


class Prospects:
    """Jobs that may be offered pieces of a window, in their order.

    `payers` are their tenants and `pairs` their pairs of types, each once: they meet the terms of these.
    """

    def __init__(
        self, cluster: Cluster, prospects: Sequence[Prospect], window: tuple[int, int], *, exact: bool
    ) -> None:
        start, end = window
        entries = [(prospect, _entry_of(cluster, prospect, exact=exact)) for prospect in prospects]
        self._able = [(prospect, each) for prospect, each in entries if each.pairs]
        jobs = [prospect.rest.job for prospect, _ in self._able]
        # Arrays by job.
        self._easings = np.array([prospect.easings for prospect, _ in self._able])
        self._values = ValuesOfMany([job.value for job in jobs])
        self._home_prices = np.concatenate([each.prices for _, each in self._able] + [[0.0]])
        self._home_gains = np.concatenate([each.gains for _, each in self._able] + [[0.0]])
        home_slots = np.array([len(each.prices) for _, each in self._able], dtype=np.int64)
        # Arrays by row.
        pairs = [pair for _, each in self._able for pair in each.pairs]
        counts = np.array([len(each.pairs) for _, each in self._able], dtype=np.int64)
        self._firsts = np.concatenate([[0], counts.cumsum()])
        self._job = np.arange(len(jobs)).repeat(counts)
        self._table = np.concatenate([np.zeros((0, len(Row._fields))), *(each.table for _, each in self._able)])
        self._home_slots, self._home_first = home_slots[self._job], (home_slots.cumsum() - home_slots)[self._job]
        self._start, self._lengths = start, np.arange(1.0, end - start + 1.0)
        numbers: dict[tuple[bytes, bytes], int] = {}
        self._pair = np.array([numbers.setdefault(pair.key, len(numbers)) for pair in pairs], dtype=np.int64)
        self.pairs = list({pair.key: pair for pair in pairs}.values())
        self.payers = sorted({job.tenant for job in jobs})
        payer = np.searchsorted(self.payers, [job.tenant for job in jobs])
        self._terms = self._pair * len(self.payers) + payer[self._job]
        self._best: BestPieces | None = None

    def that_may_gain(self, meet: Callable[[], AllTerms]) -> Iterator[Look]:
        """Yield the jobs, in their order, to which a piece, or a run that finishes them, could be worth more than it
        costs and than what they have.

        `meet` returns the terms that they meet now. It returns other ones after a job that was yielded has bought.
        """
        place, size = 0, FEWEST
        while place < len(self._able):
            met, last = meet(), min(place + size, len(self._able))
            looks = self._looks(place, last, met)
            place, size = last, min(2 * size, MOST)
            for index, look in looks:
                yield look
                if meet() is not met:
                    place, size = index + 1, FEWEST
                    break

    def _looks(self, first: int, last: int, met: AllTerms) -> Iterator[tuple[int, Look]]:
        """Yield those of the jobs from `first` to before `last` that may gain, each with its index."""
        rows, best = slice(int(self._firsts[first]), int(self._firsts[last])), self._best_of(first, last, met)
        worker, ps = met.worker[self._terms[rows]], met.ps[self._terms[rows]]
        mine = slice(rows.start - best.begin, rows.stop - best.begin)
        pays = best.gains[:, mine] > best.workers[:, mine] * worker + ps
        lengths, run = pays[0] | pays[1], pays[2:].any(axis=(0, 2))
        some = np.logical_or.reduceat(lengths.any(axis=1) | run, self._firsts[first:last] - rows.start)
        for index in (np.flatnonzero(some) + first).tolist():
            prospect, entry = self._able[index]
            its = slice(int(self._firsts[index]) - rows.start, int(self._firsts[index + 1]) - rows.start)
            yield index, Look(prospect, entry.home, lengths[its], bool(run[its].any()), worker[its], ps[its])

    def _best_of(self, first: int, last: int, met: AllTerms) -> BestPieces:
        """Return the best pieces of these jobs and of some that follow. They hold until terms are eased."""
        if self._best is None or self._best.last < last or self._best.easings != met.easings:
            self._best = self._work_out_best(first, min(first + MOST, len(self._able)), met)
        return self._best

    def _work_out_best(self, first: int, last: int, met: AllTerms) -> BestPieces:
        rows = slice(int(self._firsts[first]), int(self._firsts[last]))
        row = self._row(rows)
        gangs = self._meet(rows, row, met)
        planned, eased = row.rate_at_home[:, 0] > 0, self._easings[self._job[rows]] < met.easings
        workers = np.zeros((3 if eased.any() else 2, *gangs.most.shape))
        gains = np.full(workers.shape, -ANY)
        for kinds, which, best in (
            (slice(0, 2), planned, self._to_shorten),
            (slice(0, 2), ~planned, self._to_go_on),
            (slice(2, 3), eased, self._to_finish),
        ):
            some = np.flatnonzero(which)
            if len(some):
                workers[kinds, some], gains[kinds, some] = best(some + rows.start, gangs.of(some))
        return BestPieces(rows.start, last, met.easings, workers, gains)

    def _row(self, rows: slice | IntArray) -> Row:
        """Return what is known of these rows."""
        return Row(*self._table[rows].T[:, :, None])

    def _meet(self, rows: slice, row: Row, met: AllTerms) -> GangRoom:
        """Return the room that the gangs of these rows find."""
        pairs, which = np.unique(self._pair[rows], return_inverse=True)
        room = np.concatenate([met.limits.of(self.pairs[pair]).most for pair in pairs.tolist()])
        most = np.minimum(room[3 * which + row.central[:, 0].astype(np.int64)], row.largest)
        most = np.minimum(most, row.beside + row.by_ps * room[3 * which + 2])
        slots = np.maximum(self._lengths - row.save, 0.0)
        fits = (most >= row.fewest) & (slots > 0) & (self._lengths <= row.home_start - self._start)
        return GangRoom(most, np.where(slots > 0, slots, 1.0) * row.rate, fits)

    def _to_shorten(self, rows: IntArray, gangs: GangRoom) -> tuple[FloatArray, FloatArray]:
        """Return (2, rows, slots) workers of the two pieces that could gain most for jobs with a plan at home, and
        their gains.

        The first piece saves a slot, with as many workers as that takes. The second saves more, with as many workers as
        bring all that can be gained if each mini-batch brings as much as the best one.
        """
        row = self._row(rows)
        work = gangs.most * gangs.each
        soonest = (row.work - work * (1.0 + SLACK)) / row.rate_at_home * (1.0 - SLACK) - SLACK
        soonest = np.maximum(np.ceil(soonest).astype(np.int64), 1)
        home_slots = self._home_slots[rows, None]
        where = self._home_first[rows, None] + np.minimum(soonest, home_slots) - 1
        workers, gains = np.empty((2, *work.shape)), np.empty((2, *work.shape))
        workers[0] = np.maximum(np.ceil(row.least_work / gangs.each - SLACK), row.fewest)
        gains[0] = row.least_gain
        gain, of_worker = self._home_gains[where], self._home_prices[where] * gangs.each
        workers[1] = np.minimum(np.maximum(gain / np.maximum(of_worker, 1.0 / ANY), row.fewest), gangs.most)
        gains[1] = np.minimum(gain, of_worker * workers[1])
        return workers, np.where(gangs.fits & (soonest <= home_slots), gains * (1.0 + 2.0 * SLACK), -ANY)

    def _to_go_on(self, rows: IntArray, gangs: GangRoom) -> tuple[FloatArray, FloatArray]:
        """Return the same for jobs without a schedule at home.

        The share that is done is linear in the workers, if the end is bounded by that of the largest gang. So among
        pieces of one length, either the largest that leaves a part of the job is the best, or the smallest is.
        """
        row, each = self._row(rows), gangs.each
        most = np.maximum(gangs.most, row.fewest)
        after = row.work * (1.0 - SLACK) / (most * row.rate) - each / row.rate  # slots, at the rate of the largest
        ends = self._lengths + np.maximum(np.ceil(after - SLACK), 1.0)
        worth = self._values(self._job[rows], self._start - row.arrival + ends)
        workers = np.empty((2, *worth.shape))
        workers[0] = np.maximum(np.minimum(most, row.work / each), row.fewest)
        workers[1] = row.fewest
        gain = worth * each * ((1.0 + SLACK) / row.whole)  # of one worker more
        gains = (1.0 - row.work / row.whole + SLACK) * worth - row.enough + workers * gain
        return workers, np.where(gangs.fits, gains, -ANY)

    def _to_finish(self, rows: IntArray, gangs: GangRoom) -> tuple[FloatArray, FloatArray]:
        """Return (1, rows, slots) workers of the smallest runs that finish jobs, and their gains."""
        row = self._row(rows)
        workers = np.maximum(row.fewest, (row.work - 1.0) / (row.rate * self._lengths))
        gains = self._values(self._job[rows], self._start - row.arrival + self._lengths) - row.enough
        return workers[None], np.where(workers <= gangs.most, gains * (1.0 + 2.0 * SLACK), -ANY)[None]


@dataclass(frozen=True, eq=False)
class GangRoom:
    """The room that gangs of each sort find for 1, 2, ... slots on end, (rows, slots)."""

    most: FloatArray  # the most workers that there may be room for
    each: FloatArray  # mini-batches that a worker does before the save; above 0
    fits: BoolArray  # whether there may be room for a gang that does something before the save

    def of(self, rows: IntArray) -> GangRoom:
        """Return the room of some of the rows."""
        return GangRoom(self.most[rows], self.each[rows], self.fits[rows])


@dataclass(frozen=True, eq=False)
class BestPieces:
    """The pieces that could gain most, for the jobs from row `begin` to before job `last`, (2 or 3, rows, slots).

    They are two of each length, and the best run that finishes the job, where one is worth a look.
    """

    begin: int
    last: int
    easings: int  # how often terms had been eased; this holds until they are eased again
    workers: FloatArray
    gains: FloatArray  # credits above what the job has, at most


# -- what is known of a job --------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A sort of gangs of a job, that is a pair of types and a placement on one server or on several, and figures of the
    job itself. Each field is a number, or for many rows an array (rows, 1)."""

    central: Any  # 1 on one server, else 0
    fewest: Any  # workers
    largest: Any
    rate: Any  # mini-batches of a worker in a slot, at most
    beside: Any  # workers beside the parameter servers, at most
    by_ps: Any  # workers elsewhere that one parameter server is enough for
    work: Any  # mini-batches that are left
    whole: Any  # mini-batches of the whole job
    save: Any  # slots that a save takes
    arrival: Any
    enough: Any  # credits that a piece must beat
    rate_at_home: Any  # mini-batches in a slot at home; 0: nothing is planned there
    least_work: Any  # mini-batches that save one slot at home
    least_gain: Any  # credits that saving this slot brings
    home_start: Any  # slot by which a piece must end


@dataclass(frozen=True, eq=False)
class KnownProspect:
    """The sorts of gangs of a job, and what a piece may cost, (slots,).

    Index i is about pieces that leave i + 1 slots or more of its run at home, but fewer than the run takes now.
    """

    pairs: tuple[Pair, ...]  # of each sort
    table: FloatArray  # (sorts, fields of a row)
    home: RestAtHome | None
    prices: FloatArray  # credits per mini-batch of the piece, if it saves two slots or more
    gains: FloatArray  # credits for the whole piece


_cache: WeakKeyDictionary[Job, tuple[tuple[object, ...], KnownProspect]] = WeakKeyDictionary()


def _entry_of(cluster: Cluster, prospect: Prospect, *, exact: bool) -> KnownProspect:
    """Return what is known of a job, remembered from window to window.

    A plan that is kept stays the same from one window to the next, and so does what is left of a job that bought
    nothing.
    """
    job = prospect.rest.job
    key = (cluster, exact, prospect.floor, prospect.rest.work, prospect.has)
    before = _cache.get(job)
    if before is None or before[0] != key:
        before = _cache[job] = key, _work_out(cluster, prospect, exact)
    return before[1]


def _work_out(cluster: Cluster, prospect: Prospect, exact: bool) -> KnownProspect:
    rest, job, planned = prospect.rest, prospect.rest.job, prospect.floor
    enough = prospect.has - SLACK * max(1.0, abs(prospect.has))
    home, prices, gains, at_home = None, np.zeros(0), np.zeros(0), (0.0, 0.0, 0.0, ANY)
    if planned is not None and planned.allocation:
        home = rest_at_home(cluster, rest, planned)
        gains = home.values[:-1] - enough
        work = rest.work - SLACK - np.arange(1, len(home.values)) * (home.rate * (1.0 + SLACK))  # that a piece must do
        prices = gains / np.maximum(work, 1.0 / ANY)
        prices[-1:] = 0.0
        prices = np.maximum.accumulate(prices[::-1])[::-1]
        least = (float(work[-1]), float(gains[-1])) if len(work) else (0.0, 0.0)
        at_home = (home.rate, *least, planned.start)
    of_job = (rest.work, job.work, job.save_slots, job.arrival, enough, *at_home)
    fewest = job.max_workers if exact else max(job.min_workers, 1)
    pairs, rows = [], []
    for pair in candidates(job, cluster, exact=exact).pairs:
        types = pair.worker_type, pair.ps_type
        for central in (True, False):
            least_workers = fewest if central else max(fewest, 2)
            if least_workers <= job.max_workers:
                pairs.append(pair)
                rate = booked_rate(job, cluster, types, 1 if central else 2, centralized=central)
                beside = 0 if central else beside_ps(cluster, pair.worker.demand)
                by_ps = ANY if central or pair.ps.absent else pair.ps.mbps / pair.worker.mbps * (1.0 + SLACK)
                rows.append(Row(central, least_workers, job.max_workers, rate, beside, by_ps, *of_job))
    table = np.array(rows, dtype=np.float64).reshape(-1, len(Row._fields))
    return KnownProspect(tuple(pairs), table, home, prices, gains)
