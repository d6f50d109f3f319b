"""Which of the jobs that wait could gain by a piece at all: a bound of what the best one could bring, before any is
listed.

Pieces of one length are bounded together: by the most workers that find room for so long on end somewhere in the
window, and by the least that so many slots cost anywhere in it. What a piece is worth is bounded by what it does at the
best rate of its kind, and what it costs by its workers. So a job whose bound is no more than what it has buys no piece,
and its pieces need not be listed. Most jobs that wait are of that sort in most windows.

Between two sales all jobs meet the same room, and each payer the same prices, so some of them are bounded at a time,
more the longer nothing is sold. Shapes: (rows, slots), with one row for each sort of gang that a job may have, one
job's after the other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from scheduling.core.policies.astraea.candidates import IntArray, Pair, beside_ps, candidates
from scheduling.core.policies.astraea.pieces import Rest, end_at_home, minibatches_at_home
from scheduling.core.policies.astraea.terms import AllTerms
from scheduling.core.speed import booked_rate
from scheduling.core.types import BoolArray, Cluster, FloatArray, Floor, Job
from scheduling.core.value import ValuesOfMany

SLACK = 1e-6  # relative: far more than what sums of floats leave over, so that no bound is ever too low
ANY = 1e100  # a price, or a number, that is no limit
FEWEST, MOST = 16, 512  # jobs that are bounded together: after a sale, and when nothing was sold for long


class Prospect(NamedTuple):
    """A job that may be offered a piece. `has`: credits that it must beat. `easings`: how often terms had been eased
    when it was offered runs that finish it: only if they were since, such a run is worth another look."""

    rest: Rest
    floor: Floor | None  # its schedule at home, where it has one
    has: float
    easings: int


class Prospects:
    """Jobs that may be offered pieces of a window that begins at `start`, in their order. `payers`: the tenants that
    the terms which they meet are known of, ascending."""

    def __init__(
        self,
        cluster: Cluster,
        prospects: Sequence[Prospect],
        payers: Sequence[int],
        window: tuple[int, int],
        *,
        exact: bool,
    ) -> None:
        sorts = _sorts_of([prospect.rest.job for prospect in prospects], cluster, exact)
        self._able = [prospect for prospect, each in zip(prospects, sorts, strict=True) if each.pairs]
        if self._able:
            self._tabulate(cluster, [each for each in sorts if each.pairs], payers, window)

    def _tabulate(
        self, cluster: Cluster, sorts: Sequence[Sorts], payers: Sequence[int], window: tuple[int, int]
    ) -> None:
        start, end = window
        rests, jobs = [each.rest for each in self._able], [each.rest.job for each in self._able]
        # By job.
        self._easings = np.array([each.easings for each in self._able])
        has = np.array([each.has for each in self._able])
        self._enough = has - SLACK * np.maximum(1.0, np.abs(has))
        self._work = np.array([float(rest.work) for rest in rests])
        self._values = ValuesOfMany([job.value for job in jobs])
        at_home = [_at_home(cluster, each) for each in self._able]
        self._rate_at_home = np.array([each.rate for each in at_home])
        self._planned = self._rate_at_home > 0
        self._left = np.array([len(each.prices) for each in at_home])
        self._home_firsts = np.cumsum(self._left) - self._left
        self._home_prices = np.concatenate([each.prices for each in at_home] + [[0.0]])
        self._home_gains = np.concatenate([each.gains for each in at_home] + [[0.0]])
        self._least_work = np.array([each.least_work for each in at_home])
        self._least_gain = self._home_gains[self._home_firsts + self._left - 1]
        # By row.
        counts = [len(each.pairs) for each in sorts]
        self._firsts = np.concatenate([[0], np.cumsum(counts)])
        self._job = np.repeat(np.arange(len(jobs)), counts)
        table = np.concatenate([each.table for each in sorts])
        self._central = table[:, 0].astype(np.int64)
        self._fewest, self._largest, self._rate, self._least_ps, self._beside, self._by_ps = (
            table[:, [column]] for column in range(1, 7)
        )
        pairs = {pair.key: pair for each in sorts for pair in each.pairs}
        self._pairs, numbers = list(pairs.values()), {key: number for number, key in enumerate(pairs)}
        self._pair = np.array([numbers[pair.key] for each in sorts for pair in each.pairs])
        self._payer = np.searchsorted(payers, [job.tenant for job in jobs])[self._job]
        self._lengths = np.arange(1.0, end - start + 1.0)
        self._save = np.array([job.save_slots for job in jobs], dtype=np.float64)[self._job, None]
        self._since = start - np.array([float(job.arrival) for job in jobs])[self._job, None]
        self._rest = self._work[self._job, None]
        self._whole = np.array([float(job.work) for job in jobs])[self._job, None]

    def that_may_gain(self, meet: Callable[[], AllTerms]) -> Iterator[Prospect]:
        """Those to which a piece could be worth more than it costs and than what they have, in their order. `meet`:
        what they meet now; it is something else when one that was handed out has bought."""
        place, size = 0, FEWEST
        while place < len(self._able):
            met, last = meet(), min(place + size, len(self._able))
            may_gain = np.flatnonzero(self._may_gain(place, last, met)) + place
            place, size = last, min(2 * size, MOST)
            for index in may_gain.tolist():
                yield self._able[index]
                if meet() is not met:
                    place, size = index + 1, FEWEST
                    break

    def _may_gain(self, first: int, last: int, met: AllTerms) -> BoolArray:
        """Whether they could, of the jobs from `first` to before `last`."""
        rows = slice(int(self._firsts[first]), int(self._firsts[last]))
        jobs = self._job[rows]
        gangs = self._meet(rows, met)
        may_gain = np.zeros(last - first, dtype=bool)
        for which, bounded in (
            (self._planned[jobs], self._may_shorten),
            (~self._planned[jobs], self._may_go_on),
            (self._easings[jobs] < met.easings, self._may_finish),
        ):
            some = np.flatnonzero(which & ~may_gain[jobs - first])
            if len(some):
                may_gain[jobs[some[bounded(rows, gangs, some)]] - first] = True
        return may_gain

    def _meet(self, rows: slice, met: AllTerms) -> GangTerms:
        """What the gangs of these rows meet."""
        pairs, which = np.unique(self._pair[rows], return_inverse=True)
        terms = [met.of(self._pairs[pair]) for pair in pairs.tolist()]
        tables = [(each.limits.most, each.worker, each.ps) for each in terms]
        room, worker, ps = tables[0] if len(tables) == 1 else map(np.concatenate, zip(*tables, strict=True))
        most = np.minimum(
            room[3 * which + self._central[rows]], self._beside[rows] + self._by_ps[rows] * room[3 * which + 2]
        )
        which = which * len(terms[0].worker) + self._payer[rows]
        most = np.minimum(most, self._largest[rows])
        slots = np.maximum(self._lengths - self._save[rows], 0.0)
        fits = (most >= self._fewest[rows]) & (slots > 0)
        each = np.where(slots > 0, slots, 1.0) * self._rate[rows]
        costs = worker[which], self._least_ps[rows] * ps[which]
        return GangTerms(most, self._fewest[rows], *costs, each, fits)

    def _may_shorten(self, rows: slice, gangs: GangTerms, which: IntArray) -> BoolArray:
        """Whether a piece could shorten the run at home by more than it costs: by one slot, with as many workers as
        that takes, or by more, at a price for each mini-batch that is least for the largest gang."""
        gangs, job = gangs.of(which), self._job[rows][which, None]
        work = gangs.most * gangs.each
        soonest = (self._work[job] - work * (1.0 + SLACK)) / self._rate_at_home[job] * (1.0 - SLACK) - SLACK
        soonest = np.maximum(np.ceil(soonest).astype(np.int64), 1)
        left = self._left[job]
        where = self._home_firsts[job] + np.minimum(soonest, left) - 1
        few = np.maximum(np.ceil(self._least_work[job] / gangs.each - SLACK), gangs.fewest)
        pays = self._least_gain[job] > (few * gangs.worker + gangs.ps) * (1.0 - SLACK)
        pays |= self._home_prices[where] * work > (gangs.most * gangs.worker + gangs.ps) * (1.0 - SLACK)
        pays &= self._home_gains[where] > (gangs.fewest * gangs.worker + gangs.ps) * (1.0 - SLACK)
        return (gangs.fits & (soonest <= left) & pays).any(axis=1)

    def _may_go_on(self, rows: slice, gangs: GangTerms, which: IntArray) -> BoolArray:
        """Whether a piece could pay for a job without a schedule at home. The share that is done is linear in the
        workers, and so is the price, if the end is bounded by that of the largest gang: so of one length the largest
        that leaves something is the best, or the smallest is."""
        gangs = gangs.of(which)
        most, each = np.maximum(gangs.most, gangs.fewest), gangs.each
        rest, whole = self._rest[rows][which], self._whole[rows][which]
        rate = self._rate[rows][which]
        left = rest * (1.0 - SLACK) / (most * rate) - each / rate  # slots, at the rate of the largest
        ends = self._lengths + np.maximum(np.ceil(left - SLACK), 1.0)
        worth = self._values(self._job[rows][which], self._since[rows][which] + ends)
        workers = np.maximum(np.minimum(most, rest / each), gangs.fewest)
        done = 1.0 - rest / whole + SLACK
        gain = worth * each * ((1.0 + SLACK) / whole) - gangs.worker  # by a worker more
        gains = done * worth - gangs.ps + np.maximum(workers * gain, gangs.fewest * gain)
        return (gangs.fits & (gains > self._enough[self._job[rows][which], None])).any(axis=1)

    def _may_finish(self, rows: slice, gangs: GangTerms, which: IntArray) -> BoolArray:
        """Whether runs that finish jobs could bring more than these have."""
        gangs = gangs.of(which)
        rate, rest = self._rate[rows][which], self._rest[rows][which]
        needed = np.maximum(gangs.fewest, (rest - 1.0) / (rate * self._lengths))
        worth = self._values(self._job[rows][which], self._since[rows][which] + self._lengths)
        gains = worth - needed * gangs.worker * (1.0 - SLACK) - gangs.ps * (1.0 - SLACK)
        return ((needed <= gangs.most) & (gains > self._enough[self._job[rows][which], None])).any(axis=1)


@dataclass(frozen=True, eq=False)
class GangTerms:
    """What gangs of each sort meet for 1, 2, ... slots on end, (rows, slots)."""

    most: FloatArray  # workers that there may be room for
    fewest: FloatArray  # (rows, 1) of the smallest gang
    worker: FloatArray  # credits for a worker, at least
    ps: FloatArray  # credits for the parameter servers of any, at least
    each: FloatArray  # mini-batches of a worker before the save; above 0
    fits: BoolArray  # whether there may be room for any that does something before the save

    def of(self, rows: IntArray) -> GangTerms:
        """What some of the rows meet."""
        return GangTerms(
            self.most[rows], self.fewest[rows], self.worker[rows], self.ps[rows], self.each[rows], self.fits[rows]
        )


# -- what never changes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sorts:
    """The sorts of gangs that a job may have: a pair of types, and a placement on one server or on several."""

    pairs: tuple[Pair, ...]  # of each sort
    table: FloatArray  # (sorts, 7) on one server or not, workers of the smallest gang and of the largest, mini-batches
    # of a worker in a slot at best, parameter servers of any gang, workers beside them, and those elsewhere that one of
    # them is enough for


_sorts: WeakKeyDictionary[Cluster, WeakKeyDictionary[Job, dict[bool, Sorts]]] = WeakKeyDictionary()


def _sorts_of(jobs: Sequence[Job], cluster: Cluster, exact: bool) -> list[Sorts]:
    """Of each job. Remembered."""
    of_cluster, sorts = _sorts.setdefault(cluster, WeakKeyDictionary()), []
    for job in jobs:
        of_job = of_cluster.get(job)
        if of_job is None:
            of_job = of_cluster[job] = {}
        if exact not in of_job:
            of_job[exact] = _list_sorts(job, cluster, exact)
        sorts.append(of_job[exact])
    return sorts


def _list_sorts(job: Job, cluster: Cluster, exact: bool) -> Sorts:
    fewest = job.max_workers if exact else max(job.min_workers, 1)
    pairs, rows = [], []
    for pair in candidates(job, cluster, exact=exact).pairs:
        for central in (True, False):
            least = fewest if central else max(fewest, 2)
            if least <= job.max_workers:
                types = pair.worker_type, pair.ps_type
                rate = booked_rate(job, cluster, types, 1 if central else 2, centralized=central)
                pairs.append(pair)
                beside = 0 if central else beside_ps(cluster, pair.worker.demand)
                by_ps = ANY if central or pair.ps.absent else pair.ps.mbps / pair.worker.mbps * (1.0 + SLACK)
                rows.append((central, least, job.max_workers, rate, pair.least_ps, beside, by_ps))
    return Sorts(tuple(pairs), np.array(rows, dtype=np.float64).reshape(-1, 7))


# -- what is at home ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GainsAtHome:
    """What a piece may cost that leaves 1, 2, ... slots of a run at home or more, (slots,) as long as it is sooner
    done."""

    rate: float  # mini-batches in a slot there; 0: nothing is planned
    prices: FloatArray  # credits for a mini-batch of the piece, if it saves two slots or more
    gains: FloatArray  # credits for all of it
    least_work: float  # mini-batches that save one slot


_NOT_PLANNED = GainsAtHome(0.0, np.zeros(0), np.zeros(0), 0.0)
_at_home_before: WeakKeyDictionary[Job, tuple[tuple[object, ...], GainsAtHome]] = WeakKeyDictionary()


def _at_home(cluster: Cluster, prospect: Prospect) -> GainsAtHome:
    """Remembered: a plan that is kept stays the same from window to window."""
    planned, rest, job = prospect.floor, prospect.rest, prospect.rest.job
    if planned is None or not planned.allocation:
        return _NOT_PLANNED
    key = (cluster, planned, rest.work, prospect.has)
    before = _at_home_before.get(job)
    if before is not None and before[0] == key:
        return before[1]
    rate = minibatches_at_home(cluster, planned, job)
    slots = np.arange(1, end_at_home(cluster, planned, rest) - planned.start)
    enough = prospect.has - SLACK * max(1.0, abs(prospect.has))
    gains = np.asarray(job.value(planned.start - job.arrival + slots)) - enough
    work = rest.work - SLACK - slots * (rate * (1.0 + SLACK))  # that a piece must do
    prices = np.where(work > 0, gains / np.where(work > 0, work, 1.0), np.where(gains > 0, ANY, 0.0))
    prices[-1:] = 0.0
    least_work = float(work[-1]) if len(work) else 0.0
    at_home = GainsAtHome(rate, np.maximum.accumulate(prices[::-1])[::-1], gains, least_work)
    _at_home_before[job] = key, at_home
    return at_home
