"""How amounts, times and reasons of the market are written for programs."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from scheduling.common.written import numbers_shown as numbers_shown
from tenants.access import Refused, RefusedForMoney
from tenants.api.fields import time_text
from tenants.ledger.amounts import exported


def refusal_numbers(refused: Refused) -> dict[str, Any]:
    """Return the figures that a refusal has beside its code and sentence, written by the interface's rules."""
    assert is_dataclass(refused)  # noqa: S101  every refusal is
    names = [each.name for each in fields(refused) if each.name not in ("code", "sentence", "field")]
    return {name: _figure(refused, getattr(refused, name)) for name in names}


def _figure(refused: Refused, value: Any) -> Any:
    if isinstance(value, datetime):
        return time_text(value)
    return exported(value) if isinstance(refused, RefusedForMoney) else value
