"""Handling lines that cannot be read: they are named by their number, counted, and tolerated up to one in a hundred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import BadLine

ONE_IN = 100
LATEST = 2**32  # seconds since 1970: in the year 2106
LONGEST = 3 * 366 * 86_400  # most seconds of a run
FEW = 5  # a refusal names so many bad lines


class Unreadable(ValueError):
    """A line cannot be read. The message says what is wrong with it."""


@dataclass
class Tally:
    """Counts of the lines of one log while it is read. `place` is the name of the log in messages."""

    place: str
    strict: bool = False
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    bad: list[BadLine] = field(default_factory=list)

    def unreadable(self, number: int, why: str) -> None:
        """Note a bad line. A strict reading ends here."""
        self.bad.append(BadLine(number, why))
        if self.strict:
            raise BadScenario(f"{self.place}, line {number}", why)

    def check(self) -> None:
        """Refuse a log with too many bad lines."""
        if len(self.bad) * ONE_IN > self.rows:
            first = "; ".join(f"line {bad.number} {bad.why}" for bad in self.bad[:FEW])
            count = f"{len(self.bad):,} of {self.rows:,} lines cannot be read, more than one in {ONE_IN}"
            raise BadScenario(self.place, f"{count}: {first}")


def heading_of(numbered: Iterator[tuple[int, str]]) -> tuple[int, str]:
    """Return the first line that is not empty, with its number, or an empty one where there is none."""
    for number, line in numbered:
        if line.strip():
            return number, line.rstrip("\r\n")
    return 1, ""


def digits(text: str, most: int) -> int | None:
    """Return the integer from 0 to `most` that the text writes in digits, or None where it writes none."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(most)):
        return None  # the length is checked first: Python reads no integer of thousands of digits
    return number if (number := int(text.lstrip("0") or "0")) <= most else None


def whole(text: str, what: str, most: int = 10**12) -> int:
    """Return an integer of a log, written in digits."""
    if (number := digits(text, most)) is None:
        raise Unreadable(f"{what} must be an integer from 0 to {most:,}, not {text[:40]!a}")
    return number
