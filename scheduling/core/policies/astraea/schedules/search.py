"""The best schedule of one job in a window: the job's own problem, given what is free and what it costs.

All (candidate, start) combinations get an upper bound of their surplus from figures per slot alone: exact for
centralized ones, and for distributed ones with as few parameter servers as any placement could need. The combination
with the best bound is then looked at more closely: first all windows of its candidate are measured on the servers,
which lowers bounds, then the combination itself is tried. This is repeated until no bound is better than the best
surplus found. So the answer is the same as that of trying all combinations, and few are tried.

Shapes: (candidates, starts), where starts are the slots of the window from its beginning.
"""

from __future__ import annotations

import numpy as np

from scheduling.core.policies.astraea.places import placing
from scheduling.core.policies.astraea.schedules.dividend import Dividend
from scheduling.core.policies.astraea.schedules.pieces import Pieces
from scheduling.core.policies.astraea.schedules.schedule import NO_ROOM, TOO_DEAR, TOO_LONG, Schedule, Shortfall
from scheduling.core.policies.astraea.schedules.terms import PairTerms, Terms
from scheduling.core.policies.astraea.ways.candidates import MOST_UNITS, Candidates, IntArray, Pair
from scheduling.core.types import BoolArray, FloatArray

TIE = 1e-9  # surpluses that differ by no more than this part of max(1, |surplus|) are tied (R17)
PAYMENT_TOLERANCE = 1e-9


def generous(least: float) -> float:
    """Return the surplus that a schedule must exceed to be looked at.

    It is a little less than `least`, because the caller decides on exact sums.
    """
    return least - TIE * max(1.0, abs(least))


