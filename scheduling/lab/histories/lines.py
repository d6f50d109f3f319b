"""Lines that cannot be read: named by their number, counted, and tolerated up to one in a hundred."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import BadLine

ONE_IN = 100
LATEST = 2**32  # seconds since 1970: in the year 2106
LONGEST = 3 * 366 * 86_400  # seconds of a run
FEW = 5  # bad lines that a refusal names


class Unreadable(ValueError):
    """What is wrong with a line."""


@dataclass
class Tally:
    """What became of the lines of one log while it is read. `place` is what the log is called in messages."""

    place: str
    strict: bool = False
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    bad: list[BadLine] = field(default_factory=list)

    def unreadable(self, number: int, why: str) -> None:
        """Note a bad line; a strict reading ends here."""
        self.bad.append(BadLine(number, why))
        if self.strict:
            raise BadScenario(f"{self.place}, line {number}", why)

    def check(self) -> None:
        """Refuse a log with too many bad lines."""
        if len(self.bad) * ONE_IN > self.rows:
            first = "; ".join(f"line {bad.number} {bad.why}" for bad in self.bad[:FEW])
            count = f"{len(self.bad):,} of {self.rows:,} lines cannot be read, more than one in {ONE_IN}"
            raise BadScenario(self.place, f"{count}: {first}")


def whole(text: str, what: str, least: int = 0, most: int = 10**12) -> int:
    """An integer of a log, in digits."""
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise Unreadable(f"{what} must be an integer from {least} to {most:,}, not {text[:40]!a}")
    return int(text)
