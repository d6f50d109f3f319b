"""A tenant's home: its own cells, the floor plan made for its jobs there, and its jobs that run there (G1-G4).

The floor plan is the world in which the tenant is alone. A calendar of that world follows from the floors given so
far; whether a job was really run at home, rented or expired makes no difference to it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.policies.astraea import placing
from scheduling.core.policies.astraea.awards import home_booking
from scheduling.core.policies.astraea.candidates import Candidates, IntArray, Pair, candidates
from scheduling.core.policies.astraea.minima import WindowMinimum
from scheduling.core.policies.astraea.placing import Spot
from scheduling.core.policies.astraea.room import PairRoom, Room
from scheduling.core.policies.astraea.round import Round, cells_of
from scheduling.core.policies.astraea.search import TIE
from scheduling.core.policies.astraea.settings import Settings
from scheduling.core.types import Allocation, BoolArray, Cluster, FloatArray, Floor, Job, View

STARTS_AT_ONCE = 64


def award_at_home(round_: Round, jobs: Sequence[Job], floors: Mapping[int, Floor]) -> None:
    """A job whose floor schedule starts in the window is awarded just that, on its owner's cells, free (G3)."""
    for job in jobs:
        floor = floors.get(job.number)
        if floor is not None and floor.value > 0 and round_.start <= floor.start < round_.end:
            booking = home_booking(round_, job, floor)
            round_.awards[job.number] = booking
            round_.take_home(job, booking)


class Calendar:
    """One tenant's private calendar, (resources, slots, own servers), from slot `origin` on; free beyond its end."""

    def __init__(self, cluster: Cluster, tenant: int, origin: int) -> None:
        cells = cells_of(cluster, tenant)
        self.origin, self.reach = origin, 0  # slots from the origin that may hold a reservation
        self.servers: IntArray = np.flatnonzero(cells.any(axis=0))
        self._local = {int(server): index for index, server in enumerate(self.servers)}
        self._cells = cells[:, self.servers]
        self._hosts = cluster.hosts_workers[self.servers], cluster.hosts_ps[self.servers]
        self._starts, self._ends = [0], {0}
        self._figures: dict[tuple[bytes, bytes], Figures] = {}
        self.room = self._empty(64)

    def reserve(self, floor: Floor, job: Job) -> None:
        """Enter a floor; one that ended before the origin leaves no trace."""
        begin, end = max(floor.start - self.origin, 0), floor.end - self.origin
        if end <= 0 or not floor.allocation:
            return
        self._grow(end + 1)
        self.reach = max(self.reach, end)
        if end not in self._ends:
            self._ends.add(end)
            insort(self._starts, end)
        rows = [replace(row, server=self._local[row.server], start=begin, end=end) for row in floor.allocation]
        self.room.take(rows, job.worker_types[floor.worker_type].demand, job.ps_types[floor.ps_type].demand)
        for figures in self._figures.values():
            figures.update(begin, end)

    def starts(self) -> IntArray:
        """Slots worth considering as a start: the earliest that fits is the origin or the end of a reservation."""
        return np.array(self._starts, dtype=np.int64)

    def figures(self, pair: Pair) -> Figures:
        """Window minima of the figures per slot, for one pair of types."""
        found = self._figures.get(pair.key)
        if found is None:
            found = self._figures[pair.key] = Figures(self.room.of(pair))
        return found

    def used(self, slots: int) -> FloatArray:
        """(own servers,) units reserved in the first slots."""
        free = self.room.free[:, :slots]
        used: FloatArray = (self._cells[:, None, :] - free).sum(axis=(0, 1))
        return used

    def global_rows(self, rows: Iterable[Allocation]) -> tuple[Allocation, ...]:
        """Rows in slots and servers of the cluster."""
        return tuple(
            replace(row, server=int(self.servers[row.server]), start=self.origin + row.start, end=self.origin + row.end)
            for row in rows
        )

    def _grow(self, slots: int) -> None:
        """Hold at least so many slots. The last one is always free and stands for all that follow."""
        held = self.room.free
        if slots > held.shape[1]:
            self.room = self._empty(max(slots, 2 * held.shape[1]), held)
            self._figures.clear()

    def _empty(self, slots: int, held: FloatArray | None = None) -> Room:
        free = np.repeat(self._cells[:, None, :], slots, axis=1)
        if held is not None:
            free[:, : held.shape[1]] = held
        return Room(free, *self._hosts)


