"""The search for the best schedule of one job on its owner's cells alone, at no price (G2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduling.core.policies.astraea.home.calendar import HomeCalendar
from scheduling.core.policies.astraea.places import placing
from scheduling.core.policies.astraea.places.minima import WindowMinimum
from scheduling.core.policies.astraea.places.placing import Spot
from scheduling.core.policies.astraea.schedules.search import TIE
from scheduling.core.policies.astraea.ways.candidates import Candidates, IntArray
from scheduling.core.types import BoolArray, FloatArray, Floor, Job

STARTS_AT_ONCE = 64
FAR = np.iinfo(np.int64).max


class AtHome(NamedTuple):
    """The candidates of one kind that ever fit at home, and their needs, (candidates,) each, with the bounds at home.

    A run longer than the calendar reaches into the time when all is free, so its duration is cut to the calendar's
    length.
    """

    candidates: IntArray
    workers: IntArray
    least_ps: IntArray
    durations: IntArray
    levels: IntArray
    free_workers: WindowMinimum
    free_ps: WindowMinimum


class FloorSearch:
    """The search for the best schedule of one job at home at no price (G2). Ends count from the calendar's origin.

    Value never rises with time, so the best end is the earliest that any candidate can reach. Among the schedules
    that are worth as much, R17 decides: of one candidate it always takes the earliest start.
    """

    def __init__(self, calendar: HomeCalendar, job: Job, ways: Candidates, used: FloatArray | None) -> None:
        self.calendar, self.job, self.ways, self.used = calendar, job, ways, used
        self.kinds = self._kinds()
        self.shortest = min((int(ways.duration[kind.candidates[-1]]) for kind in self.kinds), default=0)
        self.tried: dict[tuple[int, int], Spot | None] = {}
        self.blocks: list[tuple[IntArray, BoolArray]] = []  # those worked out so far

    def floor(self) -> Floor:
        """Return the job's floor: its schedule, or the value 0 if it has none of positive value."""
        starts = self._worthwhile(self.calendar.starts())
        earliest = self._earliest_end(starts)
        if earliest is None or (best := self._value(earliest)) <= 0:
            return Floor(self.job.number)
        return self._as_floor(*self._first_of_the_tied(starts, earliest, self._latest_end(earliest, best)))

    def finds_any(self) -> bool:
        """Return whether the job has a schedule of positive value. At an empty home its shortest runs nearly always
        are one."""
        for kind in self.kinds:
            shortest = int(kind.candidates[-1])
            if self._value(int(self.ways.duration[shortest])) > 0 and self._try(shortest, 0) is not None:
                return True
        earliest = self._earliest_end(self._worthwhile(self.calendar.starts()))
        return earliest is not None and self._value(earliest) > 0

    def _value(self, end: int | IntArray) -> float:
        return float(self.job.value(self.calendar.origin + end - self.job.arrival))

    def _worthwhile(self, starts: IntArray) -> IntArray:
        """Return the starts from which the fewest workers of a kind find room for its shortest run, and from which the
        shortest run of all has a positive value."""
        some = np.zeros(len(starts), dtype=bool)
        for kind in self.kinds:
            level, duration = kind.levels[-1:], kind.durations[-1:]
            some |= kind.free_workers.rows(level, duration, starts)[0] >= kind.workers[0]
        starts = starts[some]
        if not len(starts):
            return starts
        ends = self.calendar.origin + starts + self.shortest - self.job.arrival
        return starts[np.asarray(self.job.value(ends)) > 0]

    def _earliest_end(self, starts: IntArray) -> int | None:
        """Return the earliest end of any schedule that fits; None if none fits."""
        earliest = FAR
        for block, fits in self._blocks(starts):
            if block[0] + self.shortest >= earliest:
                break
            ends = np.where(fits, self.ways.duration[:, None] + block, FAR)
            earliest = min(earliest, self._earliest_of(ends, block, earliest))
        return None if earliest == FAR else earliest

    def _earliest_of(self, ends: IntArray, block: IntArray, best: int) -> int:
        """Return the earliest of these ends (candidates, starts) that is the end of a schedule. If none before `best`
        is, return an end not before `best`."""
        flat = ends.ravel()
        while True:
            where = int(flat.argmin())
            end = int(flat[where])
            candidate, column = divmod(where, len(block))
            if end >= best or self._try(candidate, int(block[column])) is not None:
                return end
            flat[where] = FAR

    def _latest_end(self, earliest: int, best: float) -> int:
        """Return the last end at which the job is still worth the best value, within the tolerance."""
        enough, step = best - TIE * max(1.0, abs(best)), 1
        longest = self.calendar.reach + int(self.ways.duration.max())
        while earliest + step <= longest and self._value(earliest + step) >= enough:
            step *= 2
        low, high = earliest + step // 2, min(earliest + step, longest + 1)  # enough at low, not at high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._value(middle) >= enough else (low, middle)
        return low

    def _first_of_the_tied(self, starts: IntArray, earliest: int, latest: int) -> tuple[int, int, Spot]:
        """Return (candidate, start, spot) of the first schedule that ends in [earliest, latest]: the earliest start,
        then the first candidate."""
        for block, fits in self._blocks(starts):
            ends = self.ways.duration[:, None] + block
            fits = fits & (ends >= earliest) & (ends <= latest)
            for column in np.flatnonzero(fits.any(axis=0)):
                for candidate in np.flatnonzero(fits[:, column]):
                    spot = self._try(int(candidate), int(block[column]))
                    if spot is not None:
                        return int(candidate), int(block[column]), spot
        raise AssertionError("the earliest end belongs to one of the tied")

    def _blocks(self, starts: IntArray) -> Iterator[tuple[IntArray, BoolArray]]:
        """Yield some starts at a time, with (candidates, starts) whether the figures per slot leave room."""
        for index, begin in enumerate(range(0, len(starts), STARTS_AT_ONCE)):
            if index == len(self.blocks):
                block = starts[begin : begin + STARTS_AT_ONCE]
                self.blocks.append((block, self._fits(block)))
            yield self.blocks[index]

    def _fits(self, starts: IntArray) -> BoolArray:
        fits = np.zeros((len(self.ways.duration), len(starts)), dtype=bool)
        for kind in self.kinds:
            workers = kind.free_workers.rows(kind.levels, kind.durations, starts) >= kind.workers[:, None]
            if not workers.any():
                continue
            ps = kind.free_ps.rows(kind.levels, kind.durations, starts) >= kind.least_ps[:, None]
            fits[kind.candidates] = workers & ps
        return fits

    def _kinds(self) -> list[AtHome]:
        """Return the candidates that fit at home when it is emptiest, by pair of types and placement."""
        kinds = []
        for kind in self.ways.kinds:
            figures = self.calendar.figures(kind.pair)
            fitting = figures.fitting(kind)
            if not fitting:
                continue
            levels, durations = kind.level[:fitting], kind.duration[:fitting]
            if durations[0] > self.calendar.slots:
                levels, durations = self.calendar.cut(levels, durations)
            needs = kind.candidates[:fitting], kind.workers[:fitting], kind.least_ps[:fitting]
            kinds.append(AtHome(*needs, durations, levels, figures.workers(kind.central), figures.most_ps))
        return kinds

    def _try(self, candidate: int, start: int) -> Spot | None:
        """Return where the candidate fits at home from this start; None if nowhere."""
        key = (candidate, start)
        if key not in self.tried:
            self.tried[key] = placing.place(self.ways, candidate, self.calendar.room, start, self.used)
        return self.tried[key]

    def _as_floor(self, candidate: int, start: int, spot: Spot) -> Floor:
        ways = self.ways
        pair, end = ways.pairs[ways.pair[candidate]], start + int(ways.duration[candidate])
        free_workers, _ = self.calendar.room.of(pair).least(start, end)
        rows = placing.rows(spot, int(ways.workers[candidate]), start, end, free_workers, self.used)
        return Floor(
            job=self.job.number,
            value=self._value(end),
            start=self.calendar.origin + start,
            end=self.calendar.origin + end,
            allocation=self.calendar.global_rows(rows),
            worker_type=pair.worker_type,
            ps_type=pair.ps_type,
        )
