"""Reading which days a page of fairness is about. Days are those of UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from scheduling.fairness.read_days import MOST_DAYS, period_of_days
from tenants.common.zones import day_read

LENGTHS = (1, 7, 30, 90)
LENGTHS_ASKED = frozenset(map(str, LENGTHS))
USUAL = 30
TODAY = "today (UTC)"  # a reader elsewhere may have another day


@dataclass(frozen=True)
class DaySpan:
    """Some days, both ends included. `length` is 0 where the reader named two dates."""

    first: date
    last: date
    length: int

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def words(self) -> str:
        if self.length == 1:
            return TODAY
        if self.length:
            return f"the last {self.length} days"
        return f"{self.first:%d %b %Y} to {self.last:%d %b %Y}" if self.days > 1 else f"{self.first:%d %b %Y}"

    @property
    def within(self) -> str:
        """Return the days as a sentence says when something happened, such as "in the last 7 days"."""
        if self.length:
            return TODAY if self.length == 1 else f"in {self.words}"
        return f"from {self.words}" if self.days > 1 else f"on {self.words}"

    @property
    def query(self) -> str:
        return f"days={self.length}" if self.length else f"from={self.first.isoformat()}&to={self.last.isoformat()}"


def span_asked(query: Mapping[str, str], *, today: date) -> DaySpan:
    """Return the days that the address names: by `days`, or by `from` and `to`, of at most as many days as are read at
    once. A value that cannot be read is ignored."""
    days_wanted = query.get("days", "")
    first, last = day_read(query.get("from", "")), day_read(query.get("to", ""))
    if (first or last) and days_wanted not in LENGTHS_ASKED:
        last = last or max(today, first or today)
        first = min(first or last, last)
        return DaySpan(max(first, last - timedelta(days=MOST_DAYS - 1)), last, 0)
    length = int(days_wanted) if days_wanted in LENGTHS_ASKED else USUAL
    return DaySpan(*period_of_days(length, today=today), length)
