"""The forward program over slots: the least cost of collecting the quanta of a job by each slot (O10 with P4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.pdors.work import IntArray
from scheduling.core.types import FloatArray


@dataclass
class QuantaTable:
    """The table, made slot by slot. A gang may train more than is left, so at least the work is collected.

    row_t[x] = min over gangs y of cost_t(y) + row_{t-1}[max(0, x - size(y))], and row_t[0] = 0.
    """

    costs_of: FloatArray  # (slots, gangs), the costs to minimise; infinite where a gang has no room
    sizes: IntArray  # (gangs,) rising
    work: int
    beside: FloatArray | None = None  # (slots, gangs) the costs in the other measure; None where the two are the same

    def __post_init__(self) -> None:
        row = np.full(self.work + 1, np.inf)
        row[0] = 0.0
        self.rows, self.row_beside = [row], row
        self.gangs = [_worthwhile(costs) for costs in self.costs_of]
        reach = np.array([self.sizes[gangs[-1]] if len(gangs) else 0 for gangs in self.gangs], dtype=np.int64)
        self.high = np.minimum(np.cumsum(reach), self.work)  # more cannot have been collected yet
        self.low = np.maximum(self.work - (reach.sum() - np.cumsum(reach)), 0)  # less cannot be made up any more

    def costs(self) -> Iterator[tuple[float, float]]:
        """Yield the least cost of collecting the work by slot 0, 1, ... (infinite while that is impossible), with the
        cost of the same schedule in the other measure."""
        for slot in range(len(self.costs_of)):
            row = self._next(slot)
            self.row_beside = row if self.beside is None else self._next_beside(slot, self.beside[slot], row)
            self.rows.append(row)
            yield float(row[self.work]), float(self.row_beside[self.work])

    def _next_beside(self, slot: int, costs: FloatArray, row: FloatArray) -> FloatArray:
        """Return the row after a slot in the other measure, by the choices that `gangs_to` makes."""
        before, open_ = self.rows[-1], np.isfinite(row)
        beside = np.where(open_ & (before == row), self.row_beside, np.inf)
        open_ &= before != row
        work = np.arange(self.work + 1)
        for gang in self.gangs[slot].tolist():
            rest = np.maximum(work - int(self.sizes[gang]), 0)
            matches = open_ & (self.costs_of[slot, gang] + before[rest] == row)
            beside[matches] = costs[gang] + self.row_beside[rest[matches]]
            open_ &= ~matches
        return beside

    def _next(self, slot: int) -> FloatArray:
        """Return the row after a slot. Only entries that can be part of a way to the end are worked out."""
        row, gangs = self.rows[-1], self.gangs[slot]
        if not len(gangs):
            return row
        low, high = int(self.low[slot]), int(self.high[slot]) + 1
        after = np.full(self.work + 1, np.inf)
        after[low:high] = row[low:high]
        sums = np.empty(self.work + 1)
        smaller = 0
        for size, cost in zip(self.sizes[gangs].tolist(), self.costs_of[slot, gangs].tolist(), strict=True):
            alone = after[max(low, smaller + 1) : min(size + 1, high)]
            np.minimum(alone, cost, out=alone)  # this gang alone is enough, and no smaller one is
            begin = max(low, size + 1)
            if begin < high:
                np.add(row[begin - size : high - size], cost, out=sums[begin:high])
                np.minimum(after[begin:high], sums[begin:high], out=after[begin:high])
            smaller = size
        after[0] = 0.0
        return after

    def gangs_to(self, last: int) -> list[int | None]:
        """Return the gang of each slot 0 .. last of the cheapest way to end at `last`. Late slots take the smallest of
        equal gangs, so that work is done early."""
        numbers: list[int | None] = [None] * (last + 1)
        missing = self.work
        for slot in range(last, -1, -1):
            now, before = self.rows[slot + 1][missing], self.rows[slot]
            if missing == 0 or before[missing] == now:
                continue
            for gang in self.gangs[slot].tolist():
                rest = max(0, missing - int(self.sizes[gang]))
                if self.costs_of[slot, gang] + before[rest] == now:
                    numbers[slot], missing = gang, rest
                    break
        return numbers


def _worthwhile(costs: FloatArray) -> IntArray:
    """Return the gangs that cost less than every larger gang, or equal one that comes later. Their sizes and costs
    rise."""
    best_after = np.append(np.minimum.accumulate(costs[::-1])[::-1][1:], np.inf)
    return np.flatnonzero(costs < best_after).astype(np.int64)
