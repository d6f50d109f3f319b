"""The reader's time zone, and days in it: what their browser says, if there is such a zone; else UTC.

Today and this month are the reader's own on every page. What is kept by days of UTC for everybody (statements, budgets,
sums of fairness) names that zone here, and says so where it is shown.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest
from django.utils import timezone

COOKIE = "bourse_zone"


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def zone_of(request: HttpRequest) -> tzinfo:
    """A cookie is the reader's to write, so a name is taken only if the machine knows it."""
    name = request.COOKIES.get(COOKIE, "")
    return ZoneInfo(name) if name in _names() else UTC


def day_of(moment: datetime, zone: tzinfo | None = None) -> date:
    """The day that holds the moment: in this zone, or in the reader's."""
    return timezone.localtime(moment, zone).date()


def midnight(day: date, zone: tzinfo | None = None) -> datetime:
    """The first moment of the day: in this zone, or in the reader's. As a moment of UTC, so that the difference of two
    is a length of time also where clocks are changed between them."""
    return datetime.combine(day, time(), zone or timezone.get_current_timezone()).astimezone(UTC)
