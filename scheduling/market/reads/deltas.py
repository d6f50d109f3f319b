"""Write a text as a delta from another one: which rows to copy from the other text, and the new bytes between them.

In canonical JSON a text is a list of rows, and the row of a job that did not change has the same bytes wherever it is.
So rows are compared as bytes, without knowing their meaning, and the text is restored byte by byte. A delta is one line
of JSON, followed by all new bytes. The line is a list of numbers, three for each step: how many of the new bytes come
next, how far from the end of the last copy the next copy begins, and how long that copy is.
"""

from __future__ import annotations

import json
from itertools import accumulate

BETWEEN_ROWS = b"},{"


class Original:
    """A text from which other texts are written as deltas. All rows but the last one end with the separator, which is
    left out here, so that no row is written twice to be compared."""

    def __init__(self, text: bytes) -> None:
        *self._rows, self._last = text.split(BETWEEN_ROWS)
        self._starts = [0, *accumulate(len(row) + len(BETWEEN_ROWS) for row in self._rows)]
        self._place_by_row: dict[bytes, int] = {}
        for place, row in enumerate(self._rows):
            self._place_by_row.setdefault(row, place)

    def delta(self, text: bytes) -> bytes:
        """Return the delta from which `delta_apply` restores the text. Takes time linear in both texts."""
        rows, starts, last = self._rows, self._starts, len(self._rows)
        steps, news, new, end, following = list[int](), list[bytes](), 0, 0, last
        *before, final = text.split(BETWEEN_ROWS)
        for row in before:
            # Prefer the row that follows the last copy: with a row that occurs twice, a copy would break into pieces.
            place = following if following < last and rows[following] == row else self._place_by_row.get(row, -1)
            if place < 0:
                news += [row, BETWEEN_ROWS]
                new, following = new + len(row) + len(BETWEEN_ROWS), last
                continue
            if steps and new == 0 and place == following:
                steps[-1] += starts[place + 1] - starts[place]
            else:
                steps += [new, starts[place] - end, starts[place + 1] - starts[place]]
            new, end, following = 0, starts[place + 1], place + 1
        if final == self._last:
            steps += [new, starts[last] - end, len(final)]
        elif new or final:
            news.append(final)
            steps += [new + len(final), 0, 0]
        return json.dumps(steps, separators=(",", ":")).encode("ascii") + b"\n" + b"".join(news)


def delta_apply(original: bytes, delta: bytes) -> bytes:
    """Restore the text from its delta. Raises ValueError if the delta is invalid, or belongs to another original."""
    line, _, news = delta.partition(b"\n")
    steps = json.loads(line)
    if not isinstance(steps, list) or len(steps) % 3 or not all(type(number) is int for number in steps):
        raise ValueError("it says no steps")
    pieces, offset, end = list[bytes](), 0, 0
    for new, skip, length in zip(steps[::3], steps[1::3], steps[2::3], strict=True):
        start = end + skip
        if new < 0 or length < 0 or not 0 <= start <= start + length <= len(original):
            raise ValueError("it copies what is not there")
        pieces += [news[offset : offset + new], original[start : start + length]]
        offset, end = offset + new, start + length
    if offset != len(news):
        raise ValueError("it has other new bytes than it says")
    return b"".join(pieces)
