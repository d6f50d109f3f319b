"""The reader's time zone: what their browser says, if there is such a zone; else UTC."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest

COOKIE = "bourse_zone"


@cache
def _known() -> frozenset[str]:
    return frozenset(available_timezones())


def zone_of(request: HttpRequest) -> tzinfo:
    """A cookie is the reader's to write, so a name is taken only if the machine knows it."""
    name = request.COOKIES.get(COOKIE, "")
    return ZoneInfo(name) if name in _known() else UTC
