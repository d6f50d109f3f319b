"""Whether a job could gain by a piece at all: a bound of what the best one could bring, before any is listed.

Pieces of one length are bounded together: by the most workers that find room for so long on end somewhere in the
window, and by the least that so many slots on end cost anywhere in it. What a piece is worth is bounded by what it does
at the best rate of its kind, and what it costs by its workers. So a job whose bound is no more than what it has buys no
piece, and its pieces need not be listed. Most jobs that wait are of that sort in most windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import mul, truediv
from weakref import WeakKeyDictionary

import numpy as np

from scheduling.core.policies.astraea.candidates import (
    IntArray,
    Pair,
    least_ps_of,
    limit_of_ps,
    pairs_of,
    worker_counts,
)
from scheduling.core.policies.astraea.pieces import Rest, end_at_home, minibatches_at_home
from scheduling.core.policies.astraea.terms import PairTerms, Terms
from scheduling.core.speed import booked_rate
from scheduling.core.types import Cluster, FloatArray, Floor, Job

SLACK = 1e-6  # relative: far more than what sums of floats leave over, so that no bound is ever too low


@dataclass(frozen=True)
class Prospect:
    """A job that may be offered a piece in a window that begins at `start`. `has`: credits that it must beat. `whole`:
    whether a run that finishes it is worth a look; if not, it has been offered one on no worse terms."""

    rest: Rest
    floor: Floor | None  # its schedule at home, where it has one
    start: int
    has: float
    whole: bool

    @property
    def enough(self) -> float:
        """What a bound must exceed."""
        return self.has - SLACK * max(1.0, abs(self.has))

    def may_gain(self, cluster: Cluster, terms: Terms, *, exact: bool) -> bool:
        """Whether any piece could be worth more than it costs and than what the job has. The terms may be better than
        those that it really meets: then it may gain under them if it does under these."""
        for kinds in kinds_of(self.rest.job, cluster, exact=exact):
            gangs = _gangs(kinds, terms.of(kinds.pair), self.rest.job.save_slots)
            if gangs is None:
                continue
            planned = self.floor if self.floor is not None and self.floor.allocation else None
            if self._may_go_on(kinds, gangs) if planned is None else self._may_shorten(kinds, gangs, cluster, planned):
                return True
            if self.whole and gangs.may_do(self.rest.work - 1.0, kinds) and self._may_finish(kinds, gangs):
                return True
        return False

    def _may_go_on(self, kinds: Kinds, gangs: Gangs) -> bool:
        """Of a job without a schedule at home. The share that is done is linear in the workers, and so is the price, if
        the end is bounded by that of the largest gang: so that gang is the best of one length, or hardly any gang."""
        rest, job = self.rest.work, self.rest.job
        left = gangs.part * (kinds.slots * (rest * (1.0 - SLACK))) - gangs.slots  # slots, at the rate of the largest
        ends = gangs.lengths + np.maximum(np.ceil(left - SLACK), 1.0)
        worth = job.value(self.start - job.arrival + ends)
        done = 1.0 - rest / job.work
        shares = gangs.area * (kinds.rate * ((1.0 + SLACK) / job.work)) + (done + SLACK)
        if float(shares.max()) > 1.0:
            return self._may_nearly_end(kinds, gangs, worth)
        gains = shares * worth - gangs.cost
        return bool(max(gains.max(), (done + SLACK) * worth.max() - gangs.least_ps) > self.enough)

    def _may_nearly_end(self, kinds: Kinds, gangs: Gangs, worth: FloatArray) -> bool:
        """The same where the largest gang could do more than is left, so that a smaller one does nearly all of it."""
        rest, job = self.rest.work, self.rest.job
        each = kinds.rate * gangs.slots  # mini-batches of a worker before the save
        workers = np.maximum(np.minimum(gangs.most, rest / each), gangs.fewest)
        done = 1.0 - rest / job.work + SLACK
        gains = (done + workers * each * ((1.0 + SLACK) / job.work)) * worth - workers * gangs.worker - gangs.ps
        return bool(max(gains.max(), done * worth.max() - gangs.least_ps) > self.enough)

    def _may_shorten(self, kinds: Kinds, gangs: Gangs, cluster: Cluster, home: Floor) -> bool:
        """Whether a piece could shorten the run at home by more than it costs: by a price for each mini-batch."""
        rest, job, rates = self.rest.work, self.rest.job, kinds.rates
        most = max(map(mul, rates, gangs.areas)) * (1.0 + SLACK)
        at_home, lasts = minibatches_at_home(cluster, home, job), end_at_home(cluster, home, self.rest) - home.start
        soonest = max(1, math.ceil((rest - most) / at_home * (1.0 - SLACK) - SLACK))
        if not most or soonest >= lasts:
            return False
        price = min(map(truediv, gangs.prices, rates)) * (1.0 - SLACK)
        slots = np.arange(soonest, lasts)  # that could be left at home
        costs = np.maximum(price * (rest - SLACK) - slots * (price * at_home * (1.0 + SLACK)), gangs.least)
        return bool((job.value(home.start - job.arrival + slots) - costs).max() > self.enough)

    def _may_finish(self, kinds: Kinds, gangs: Gangs) -> bool:
        """Whether a run that finishes the job could bring more than it has."""
        job = self.rest.job
        needed = np.maximum(gangs.fewest, (self.rest.work - 1.0) / (kinds.rate * gangs.lengths))
        gains = job.value(self.start - job.arrival + gangs.lengths) - needed * gangs.worker * (1.0 - SLACK)
        return bool(np.where(needed <= gangs.room, gains - gangs.least_ps, -np.inf).max() > self.enough)


# -- what a job's gangs are --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairPlacement:
    """A placement of one pair of types, and the gangs of a job that it allows."""

    central: bool
    workers: IntArray  # (gangs,) ascending
    least_ps: IntArray  # (gangs,) parameter servers that no placement does without; they do not fall

    def largest(self, ps: int) -> int:
        """Workers of the largest gang that so many parameter servers on one server may be enough for; 0 for none."""
        gangs = int(self.least_ps.searchsorted(ps, "right"))
        return int(self.workers[gangs - 1]) if gangs else 0


@dataclass(frozen=True, eq=False)
class Kinds:
    """The placements of one pair of types that a job may have."""

    pair: Pair
    kinds: tuple[PairPlacement, ...]
    rates: tuple[float, ...]  # by kind, mini-batches per worker and slot, at best
    rate: FloatArray  # the same, (kinds, 1)
    slots: FloatArray  # (kinds, 1) of a worker for a mini-batch, at best
    _sizes: dict[int, Sizes] = field(default_factory=dict)

    def sizes(self, ps: int) -> Sizes:
        """Of each kind, with so many parameter servers on one server at most. Remembered."""
        if ps not in self._sizes:
            self._sizes[ps] = tuple(
                (kind.central, 1 << (kind.largest(ps) - 1).bit_length(), int(kind.workers[0])) for kind in self.kinds
            )
        return self._sizes[ps]


Sizes = tuple[tuple[bool, int, int], ...]  # by kind: centralized or not, workers of the largest gang and the smallest
_known: WeakKeyDictionary[Cluster, WeakKeyDictionary[Job, dict[bool, list[Kinds]]]] = WeakKeyDictionary()


def kinds_of(job: Job, cluster: Cluster, *, exact: bool) -> list[Kinds]:
    """By pair of types. Remembered: they never change."""
    of_cluster = _known.get(cluster)
    if of_cluster is None:
        of_cluster = _known[cluster] = WeakKeyDictionary()
    of_job = of_cluster.get(job)
    if of_job is None:
        of_job = of_cluster[job] = {}
    if exact not in of_job:
        of_job[exact] = [each for pair in pairs_of(job) if (each := _kinds(job, cluster, pair, exact)).kinds]
    return of_job[exact]


def _kinds(job: Job, cluster: Cluster, pair: Pair, exact: bool) -> Kinds:
    counts, most_ps, kinds, rates = worker_counts(job, exact=exact), limit_of_ps(job), [], []
    for central in (True, False):
        workers = counts if central else counts[counts >= 2]
        least_ps = least_ps_of(cluster, pair, workers, central)
        workers, least_ps = workers[least_ps <= most_ps], least_ps[least_ps <= most_ps]
        if len(workers):
            types = pair.worker_type, pair.ps_type
            kinds.append(PairPlacement(central, workers, least_ps))
            rates.append(booked_rate(job, cluster, types, 1 if central else 2, centralized=central))
    rate = np.array(rates, dtype=np.float64).reshape(-1, 1)
    return Kinds(pair, tuple(kinds), tuple(rates), rate, 1.0 / rate)


# -- what they meet in a window ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Gangs:
    """The largest and the smallest gang of each kind that there may be room for, (kinds, slots) for 1, 2, ... slots on
    end, and what they cost at least. Where there is none its cost is infinite."""

    lengths: FloatArray  # (slots,)
    slots: FloatArray  # before the save; above 0
    room: FloatArray  # workers of the largest; 0 where there is none
    most: FloatArray  # the same, but as many as the smallest where there is none
    part: FloatArray  # 1 / most
    area: FloatArray  # workers x slots before the save, of the largest; 0 where there is none
    fewest: FloatArray  # (kinds, 1)
    worker: FloatArray  # credits for a worker
    ps: FloatArray  # credits for the parameter servers of any
    cost: FloatArray  # credits for the largest
    areas: list[float]  # by kind, workers x slots of the largest before the save, at most
    whole_areas: list[float]  # by kind, the same where nothing is saved
    prices: list[float]  # by kind, credits for a worker and slot before the save, with a part of the parameter servers
    least: float  # credits for any
    least_ps: float  # credits for the parameter servers of any

    def may_do(self, work: float, kinds: Kinds) -> bool:
        """Whether so many mini-batches could be done in one run that saves nothing."""
        return max(map(mul, kinds.rates, self.whole_areas)) * (1.0 + SLACK) >= work


def _gangs(kinds: Kinds, terms: PairTerms, save: float) -> Gangs | None:
    """None: there is room for none. Remembered: many jobs meet the same."""
    sizes = kinds.sizes(int(terms.ps.most[0]))
    key = (sizes, save, kinds.pair.least_ps)
    if key not in terms.gangs:
        terms.gangs[key] = _measured(sizes, save, kinds.pair.least_ps, terms)
    gangs: Gangs | None = terms.gangs[key]
    return gangs


def _measured(sizes: Sizes, save: float, ps: int, terms: PairTerms) -> Gangs | None:
    room = [terms.limits.most(central) for central, _, _ in sizes]
    most = np.minimum(np.array(room, dtype=np.float64), [[size] for _, size, _ in sizes])
    fewest = np.array([[size] for _, _, size in sizes], dtype=np.float64)
    lengths = np.arange(1.0, most.shape[1] + 1.0)
    slots = np.maximum(lengths - save, 0.0)
    fits = (most >= fewest) & (slots > 0)
    room_left = np.where(most >= fewest, most, 0.0)
    if not room_left.any():
        return None
    most, slots = np.maximum(most, fewest), np.where(slots > 0, slots, 1.0)
    costs, area = terms.least_costs, np.where(fits, most * slots, 0.0)
    for_ps = np.where(fits, ps * costs.ps, np.inf)
    cost = most * costs.worker + for_ps
    return Gangs(
        lengths,
        slots,
        room_left,
        most,
        1.0 / most,
        area,
        fewest,
        costs.worker,
        for_ps,
        cost,
        area.max(axis=1).tolist(),
        (room_left * lengths).max(axis=1).tolist(),
        (cost / (most * slots)).min(axis=1).tolist(),
        float((fewest * costs.worker + for_ps).min()) * (1.0 - SLACK),
        float(ps * costs.ps.min()),
    )
