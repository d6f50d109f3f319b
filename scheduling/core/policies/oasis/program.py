"""The worker-slot program: the cheapest way to collect W worker-slots by each completion slot (rule O10).

    row_t[x] = min over 0 <= y <= n of cost_t(y) + row_{t-1}[x - y],     row_{first-1} = (0, inf, inf, ...)

One forward table serves every completion slot: the cost of ending at t is row_t[W]. Ties take the fewest workers in
the later slot, so that work is done early. What the schedules cost in the other measure is counted along.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.types import FloatArray


@dataclass
class WorkTable:
    """The forward table, made slot by slot. `curves` (slots, most + 1) are the costs to minimise, and `work` is the
    number of worker-slots to collect. `beside` are the costs in the other measure, None where both are the same."""

    curves: FloatArray
    work: int
    beside: FloatArray | None = None

    def __post_init__(self) -> None:
        self.most = self.curves.shape[1] - 1
        self.row = np.full(self.work + 1, np.inf)
        self.row[0] = 0.0
        self.row_beside = self.row
        self.choices: list[tuple[int, npt.NDArray[np.int64]]] = []

    def costs(self) -> Iterator[tuple[float, float]]:
        """Yield the least cost of collecting the work by slot 0, 1, ... (infinite while that is impossible), with the
        cost of the same schedule in the other measure."""
        slots = len(self.curves)
        for slot, curve in enumerate(self.curves):
            low = max(0, self.work - self.most * (slots - 1 - slot))  # less could not be made up any more
            high = min(self.work, self.most * (slot + 1))  # more cannot have been collected yet
            self._advance(slot, curve, low, high)
            yield float(self.row[self.work]), float(self.row_beside[self.work])

    def _advance(self, slot: int, curve: FloatArray, low: int, high: int) -> None:
        finite = int(np.isfinite(curve).sum())  # costs rise, so the finite ones come first
        reachable = max(0, high - low + 1)
        if finite <= 1 or not reachable:  # no worker fits in this slot, or no way leads to the end any more
            self.choices.append((low, np.zeros(reachable, dtype=np.int64)))
            return
        padded = np.concatenate([np.full(finite - 1, np.inf), self.row[: high + 1]])
        # [x, y] is row[x - y]: windows of the padded row, read backwards, without a copy
        step = padded.strides[0]
        begin = padded[low + finite - 1 :]
        earlier = np.lib.stride_tricks.as_strided(begin, (reachable, finite), (step, -step), writeable=False)
        sums = earlier + curve[:finite]
        best = np.argmin(sums, axis=1)
        row = np.full(self.work + 1, np.inf)
        row[low : high + 1] = sums[np.arange(len(best)), best]
        self.row_beside = row if self.beside is None else self._beside(self.beside[slot], low, best)
        self.row = row
        self.choices.append((low, best))

    def _beside(self, curve: FloatArray, low: int, best: npt.NDArray[np.int64]) -> FloatArray:
        """Return the row in the other measure, by the same choices."""
        row = np.full(self.work + 1, np.inf)
        before = np.arange(low, low + len(best)) - best  # negative where no way leads, at infinite cost
        row[low : low + len(best)] = np.where(before < 0, np.inf, self.row_beside[before]) + curve[best]
        return row

    def workers(self, last: int) -> list[int]:
        """Return the workers in the slots 0 .. last of the cheapest way to end at `last`."""
        counts, rest = [0] * (last + 1), self.work
        for slot in range(last, -1, -1):
            low, best = self.choices[slot]
            if rest >= low and rest - low < len(best):
                counts[slot] = int(best[rest - low])
            rest -= counts[slot]
        return counts