class Search:
    """The search for one job. `values` (slots,) are the job's values of ending with the window's 1st, 2nd, ... slot."""

    def __init__(
        self,
        ways: Candidates,
        terms: Terms,
        values: FloatArray,
        least: float,
        most_paid: float,
        dividend: Dividend | None = None,
    ) -> None:
        self.dividend = dividend  # what is paid besides the prices; it counts for `most_paid` and for nothing else
        self.ways, self.terms, self.values = ways, terms, values
        self.least = generous(least)
        self.most_paid = most_paid + PAYMENT_TOLERANCE
        self.candidates: IntArray = np.zeros(0, dtype=np.int64)  # indices of the ways worth a look, ascending
        self.tried: dict[tuple[int, int], tuple[float, placing.Spot] | None] = {}  # by (row of candidates, start)
        # (candidates, starts) upper bounds. `open` has -inf for those that were tried, and less where more is known.
        self.bounds = self.open = np.zeros((0, 0))
        self.measured: dict[int, bool] = {}  # by row of candidates: whether its windows were measured as they are now
        self.limited = False  # whether `most_paid` ruled anything out; if not, the answer is the same without it

    def run(self) -> Schedule | Shortfall:
        """Return the best schedule worth more than `least` for at most `most_paid`, or why there is none. Ties: R17."""
        shortfall = self._choose()
        if shortfall is not None:
            return shortfall
        self.bounds = self._bounds()
        self.open = self.bounds.copy()
        best = self._best()
        if best is None:
            return self._shortfall()
        return self._schedule(*self._first_of_the_tied(best))

    def _choose(self) -> Shortfall | None:
        """Keep the candidates that could win in the emptiest and cheapest slots, or return why none could. No figure
        depends on a start yet."""
        ways = self.ways
        short = np.flatnonzero(ways.duration <= self.terms.slots)
        if not len(short):
            return Shortfall(TOO_LONG)
        fits, costs = np.zeros(len(short), dtype=bool), np.zeros(len(short))
        for mine, pair in self._by_pair(short):
            terms, rows = self.terms.of(pair), short[mine]
            levels = ways.level[rows]
            most = np.where(ways.central[rows], terms.beside.most[levels], terms.together.most[levels])
            fits[mine] = (ways.workers[rows] <= most) & (ways.least_ps[rows] <= terms.ps.most[levels])
            costs[mine] = ways.workers[rows] * terms.least_worker + ways.least_ps[rows] * terms.least_ps
        if not fits.any():
            return self._too_few(int(short[0]))
        durations = ways.duration[short]
        costs *= durations
        gains = np.where(fits, self._worth(short, durations) - costs, -np.inf)  # no later start is worth more
        self.candidates = short[gains > self.least]
        if len(self.candidates):
            return None
        dearest = int(gains.argmax())
        value = float(self._worth(short, durations)[dearest])
        return Shortfall(TOO_DEAR, value, float(costs[dearest]))

    def _worth(self, candidates: IntArray, ends: IntArray) -> FloatArray:
        """Return what the candidates are worth if they end with the window's 1st, 2nd, ... slot. A later end is worth
        no more."""
        return self.values.take(ends - 1)

    def _by_pair(self, candidates: IntArray) -> list[tuple[slice | BoolArray, Pair]]:
        """Return for each pair of types which of the candidates are its own, as an index into them."""
        pairs = self.ways.pairs
        if len(pairs) == 1:
            return [(slice(None), pairs[0])]
        masks = [(self.ways.pair[candidates] == index, pair) for index, pair in enumerate(pairs)]
        return [(mask, pair) for mask, pair in masks if mask.any()]

    def _bounds(self) -> FloatArray:
        """Return (candidates, starts) upper bounds of the surplus; -inf where the figures per slot leave no room."""
        ways, candidates, slots = self.ways, self.candidates, self.terms.slots
        starts = np.arange(slots - int(ways.duration[candidates].min()) + 1)
        bounds = np.empty((len(candidates), len(starts)))
        for mine, pair in self._by_pair(candidates):
            terms, rows = self.terms.of(pair), candidates[mine]
            ends = np.minimum(ways.duration[rows, None] + starts, slots)
            costs = ways.workers[rows, None] * (terms.paid_worker.take(ends) - terms.paid_worker[: len(starts)])
            costs += ways.least_ps[rows, None] * (terms.paid_ps.take(ends) - terms.paid_ps[: len(starts)])
            fits = self._fits(terms, rows, starts)
            if self.most_paid < np.inf:
                dear = fits & (costs > self.most_paid)
                if dear.any():
                    self.limited = True
                    fits &= ~dear
            bounds[mine] = np.where(fits, self._worth(rows[:, None], ends) - costs, -np.inf)
        return bounds

    def _fits(self, terms: PairTerms, rows: IntArray, starts: IntArray) -> BoolArray:
        """Return (rows, starts) whether the figures per slot leave room in every slot."""
        ways = self.ways
        durations, levels, central = ways.duration[rows], ways.level[rows], ways.central[rows]
        fits = terms.ps.rows(levels, durations, starts) >= ways.least_ps[rows, None]
        for minimum, kind in ((terms.beside, central), (terms.together, ~central)):
            if kind.any():
                free = minimum.rows(levels[kind], durations[kind], starts)
                fits[kind] &= free >= ways.workers[rows[kind], None]
        return fits

    def _best(self) -> float | None:
        """Return the largest surplus above `least` of all schedules that fit, or None if there is none."""
        flat, starts = self.open.ravel(), self.open.shape[1]
        best = -np.inf
        while True:
            where = int(flat.argmax())
            if not flat[where] > max(best, self.least):
                return best if best > -np.inf else None
            trial = self._next(*divmod(where, starts))
            if trial is not None:
                best = max(best, trial[0])

    def _next(self, row: int, start: int) -> tuple[float, placing.Spot] | None:
        """Look closer at one combination: the first time at the windows of its candidate, then at the servers."""
        if row not in self.measured:
            self._tighten(row, fresh=False)
            return None
        trial = self._try(row, start)
        self.open[row, start] = -np.inf
        if trial is None and not self.measured[row]:
            self._tighten(row, fresh=True)
        return trial

    def _tighten(self, row: int, *, fresh: bool) -> None:
        """Lower a candidate's open bounds by what its windows hold, server by server.

        How many workers one server can run beside the parameter servers determines how many of these a distributed gang
        needs.
        """
        ways, candidate = self.ways, self.candidates[row]
        pair, duration, workers = (
            ways.pairs[ways.pair[candidate]],
            int(ways.duration[candidate]),
            ways.workers[candidate],
        )
        terms = self.terms.of(pair)
        windows = terms.space.windows(duration, fresh=fresh)
        self.measured[row] = terms.space.is_fresh(windows)
        reach = len(windows.beside)  # starts from which the candidate ends within the window
        bounds, tight = self.bounds[row, :reach], self.open[row, :reach]
        if ways.central[candidate]:
            tight[windows.beside < workers] = -np.inf
            return
        ps = pair.needs[workers - np.minimum(windows.beside, min(int(workers) - 1, MOST_UNITS))]
        more = (ps - ways.least_ps[candidate]) * (terms.paid_ps[duration : duration + reach] - terms.paid_ps[:reach])
        np.minimum(tight, bounds - more, out=tight)
        tight[(windows.together < workers) | (ps > np.minimum(windows.most_ps, ways.most_ps))] = -np.inf

    def _first_of_the_tied(self, best: float) -> tuple[int, int, placing.Spot]:
        """Return (row, start, spot) of the earliest start, then first candidate, among the best within tolerance."""
        enough = best - TIE * max(1.0, abs(best))
        tied = {key for key, trial in self.tried.items() if trial is not None and trial[0] >= enough}
        tied.update(zip(*(axis.tolist() for axis in np.nonzero(self.open >= enough)), strict=True))
        for row, start in sorted(tied, key=lambda key: (key[1], key[0])):
            trial = self.tried.get((row, start))
            while trial is None and self.open[row, start] >= enough:
                trial = self._next(row, start)
            if trial is not None and trial[0] >= enough:
                return row, start, trial[1]
        raise AssertionError("the best schedule is one of the tied")

    def _try(self, row: int, start: int) -> tuple[float, placing.Spot] | None:
        """Return (surplus, spot) of one combination on the servers, or None where it does not fit or costs too much."""
        self.tried[row, start] = trial = self._place(row, start)
        return trial

    def _place(self, row: int, start: int) -> tuple[float, placing.Spot] | None:
        ways, candidate, bound = self.ways, self.candidates[row], float(self.bounds[row, start])
        pair, workers = ways.pairs[ways.pair[candidate]], int(ways.workers[candidate])
        terms, end = self.terms.of(pair), start + int(ways.duration[candidate])
        free_workers, free_ps = terms.space.least(start, end)
        if ways.central[candidate]:
            spot = placing.centralized(workers, pair, free_workers, free_ps, self.terms.used)
            worth = self._worth_of(int(candidate), end)
            if spot is None or self._too_dear(pair, workers, spot.ps, start, end, bound, worth):
                return None
            return bound, spot
        most_ps = min(int(terms.limit_ps[start:end].min()), ways.most_ps)
        spot = placing.distributed(workers, pair, free_workers, free_ps, most_ps, self.terms.used)
        if spot is None:
            return None
        more = float((spot.ps - ways.least_ps[candidate]) * (terms.paid_ps[end] - terms.paid_ps[start]))
        worth = self._worth_of(int(candidate), end)
        if worth - bound + more > self.most_paid:
            self.limited = True
            return None
        if self._too_dear(pair, workers, spot.ps, start, end, bound - more, worth):
            return None
        return bound - more, spot

    def _worth_of(self, candidate: int, end: int) -> float:
        return float(self._worth(np.array([candidate]), np.array([end]))[0])

    def _too_dear(self, pair: Pair, workers: int, ps: int, start: int, end: int, surplus: float, worth: float) -> bool:
        """Return whether the dividend raises the payment above its limit. The prices alone were checked before."""
        if self.dividend is None or self.most_paid == np.inf:
            return False
        amounts = workers * pair.worker.demand + ps * pair.ps.demand
        paid = worth - surplus + self.dividend.due(amounts, start, end, surplus)
        self.limited |= paid > self.most_paid
        return paid > self.most_paid

    def _schedule(self, row: int, start: int, spot: placing.Spot) -> Schedule:
        ways, candidate = self.ways, self.candidates[row]
        pair, workers = ways.pairs[ways.pair[candidate]], int(ways.workers[candidate])
        end = start + int(ways.duration[candidate])
        free_workers, _ = self.terms.of(pair).space.least(start, end)
        rows = placing.rows(spot, workers, start, end, free_workers, self.terms.used)
        return Schedule(pair, bool(ways.central[candidate]), start, end, workers, spot.ps, rows, int(candidate))

    def _shortfall(self) -> Shortfall:
        """Return why there is no schedule: too few units, or too scattered where it would pay, or it pays nowhere."""
        bounds = self.bounds
        best = float(bounds.max())
        if best == -np.inf:
            return self._too_few(int(self.candidates[0]))
        row, start = divmod(int(bounds.argmax()), bounds.shape[1])
        if best > self.least:
            return self._too_scattered(int(self.candidates[row]), start)
        value = self._worth_of(int(self.candidates[row]), start + int(self.ways.duration[self.candidates[row]]))
        return Shortfall(TOO_DEAR, value, value - best)

    def _too_few(self, candidate: int) -> Shortfall:
        """Return the units that a candidate lacks where its workers fit best, by the figures per slot."""
        ways = self.ways
        terms, duration = self.terms.of(ways.pairs[ways.pair[candidate]]), ways.duration[[candidate]]
        starts, level = np.arange(self.terms.slots - int(duration[0]) + 1), ways.level[[candidate]]
        workers = (terms.beside if ways.central[candidate] else terms.together).rows(level, duration, starts)[0]
        units, free = int(ways.workers[candidate]), int(workers.max())
        if free < units:
            return Shortfall(NO_ROOM, units=units, free=free)
        ps = terms.ps.rows(level, duration, starts)[0, workers.argmax()]
        return Shortfall(NO_ROOM, units=int(ways.least_ps[candidate]), free=int(ps))

    def _too_scattered(self, candidate: int, start: int) -> Shortfall:
        """Return what a candidate lacks on the servers: workers in reach, or parameter servers together."""
        ways, units = self.ways, int(self.ways.workers[candidate])
        space = self.terms.of(ways.pairs[ways.pair[candidate]]).space
        workers, ps = space.least(start, start + int(ways.duration[candidate]))
        free = int(np.where(ps > 0, workers, 0).max()) if ways.central[candidate] else int(workers.sum(dtype=np.int64))
        if free < units:
            return Shortfall(NO_ROOM, units=units, free=free)
        return Shortfall(NO_ROOM, units=int(ways.least_ps[candidate]), free=int(ps.max()))


