"""Jobs for which everything is too dear, found many at a time: the first look of `Search`, over all their ways.

Most jobs that wait could not pay for the cheapest slots of a window even if those had room, and one by one each of them
costs a dozen short arrays to be told so. Between two sales all jobs meet the same prices, so they are looked at some at
a time, more the longer nothing is sold; what was worked out before a sale and not used is forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from scheduling.core.policies.astraea.candidates import Candidates, Pair
from scheduling.core.policies.astraea.round import Round
from scheduling.core.policies.astraea.schedule import TOO_DEAR, Shortfall
from scheduling.core.policies.astraea.search import generous
from scheduling.core.policies.astraea.terms import PairTerms
from scheduling.core.types import FloatArray, Job
from scheduling.core.value import Linear

FEWEST, MOST = 16, 512  # jobs that are looked at together
FAR = np.iinfo(np.int64).max

TermsOf = Callable[[Job, Pair], PairTerms]


class Ahead:
    """The jobs of one pass, in their order, of which those that are too dear are known before their turn.

    Only jobs that are like most are looked at: one pair of types, a linear value, and not to be begun in pieces.
    """

    def __init__(self, round_: Round, jobs: Sequence[Job], may_rent: Callable[[Job], bool]) -> None:
        self.jobs = jobs
        self._known: dict[int, Shortfall] = {}  # by place in the order
        self._until, self._size, self._sales = 0, FEWEST, -1
        alike = [
            (place, job, ways)
            for place, job in enumerate(jobs)
            if type(job.value) is Linear
            and job.number not in round_.rests
            and len((ways := round_.ways(job)).pairs) == 1
            and may_rent(job)
        ]
        self._tabulate(round_, alike)

    def _tabulate(self, round_: Round, alike: Iterable[tuple[int, Job, Candidates]]) -> None:
        """The ways of all these jobs that are not longer than the window, one job's after the other's."""
        places, pairs, rows = [], {}, defaultdict(list)
        for place, _, ways in alike:
            short = ways.duration <= round_.slots
            if not short.any():
                continue
            columns = (ways.workers, ways.least_ps, ways.duration, ways.level, ways.central)
            for number, column in enumerate(columns):
                rows[number].append(column[short])
            places.append(place)
            pairs[place] = ways.pairs[0]
        self._places, self._pairs = np.array(places, dtype=np.int64), pairs
        counts = np.array([len(column) for column in rows[0]], dtype=np.int64)
        self._ends = np.concatenate([[0], np.cumsum(counts)])
        if not places:
            return
        self._workers, self._least_ps, self._duration, self._level, self._central = (
            np.concatenate(rows[number]) for number in range(5)
        )
        of_job = [self.jobs[place] for place in places]
        from_start = round_.settings.value_from == "round_start"
        since = np.array([float(round_.start if from_start else job.arrival) for job in of_job])
        slope, base = np.array([(job.value.slope, job.value.base) for job in of_job], dtype=np.float64).T  # type: ignore[attr-defined]
        elapsed = (round_.start + self._duration) - np.repeat(since, counts)
        self._worth: FloatArray = np.repeat(slope, counts) * elapsed + np.repeat(base, counts)

    def too_dear(self, place: int, sales: int, has: Callable[[Job], float], terms_of: TermsOf) -> Shortfall | None:
        """The answer to the job at this place, where all of its ways are too dear; None: it must be looked at alone.
        `sales`: how many there were so far. `has`: what a job has without buying."""
        if sales != self._sales or place >= self._until:
            self._size = FEWEST if sales != self._sales else min(2 * self._size, MOST)
            self._sales, self._until = sales, place + self._size
            self._known = self._look(place, self._until, has, terms_of)
        return self._known.get(place)

    def _look(self, first: int, last: int, has: Callable[[Job], float], terms_of: TermsOf) -> dict[int, Shortfall]:
        low, high = np.searchsorted(self._places, [first, last]).tolist()
        places = self._places[low:high].tolist()
        if not places:
            return {}
        begin = int(self._ends[low])
        rows, ends = slice(begin, int(self._ends[high])), self._ends[low : high + 1] - begin
        counts, starts = np.diff(ends), ends[:-1]
        terms = [terms_of(self.jobs[place], self._pairs[place]) for place in places]
        fits = self._fit(rows, [self._pairs[place].key for place in places], terms, counts)
        prices = np.array([(each.least_worker, each.least_ps) for each in terms])
        costs = self._workers[rows] * np.repeat(prices[:, 0], counts)
        costs += self._least_ps[rows] * np.repeat(prices[:, 1], counts)
        costs *= self._duration[rows]
        gains = np.where(fits, self._worth[rows] - costs, -np.inf)
        best = np.maximum.reduceat(gains, starts)
        least = np.array([generous(has(self.jobs[place])) for place in places])
        where = np.where(gains == np.repeat(best, counts), np.arange(len(gains)), FAR)
        dearest = np.minimum.reduceat(where, starts)
        return {
            places[index]: Shortfall(TOO_DEAR, float(self._worth[begin + row]), float(costs[row]))
            for index, row in enumerate(dearest.tolist())
            if -np.inf < best[index] <= least[index]
        }

    def _fit(
        self, rows: slice, keys: Sequence[tuple[bytes, bytes]], terms: Sequence[PairTerms], counts: FloatArray
    ) -> FloatArray:
        """Whether there is room for the ways in the emptiest slots, whoever pays."""
        any_of: Mapping[tuple[bytes, bytes], PairTerms] = dict(zip(keys, terms, strict=True))
        workers, least_ps = self._workers[rows], self._least_ps[rows]
        level, central = self._level[rows], self._central[rows]
        fits = np.zeros(len(workers), dtype=bool)
        numbers = {key: number for number, key in enumerate(any_of)}
        of_row = np.repeat([numbers[key] for key in keys], counts)
        for key, each in any_of.items():
            most = np.where(central, each.beside.most[level], each.together.most[level])
            fits |= (of_row == numbers[key]) & (workers <= most) & (least_ps <= each.ps.most[level])
        return fits
