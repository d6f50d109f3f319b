"""Minima of one sequence over windows of any length, from a table of windows of doubling lengths."""

from __future__ import annotations

import numpy as np

from scheduling.core.policies.astraea.candidates import IntArray


class WindowMinimum:
    """Minima of (slots,) values; `beyond` stands for every slot after the last.

    Any window is covered by two of the table's windows of half its length or more, so that a minimum takes two
    look-ups. The table has log2(slots) + 1 levels.
    """

    def __init__(self, values: IntArray, beyond: int) -> None:
        slots = len(values)
        levels = max(slots.bit_length(), 1)
        self.table = np.full((levels, 2 * slots + 1), beyond, dtype=np.int32)
        self.table[0, :slots] = np.minimum(values, np.iinfo(np.int32).max)
        for level in range(1, levels):
            half, last = 1 << (level - 1), self.table[level - 1]
            np.minimum(last[:slots], last[half : half + slots], out=self.table[level, :slots])
        self.most = self.table[:, :slots].max(axis=1, initial=beyond)  # of windows of 2 ** level slots or more

    def rows(self, levels: IntArray, durations: IntArray, starts: IntArray) -> IntArray:
        """(candidates, starts) minima over [start, start + duration); level is the logarithm of the duration.

        Needs starts + duration <= 2 * slots + 1 and levels of the table.
        """
        base = (levels * self.table.shape[1])[:, None] + starts
        flat = self.table.ravel()
        return np.minimum(flat.take(base), flat.take(base + (durations - (1 << levels))[:, None]))