class PieceSearch(Search):
    """The search for one piece of a divisible job. What a piece is worth depends on how much work it does (D5)."""

    def __init__(
        self, pieces: Pieces, terms: Terms, least: float, most_paid: float, dividend: Dividend | None = None
    ) -> None:
        super().__init__(pieces.ways, terms, np.zeros(0), least, most_paid, dividend)
        self.pieces = pieces

    def _choose(self) -> Shortfall | None:
        """Keep all pieces: those that could not win were never listed."""
        self.candidates = np.arange(len(self.pieces.work))
        return None if len(self.candidates) else Shortfall(TOO_LONG)

    def _worth(self, candidates: IntArray, ends: IntArray) -> FloatArray:
        return self.pieces.worth(candidates, ends)

    def _fits(self, terms: PairTerms, rows: IntArray, starts: IntArray) -> BoolArray:
        """Return the same as `Search`, from the figures of all stretches if the window is short enough to have them."""
        free, ways = terms.limits.stretches, self.ways
        if free is None:
            return super()._fits(terms, rows, starts)
        lengths, central = ways.duration[rows] - 1, ways.central[rows].astype(np.int64)
        fits = free[central, lengths, : len(starts)] >= ways.workers[rows, None]
        fits &= free[2, lengths, : len(starts)] >= ways.least_ps[rows, None]
        return fits

    def _shortfall(self) -> Shortfall:
        """Return a shortfall without figures, because nobody is shown why there is no piece."""
        return Shortfall(TOO_DEAR)
