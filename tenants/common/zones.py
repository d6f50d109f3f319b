"""The reader's time zone, and days in it. The zone is the one that the browser names, if there is such a zone, or UTC.

Today and this month are the reader's own on every page. Code about days of UTC, which are the same for everybody
(statements, budgets, sums of fairness), passes UTC to these functions, and the pages say so.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.utils import timezone

COOKIE = "bourse_zone"
HEADER = "Bourse-Zone"  # of the page that asks for a part of it
# People may ask about days from the first to before the second. Near both ends of what a date can hold, no day could be
# added and no zone be set.
EARLIEST, LATEST = date(2000, 1, 1), date(9000, 1, 1)


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def zone_of(request: HttpRequest) -> tzinfo:
    """Return the reader's zone, or that of the page for which a part is read: a reader who travels has pages of both.
    Readers can write anything, so a name is taken only if the machine knows it."""
    name = request.headers.get(HEADER) or request.COOKIES.get(COOKIE, "")
    return ZoneInfo(name) if name in _names() else UTC


def is_within_reach(day: date) -> bool:
    """Return whether people may ask about the day."""
    return EARLIEST <= day < LATEST


def day_read(text: str) -> date | None:
    """Return the day that the text says, or None if it says none, or one that nobody may ask about."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if is_within_reach(day) else None


def day_of(moment: datetime, zone: tzinfo | None = None) -> date:
    """Return the day that contains the moment: in this zone, or in the reader's."""
    return timezone.localtime(moment, zone).date()


def midnight(day: date, zone: tzinfo | None = None) -> datetime:
    """Return the first moment of the day in this zone, or in the reader's. It is a moment of UTC, so that the
    difference of two is a length of time even if clocks are changed between them."""
    return datetime.combine(day, time(), zone or timezone.get_current_timezone()).astimezone(UTC)
