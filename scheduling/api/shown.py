"""How amounts, times and reasons of the market are written for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from scheduling.services.credits import BeyondFunds
from scheduling.services.jobs import OverBudget
from tenants.access import Refused
from tenants.api.fields import credits_text, time_text
from tenants.ledger.postings import MICRO

# The numbers of reasons that are credits in the core, and those that are micro-credits.
CREDITS = frozenset({"price", "price_at_least", "value", "best_value", "left", "available", "max_price"})
MICRO_CREDITS = frozenset({"paid"})
# Refusals whose numbers are micro-credits.
OF_MONEY = (OverBudget, BeyondFunds)


def numbers_shown(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """A reason's numbers by the interface's rules: money as a decimal text, times with a Z."""
    return {name: _shown(name, value) for name, value in numbers.items()}


def refusal_numbers(refused: Refused) -> dict[str, Any]:
    """The figures that a refusal carries beside its code and sentence, by the interface's rules."""
    assert is_dataclass(refused)  # noqa: S101  every refusal is
    names = [found.name for found in fields(refused) if found.name not in ("code", "sentence", "field")]
    return {name: _figure(refused, getattr(refused, name)) for name in names}


def core_credits_text(amount: float) -> str:
    """Credits of the core, a float, to the micro-credit."""
    return credits_text(round(amount * MICRO))


def _figure(refused: Refused, value: Any) -> Any:
    if isinstance(value, datetime):
        return time_text(value)
    return credits_text(value) if isinstance(refused, OF_MONEY) else value


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name in CREDITS:
            return core_credits_text(value)
        return credits_text(int(value)) if name in MICRO_CREDITS else value
    if isinstance(value, str) and name.endswith("_at"):
        return time_text(datetime.fromisoformat(value))
    return value
