"""Read which days a page about money shows: a word, a month, or any two dates. For the ledger they are days of the
reader's zone; for statements they are days of UTC, the same for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from tenants.common.zones import day_of, day_read, midnight

WORDS = {"today": "Today", "yesterday": "Yesterday", "week": "This week", "month": "This month"}


@dataclass(frozen=True)
class Days:
    """The days from `first` to `last`, both included. `word` is the word that was asked for, empty for a month or
    dates. `zone` None means the reader's zone."""

    first: date
    last: date
    word: str = ""
    zone: tzinfo | None = UTC

    @property
    def start(self) -> datetime:
        return midnight(self.first, self.zone)

    @property
    def end(self) -> datetime:
        return midnight(self.last + timedelta(days=1), self.zone)

    @property
    def is_month(self) -> bool:
        return self.first.day == 1 and self.last == _month_end(self.first)

    @property
    def is_day(self) -> bool:
        return self.first == self.last

    def has_begun(self, at: datetime) -> bool:
        """Return whether something can have moved in these days."""
        return self.start <= at

    def is_over(self, at: datetime) -> bool:
        """Return whether these days are over, so that nothing more can move in them."""
        return self.end <= at

    @property
    def name(self) -> str:
        """Return the days as a heading names them, such as "May 2026"."""
        if self.is_day:
            return f"{self.first:%A} {self.first.day} {self.first:%B %Y}"
        if self.is_month:
            return f"{self.first:%B %Y}"
        return f"{_short(self.first)} to {_short(self.last)}"

    @property
    def query(self) -> str:
        return f"from={self.first.isoformat()}&to={self.last.isoformat()}"


def days_asked(query: Mapping[str, str], *, at: datetime, default: str, zone: tzinfo | None) -> Days:
    """Read the days from a query: `from` and `to`, or `month` (2026-11), or `period` (a word). Values that cannot be
    read count as missing."""
    today = day_of(at, zone)
    first, last = day_read(query.get("from", "")), day_read(query.get("to", ""))
    if first or last:
        first, last = first or last or today, last or max(today, first or today)
        return Days(min(first, last), max(first, last), zone=zone)
    if month := day_read(f"{query.get('month', '')}-01"):
        return Days(month, _month_end(month), zone=zone)
    word = query.get("period", default)
    return _by_word(word if word in WORDS else default, today, zone)


def _by_word(word: str, today: date, zone: tzinfo | None) -> Days:
    first, last = today, today
    if word == "yesterday":
        first = last = today - timedelta(days=1)
    if word == "week":
        first = today - timedelta(days=today.weekday())
    if word == "month":
        first, last = today.replace(day=1), _month_end(today)
    return Days(first, last, word, zone)


def month_before(first: date) -> Days:
    last = first.replace(day=1) - timedelta(days=1)
    return Days(last.replace(day=1), last)


def month_after(first: date) -> Days:
    after = _month_end(first) + timedelta(days=1)
    return Days(after, _month_end(after))


def _month_end(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def _short(day: date) -> str:
    return f"{day.day} {day:%B %Y}"
