"""Unbroken runs: one gang on the same servers, in slots that follow each other (rule O13).

A gang that does s units of work in a slot takes d = ceil(W / s) slots. On one server, a unit costs in the run what it
costs in its slots together, and as many fit as in the fullest of them. So a run is bought as the gang of one slot is
(O9): from a stall whose rows are the starts of runs of d slots. Among gangs that take equally long only the smallest
can win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.oasis.curves import UnitOffers
from scheduling.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class Offers:
    """The offers of workers and parameter servers, the cheapest first in one measure (net price or price). Their rows
    are slots, or starts of runs."""

    workers: UnitOffers
    ps: UnitOffers


@dataclass(frozen=True, eq=False)
class RunOffers:
    """The runs of one gang, one for each start. `costs` (starts,) are those in the measure that is minimised, infinite
    where the gang does not fit; `beside` are those in the other one."""

    step: int  # units of work in a slot
    slots: int  # how long a run takes
    offers: Offers
    costs: FloatArray
    beside: FloatArray


class RunTable:
    """The cheapest unbroken run for each completion slot, of `slots`; of equally cheap ones that of the fewest workers.

    Runs that begin after the last start cost as much as that one and end later, so they are left out.
    """

    def __init__(self, runs: Sequence[RunOffers], slots: int) -> None:
        self.runs = runs
        self._costs, self._beside = np.full((2, len(runs) + 1, slots), np.inf)  # the last row is that of no run
        for index, run in enumerate(runs):
            ends = slice(run.slots - 1, run.slots - 1 + len(run.costs))
            self._costs[index, ends], self._beside[index, ends] = run.costs, run.beside
        self._best = self._costs.argmin(axis=0)

    def costs(self) -> Iterator[tuple[float, float]]:
        """Yield the least cost of completing in slot 0, 1, ... (infinite where that is impossible), with the cost of
        the same run in the other measure."""
        for slot, index in enumerate(self._best.tolist()):
            yield float(self._costs[index, slot]), float(self._beside[index, slot])

    def workers(self, last: int) -> list[int]:
        """Return the units of work in the slots 0 .. last of the cheapest run that completes in `last`."""
        run = self.runs[int(self._best[last])]
        return [0] * (last + 1 - run.slots) + [run.step] * run.slots

    def place(self, last: int) -> tuple[Offers, int]:
        """Return the offers of that run, and its row in them."""
        run = self.runs[int(self._best[last])]
        return run.offers, last + 1 - run.slots


def gangs_and_slots(gang: Sequence[int], work: int) -> list[tuple[int, int]]:
    """Return (units of work in a slot, slots of the run) of the gangs that can win, the smallest first. `gang`
    (steps + 1,) are the workers for 0, 1, 2, ... units."""
    most_of = {workers: step for step, workers in enumerate(gang) if step}  # what so many workers do at most
    shortest, runs = work + 1, []
    for _, step in sorted(most_of.items()):
        slots = -(-work // step)
        if slots < shortest:
            shortest = slots
            runs.append((step, slots))
    return runs


def over_run(rows: FloatArray, slots: int, starts: int, combine: Callable[[FloatArray, int], FloatArray]) -> FloatArray:
    """Return (resources, starts, servers) what `combine` makes of each `slots` slots on end. All slots after the last
    of `rows` (resources, rows, servers) are like it."""
    missing = max(starts + slots - 1 - rows.shape[1], 0)
    padded = np.concatenate([rows, np.repeat(rows[:, -1:], missing, axis=1)], axis=1) if missing else rows
    return combine(padded[:, : starts + slots - 1], slots)


def sums(rows: FloatArray, slots: int) -> FloatArray:
    """Return the sum of each `slots` rows on end. Each is added up by itself, so that equal rows have equal sums: a
    difference of running sums would carry what is rounded in other rows."""
    starts = rows.shape[1] - slots + 1
    total = rows[:, :starts].copy()
    for later in range(1, slots):
        total += rows[:, later : later + starts]
    return total


def minima(rows: FloatArray, slots: int) -> FloatArray:
    """Return the least of each `slots` rows on end, by windows of 1, 2, 4, ... rows."""
    length = 1
    while 2 * length <= slots:
        rows = np.minimum(rows[:, :-length], rows[:, length:])
        length *= 2
    rest = slots - length
    return np.minimum(rows[:, : rows.shape[1] - rest], rows[:, rest:]) if rest else rows
