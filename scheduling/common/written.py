"""How amounts and times of the market are written for programs: money as decimal texts of credits, times with a Z."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduling.models import Event, Pool
from scheduling.reasons import UNITS, NumberUnit
from tenants.api.fields import time_text
from tenants.ledger.amounts import exported, micro

# The numbers of reasons that are credits of the core, and those that are micro-credits. `paid` is a number of a state
# rather than of a reason.
CREDITS = frozenset(name for name, unit in UNITS.items() if unit == NumberUnit.CREDITS)
MICRO_CREDITS = frozenset(name for name, unit in UNITS.items() if unit == NumberUnit.MICRO_CREDITS) | {"paid"}
# The fields of an event's data that are micro-credits.
EVENT_MONEY = frozenset(
    {
        "amount",
        "arrears",
        "available",
        "hard_limit",
        "held",
        "limit",
        "operator",
        "owners",
        "paid",
        "per_slot",
        "refunded",
        "returned",
        "soft_limit",
        "spent",
    }
)
EVENT_CREDITS = frozenset({"alone"})  # the fields of an event's data that are credits of the core


def numbers_shown(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reason's numbers written by the rules of the API."""
    return {name: _number(name, value) for name, value in numbers.items()}


def event_document(event: Event, pool: Pool | None) -> dict[str, Any]:
    """Return an event as programs get it: in the feed, in the stream, and in the body of a webhook."""
    return {
        "id": event.pk,
        "kind": event.kind,
        "at": time_text(event.at),
        "pool": pool.slug if pool else None,
        "public": event.tenant_id is None,
        "subject": event.subject,
        "data": {name: _datum(name, value) for name, value in event.data.items()},
    }


def _number(name: str, value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name in CREDITS:
            return exported(micro(value))
        return exported(int(value)) if name in MICRO_CREDITS else value
    if isinstance(value, str) and name.endswith("_at"):
        return time_text(datetime.fromisoformat(value))
    return value


def _datum(name: str, value: Any) -> Any:
    if name == "numbers" and isinstance(value, Mapping):
        return numbers_shown(value)
    # Why the instant lane did not take the job, and why a job of an elastic pool is smaller than it could be.
    if name in ("instant", "smaller") and isinstance(value, Mapping):
        return {inner: _datum(inner, each) for inner, each in value.items()}
    if name == "prices" and isinstance(value, Mapping):
        return {resource: _price(each) for resource, each in value.items()}
    if name in EVENT_MONEY and type(value) is int:
        return exported(value)
    if name in EVENT_CREDITS and type(value) is float:
        return exported(micro(value))
    if name == "until" and isinstance(value, str):
        return time_text(datetime.fromisoformat(value))
    return value


def _price(value: Any) -> Any:
    """Write a price: a price of use is one number in micro-credits; posted prices are a pair (lowest, highest) in
    credits of the core."""
    return exported(value) if type(value) is int else [exported(micro(each)) for each in value]