class Figures:
    """Bounds of what fits at home over windows, from the figures per slot of a PairRoom, whose last slot is free."""

    def __init__(self, space: PairRoom) -> None:
        self.space = space
        self.beside = WindowMinimum(space.beside, int(space.beside[-1]))
        self.together = WindowMinimum(space.together, int(space.together[-1]))
        self.most_ps = WindowMinimum(space.most_ps, int(space.most_ps[-1]))

    def update(self, begin: int, end: int) -> None:
        """Units were taken in the slots [begin, end)."""
        self.beside.update(self.space.beside, begin, end)
        self.together.update(self.space.together, begin, end)
        self.most_ps.update(self.space.most_ps, begin, end)


@dataclass(frozen=True)
class Kind:
    """Candidates of one pair of types and placement, and what bounds them: (candidates,) each."""

    candidates: IntArray
    durations: IntArray
    levels: IntArray
    workers: WindowMinimum
    ps: WindowMinimum


class FloorSearch:
    """The best schedule of one job at home at no price (G2). Ends are counted from the calendar's origin.

    Value never rises with time, so the best end is the earliest that any candidate can reach; among the schedules
    that are worth as much, R17 decides. For one candidate that is always its earliest start.
    """

    def __init__(self, calendar: Calendar, job: Job, ways: Candidates, used: FloatArray | None) -> None:
        self.calendar, self.job, self.ways, self.used = calendar, job, ways, used
        self.kinds = self._kinds()
        some = np.sort(np.concatenate([kind.candidates for kind in self.kinds] or [np.zeros(0, dtype=np.int64)]))
        self.by_duration = some[np.argsort(ways.duration[some], kind="stable")]
        self.shortest = int(ways.duration[self.by_duration[0]]) if len(some) else 0
        self.tried: dict[tuple[int, int], Spot | None] = {}
        self.blocks: list[tuple[IntArray, BoolArray]] = []  # those looked at so far

    def floor(self) -> Floor:
        """The job's floor: its schedule, or the value 0 without one of positive value."""
        if not self.kinds:
            return Floor(self.job.number)
        starts = self._worthwhile(self.calendar.starts())
        earliest = self._earliest_end(starts)
        if earliest is None or (best := self._value(earliest)) <= 0:
            return Floor(self.job.number)
        return self._as_floor(*self._first_of_the_tied(starts, earliest, self._latest_end(earliest, best)))

    def _value(self, end: int | IntArray) -> float:
        return float(self.job.value(self.calendar.origin + end - self.job.arrival))

    def _worthwhile(self, starts: IntArray) -> IntArray:
        """The starts at which some units are free, and from which the shortest run has a positive value."""
        some = np.zeros(len(starts), dtype=bool)
        for kind in self.kinds:
            fewest = self.ways.workers[kind.candidates[0]]  # candidates come by ascending workers
            some |= (kind.workers.table[0, starts] >= fewest) & (kind.ps.table[0, starts] > 0)
        starts = starts[some]
        ends = self.calendar.origin + starts + self.shortest - self.job.arrival
        return starts[np.asarray(self.job.value(ends)) > 0]

    def _earliest_end(self, starts: IntArray) -> int | None:
        """The earliest end of any schedule that fits; None without one."""
        earliest: int | None = None
        for block, fits in self._blocks(starts):
            if earliest is not None and block[0] + self.shortest >= earliest:
                break
            for column in np.flatnonzero(fits.any(axis=0)):
                earliest = self._earlier_from(int(block[column]), fits[:, column], earliest)
        return earliest

    def _earlier_from(self, start: int, fits: BoolArray, earliest: int | None) -> int | None:
        """The earliest end from one start, if it is before the one known."""
        for candidate in self.by_duration[fits[self.by_duration]]:
            end = start + int(self.ways.duration[candidate])
            if earliest is not None and end >= earliest:
                break
            if self._try(int(candidate), start) is not None:
                return end
        return earliest

    def _latest_end(self, earliest: int, best: float) -> int:
        """The last end that is worth the best value within the tolerance."""
        enough, step = best - TIE * max(1.0, abs(best)), 1
        longest = self.calendar.reach + int(self.ways.duration.max())
        while earliest + step <= longest and self._value(earliest + step) >= enough:
            step *= 2
        low, high = earliest + step // 2, min(earliest + step, longest + 1)  # worth it at low, not at high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._value(middle) >= enough else (low, middle)
        return low

    def _first_of_the_tied(self, starts: IntArray, earliest: int, latest: int) -> tuple[int, int, Spot]:
        """(candidate, start, spot): the earliest start that ends in [earliest, latest], then the first candidate."""
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
        """(starts, (candidates, starts) whether the figures per slot leave room), some starts at a time."""
        for index, begin in enumerate(range(0, len(starts), STARTS_AT_ONCE)):
            if index == len(self.blocks):
                block = starts[begin : begin + STARTS_AT_ONCE]
                self.blocks.append((block, self._fits(block)))
            yield self.blocks[index]

    def _fits(self, starts: IntArray) -> BoolArray:
        ways = self.ways
        fits = np.zeros((len(ways.duration), len(starts)), dtype=bool)
        for kind in self.kinds:
            workers, ps = ways.workers[kind.candidates, None], ways.least_ps[kind.candidates, None]
            enough = kind.workers.rows(kind.levels, kind.durations, starts) >= workers
            fits[kind.candidates] = enough & (kind.ps.rows(kind.levels, kind.durations, starts) >= ps)
        return fits

    def _kinds(self) -> list[Kind]:
        """The candidates that fit into the home when it is at its emptiest, by pair of types and placement.

        A window longer than the calendar reaches into the time when all is free: the calendar's length stands for it.
        """
        ways, slots = self.ways, self.calendar.room.free.shape[1]
        durations, levels = np.minimum(ways.duration, slots), np.minimum(ways.level, slots.bit_length() - 1)
        kinds = []
        for index, pair in enumerate(ways.pairs):
            figures = self.calendar.figures(pair)
            for minimum, central in ((figures.beside, ways.central), (figures.together, ~ways.central)):
                fits = (ways.pair == index) & central & (ways.workers <= minimum.most[0])
                mine = np.flatnonzero(fits & (ways.least_ps <= figures.most_ps.most[0]))
                if len(mine):
                    kinds.append(Kind(mine, durations[mine], levels[mine], minimum, figures.most_ps))
        return kinds

    def _try(self, candidate: int, start: int) -> Spot | None:
        """Where the candidate fits at home from this start; None if nowhere."""
        key = (candidate, start)
        if key not in self.tried:
            self.tried[key] = place_at(self.ways, candidate, self.calendar.room, start, self.used)
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


