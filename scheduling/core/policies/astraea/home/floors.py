"""The floors of jobs: what each would get if its owner were alone, given once and kept for good (G2, G3).

Most jobs of an owner who asks for far more than it owns find its cells taken for as long as they are worth anything.
What is taken is not given back while a plan is made, so what a job cannot have now it cannot have later either: such
jobs are passed over, many at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from scheduling.core.policies.astraea.home.calendar import HomeCalendar
from scheduling.core.policies.astraea.home.floor_search import FAR, FloorSearch
from scheduling.core.policies.astraea.rules.settings import Settings
from scheduling.core.policies.astraea.ways.candidates import Candidates, IntArray, Pair, candidates
from scheduling.core.policies.astraea.window.awards import home_booking
from scheduling.core.policies.astraea.window.round import Round
from scheduling.core.types import Floor, Job, View

AT_ONCE = 64  # jobs that are bounded together, on what those before them have left


def plan_floors(settings: Settings, view: View, jobs: Sequence[Job], window: tuple[int, int]) -> list[Floor]:
    """Plan the floors of newly collected jobs, each tenant's one after the other: by priority, arrival, number (G2).

    They start in the coming window, [start, end), or later.
    """
    start, end = window
    by_tenant: defaultdict[int, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: (job.tenant, -job.priority, job.arrival, job.number)):
        by_tenant[job.tenant].append(job)
    calendars = {tenant: HomeCalendar(view.cluster, tenant, start) for tenant in by_tenant}
    for floor in view.floors.values():
        job = view.jobs[floor.job]
        if job.tenant in calendars:
            calendars[job.tenant].reserve(floor, job)
    floors, exact = list[Floor](), settings.workers == "exact"
    for tenant, calendar in calendars.items():
        queue = [(job, candidates(job, view.cluster, exact=exact)) for job in by_tenant[tenant]]
        floors += HomeQueue(calendar, queue).floors(settings, calendar, end - start)
    return floors


def award_at_home(round_: Round, jobs: Sequence[Job], floors: Mapping[int, Floor]) -> None:
    """Award each job whose floor schedule starts in the window that schedule, on its owner's cells, free (G3)."""
    for job in jobs:
        floor = floors.get(job.number)
        if floor is not None and floor.value > 0 and round_.start <= floor.start < round_.end:
            booking = home_booking(round_, job, floor)
            round_.awards[job.number] = booking
            round_.take_home(job, booking)


class HomeQueue:
    """Jobs that get their plans at home one after the other, and the least that each of them needs there.

    `emptiest` is a calendar of the owner's cells on which no more is taken than on those that are planned on. The needs
    are in rows, (rows,): one for each kind of a job's ways, a pair of types and a placement, that ever fits.
    """

    def __init__(self, emptiest: HomeCalendar, jobs: Sequence[tuple[Job, Candidates]]) -> None:
        self._jobs = jobs
        self._places = {job.number: place for place, (job, _) in enumerate(jobs)}
        self._kinds: list[tuple[Pair, bool]] = []
        indices: dict[tuple[tuple[bytes, bytes], bool], int] = {}
        rows: list[tuple[int, int, IntArray, IntArray, IntArray]] = []
        for place, (_, ways) in enumerate(jobs):
            for kind in ways.kinds:
                fitting = emptiest.figures(kind.pair).fitting(kind)
                if fitting:
                    index = indices.setdefault((kind.pair.key, kind.central), len(self._kinds))
                    if index == len(self._kinds):
                        self._kinds.append((kind.pair, kind.central))
                    rows.append((place, index, kind.workers[0], kind.duration[fitting - 1], kind.level[fitting - 1]))
        self._rows: IntArray = np.array(rows, dtype=np.int64).reshape(-1, 5).T

    def floors(
        self, settings: Settings, calendar: HomeCalendar, window: int, order: Sequence[int] | None = None
    ) -> Iterator[Floor]:
        """Yield the floor of each job on what those before it leave: its best schedule of positive value, or the value
        0. It is entered in the calendar before the next one is looked for. The coming window has `window` slots.

        `order` has the numbers of the jobs that get one; None for all of them, as they are.
        """
        places = range(len(self._jobs)) if order is None else [self._places[number] for number in order]
        jobs, rows = [self._jobs[place] for place in places], self._in_order(places)
        least_used = settings.server_choice == "least_used"
        for begin in range(0, len(jobs), AT_ONCE):
            some = jobs[begin : begin + AT_ONCE]
            first, last = np.searchsorted(rows[0], (begin, begin + len(some)))
            ends = self._earliest_ends(calendar, rows[:, first:last], begin, len(some))
            for (job, ways), end in zip(some, ends, strict=True):
                floor = Floor(job.number)
                if end < FAR and job.value(calendar.origin + end - job.arrival) > 0:
                    used = calendar.used(window) if least_used else None
                    floor = FloorSearch(calendar, job, ways, used).floor()
                yield floor
                calendar.reserve(floor, job)

    def _in_order(self, places: Sequence[int]) -> IntArray:
        """Return the rows of the jobs at these places, in this order and numbered by it."""
        turn = np.full(len(self._jobs), -1)
        turn[np.asarray(places, dtype=np.int64)] = np.arange(len(places))
        rows = np.vstack([turn[self._rows[0]], self._rows[1:]])[:, turn[self._rows[0]] >= 0]
        return rows[:, rows[0].argsort(kind="stable")]

    def _earliest_ends(self, calendar: HomeCalendar, rows: IntArray, first_job: int, jobs: int) -> list[int]:
        """Return for each job a slot before which none of its schedules ends, counted from the calendar's origin; FAR
        for a job that has none.

        A schedule of a kind takes the kind's fewest workers or more, and its shortest run or longer. So it begins where
        they have room for so long, or later.
        """
        job, kind, workers, duration, level = rows
        starts, ends = calendar.starts(), np.full(len(job), FAR)
        for index in set(kind.tolist()):
            pair, central = self._kinds[index]
            mine = np.flatnonzero(kind == index)
            free = calendar.figures(pair).workers(central)
            room = free.rows(*calendar.cut(level[mine], duration[mine]), starts) >= workers[mine, None]
            begin = room.argmax(axis=1)
            has_any = room[np.arange(len(mine)), begin]
            ends[mine[has_any]] = (starts[begin] + duration[mine])[has_any]
        earliest = np.full(jobs, FAR)
        np.minimum.at(earliest, job - first_job, ends)
        return earliest.tolist()
