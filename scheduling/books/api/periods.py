"""Which days a question about money is about: a month, or two dates of UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from scheduling.common.api.spans import invalid_parameter
from tenants.api.listing import Filter
from tenants.common.zones import EARLIEST, day_read, midnight

DAY = {"type": "string", "format": "date"}
MONTH = {"type": "string", "pattern": r"^\d{4}-\d{2}$"}


def _day(text: str) -> date:
    day = day_read(text) if len(text) == 10 else None
    if day is None:
        raise ValueError("must be a date such as 2026-03-02")
    return day


def _month(text: str) -> date:
    try:
        return _day(f"{text}-01")
    except ValueError:
        raise ValueError(f"must be a month such as 2026-03, from {EARLIEST:%Y-%m} on") from None


PERIOD = (
    Filter("month", "", MONTH, "A whole month of UTC. Without any of these: the month at hand.", _month),
    Filter("from", "", DAY, "The first day, of UTC.", _day),
    Filter("to", "", DAY, "The last day, which counts.", _day),
)


def period_parameters(parameters: Mapping[str, Any], first: date, last: date) -> dict[str, str]:
    """Return the days as an address says them, so that the next page is of the same days also when the month at hand
    is another one."""
    if "month" in parameters:
        return {}
    return {"from": first.isoformat(), "to": last.isoformat()}


def period_asked(parameters: Mapping[str, Any], *, today: date) -> tuple[datetime, datetime]:
    """Return the period that the parameters ask for, as [start, end)."""
    if "month" in parameters and ("from" in parameters or "to" in parameters):
        raise invalid_parameter("month", "Ask for a month, or for two dates.")
    if "from" in parameters or "to" in parameters:
        first, last = parameters.get("from", EARLIEST), parameters.get("to", today)
        if last < first:
            raise invalid_parameter("to", "The last day comes after the first.")
        return midnight(first, UTC), midnight(last + timedelta(days=1), UTC)
    first = parameters.get("month", today.replace(day=1))
    return midnight(first, UTC), midnight((first + timedelta(days=31)).replace(day=1), UTC)
