"""The worker-slot program: the cheapest way to collect W worker-slots by each completion slot (rule O10).

    row_t[x] = min over 0 <= y <= n of cost_t(y) + row_{t-1}[x - y],     row_{first-1} = (0, inf, inf, ...)

One forward table serves every completion slot: the cost of ending at t is row_t[W]. Ties take the fewest workers in
the later slot, so that work goes early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.types import FloatArray


@dataclass
class Table:
    """The forward table, made slot by slot. `curves` is (slots, most + 1); `work` the worker-slots to collect."""

    curves: FloatArray
    work: int

    def __post_init__(self) -> None:
        self.most = self.curves.shape[1] - 1
        self.row = np.full(self.work + 1, np.inf)
        self.row[0] = 0.0
        self.choices: list[tuple[int, npt.NDArray[np.int64]]] = []

    def costs(self) -> Iterator[float]:
        """The least cost of collecting the work by slot 0, 1, ...; infinite while it cannot be done."""
        slots = len(self.curves)
        for slot, curve in enumerate(self.curves):
            low = max(0, self.work - self.most * (slots - 1 - slot))  # less could not be made up any more
            high = min(self.work, self.most * (slot + 1))  # more cannot have been collected yet
            self._advance(curve, low, high)
            yield float(self.row[self.work])

    def _advance(self, curve: FloatArray, low: int, high: int) -> None:
        finite = int(np.isfinite(curve).sum())  # costs rise, so the finite ones come first
        if finite <= 1:  # nobody can work in this slot
            self.choices.append((low, np.zeros(max(0, high - low + 1), dtype=np.int64)))
            return
        padded = np.concatenate([np.full(finite - 1, np.inf), self.row])
        earlier = np.lib.stride_tricks.sliding_window_view(padded, finite)[low : high + 1, ::-1]  # [x, y] is row[x - y]
        sums = earlier + curve[:finite]
        best = np.argmin(sums, axis=1)
        row = np.full(self.work + 1, np.inf)
        row[low : high + 1] = sums[np.arange(len(best)), best]
        self.row = row
        self.choices.append((low, best))

    def workers(self, last: int) -> list[int]:
        """Workers in the slots 0 .. last of the cheapest way to end at `last`."""
        counts, left = [0] * (last + 1), self.work
        for slot in range(last, -1, -1):
            low, best = self.choices[slot]
            if left >= low and left - low < len(best):
                counts[slot] = int(best[left - low])
            left -= counts[slot]
        return counts
