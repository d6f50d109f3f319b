"""Minima of one sequence over windows of any length, from a table of windows of doubling lengths."""

from __future__ import annotations

import numpy as np

from scheduling.core.policies.astraea.candidates import IntArray

MOST = np.iinfo(np.int32).max  # that the table can hold


class WindowMinimum:
    """Minima of (slots,) values; `beyond` stands for every slot after the last.

    Any window is covered by two of the table's windows of half its length or more, so that a minimum takes two
    look-ups. The table has log2(slots) + 1 levels.
    """

    def __init__(self, values: IntArray, beyond: int) -> None:
        self.slots = len(values)
        levels = max(self.slots.bit_length(), 1)
        self.table = np.full((levels, 2 * self.slots + 1), beyond, dtype=np.int32)
        self.most = np.full(levels, beyond)  # of windows of 2 ** level slots or more
        if beyond > MOST or (values != beyond).any():  # else the table is right as it is: nothing is reserved yet
            self.update(values, 0, self.slots)
            self.most = self.table[:, : self.slots].max(axis=1, initial=beyond)

    def update(self, values: IntArray, begin: int, end: int) -> None:
        """The values in [begin, end) have fallen; `most` stays what it was, an upper bound."""
        self.table[0, begin:end] = np.minimum(values[begin:end], MOST)
        for level in range(1, len(self.table)):
            half, last = 1 << (level - 1), self.table[level - 1]
            first = max(begin - 2 * half + 1, 0)
            np.minimum(last[first:end], last[first + half : end + half], out=self.table[level, first:end])

    def rows(self, levels: IntArray, durations: IntArray, starts: IntArray) -> IntArray:
        """(candidates, starts) minima over [start, start + duration); level is the logarithm of the duration.

        Needs starts + duration <= 2 * slots + 1 and levels of the table.
        """
        base = (levels * self.table.shape[1])[:, None] + starts
        flat = self.table.ravel()
        return np.minimum(flat.take(base), flat.take(base + (durations - (1 << levels))[:, None]))
