"""Minima of a sequence over windows of any length, looked up in a table of windows of doubling lengths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduling.core.policies.astraea.ways.candidates import IntArray

MOST = np.iinfo(np.int32).max  # the largest number that the table can hold


class WindowMinimum:
    """Minima of (slots,) values; `beyond` stands for every slot after the last.

    Two of the table's windows, each at least half as long, cover any window, so a minimum takes two look-ups. The
    table has log2(slots) + 1 levels.
    """

    def __init__(self, table: npt.NDArray[np.int32], most: IntArray) -> None:
        self.table, self.slots = table, table.shape[1] // 2
        self.most = most  # (levels,) bounds of the minima over windows of 2 ** level slots or more

    def rows(self, levels: IntArray, durations: IntArray, starts: IntArray) -> IntArray:
        """Return (candidates, starts) minima over [start, start + duration); a level is the logarithm of a duration,
        rounded down.

        It needs starts + duration <= 2 * slots + 1, and levels that the table has.
        """
        base = (levels * self.table.shape[1])[:, None] + starts
        flat = self.table.ravel()
        return np.minimum(flat.take(base), flat.take(base + (durations - (1 << levels))[:, None]))


class WindowMinima:
    """The window minima of several sequences: `values` (sequences, slots), `beyond` (sequences,)."""

    def __init__(self, values: IntArray, beyond: IntArray) -> None:
        sequences, slots = values.shape
        tables = np.empty((sequences, max(slots.bit_length(), 1), 2 * slots + 1), dtype=np.int32)
        tables[:] = np.minimum(beyond, MOST)[:, None, None]
        self._tables = tables
        if (values != beyond[:, None]).any():  # else the tables are right as they are: nothing is reserved yet
            self.update(values, 0, slots)
        most = tables[:, :, : slots + 1].max(axis=2)
        self.each = [WindowMinimum(*one) for one in zip(tables, most, strict=True)]

    def update(self, values: IntArray, begin: int, end: int) -> None:
        """Update the tables after the values in [begin, end) have fallen. `most` stays as it was, as an upper bound."""
        tables = self._tables
        tables[:, 0, begin:end] = np.minimum(values[:, begin:end], MOST)
        for level in range(1, tables.shape[1]):
            half, last = 1 << (level - 1), tables[:, level - 1]
            first = max(begin - 2 * half + 1, 0)
            np.minimum(last[:, first:end], last[:, first + half : end + half], out=tables[:, level, first:end])