def place_at(ways: Candidates, candidate: int, room: Room, start: int, used: FloatArray | None) -> Spot | None:
    """Where a candidate fits in a room from a start on, with no limit but the servers and the job's own."""
    pair, workers = ways.pairs[ways.pair[candidate]], int(ways.workers[candidate])
    free_workers, free_ps = room.of(pair).least(start, start + int(ways.duration[candidate]))
    if ways.central[candidate]:
        return placing.centralized(workers, free_workers, free_ps, used)
    return placing.distributed(workers, pair, free_workers, free_ps, ways.most_ps, used)


def plan_floors(settings: Settings, view: View, jobs: Sequence[Job], window: tuple[int, int]) -> list[Floor]:
    """Floors of newly collected jobs, each tenant's one after the other: by priority, arrival, number (G2).

    They start with the coming window, [start, end), or later.
    """
    start, end = window
    calendars = {job.tenant: Calendar(view.cluster, job.tenant, start) for job in jobs}
    for floor in view.floors.values():
        job = view.jobs[floor.job]
        if job.tenant in calendars:
            calendars[job.tenant].reserve(floor, job)
    given = []
    for job in sorted(jobs, key=lambda job: (job.tenant, -job.priority, job.arrival, job.number)):
        calendar = calendars[job.tenant]
        ways = candidates(job, view.cluster, exact=settings.workers == "exact")
        used = calendar.used(end - start) if settings.server_choice == "least_used" else None
        floor = FloorSearch(calendar, job, ways, used).floor()
        calendar.reserve(floor, job)
        given.append(floor)
    return given
