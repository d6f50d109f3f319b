"""Where a page of a sorted table ends: the row's sorted value and its key, written so that an address can carry it.

Rows without a value come last, whichever way the table is sorted.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db.models import F, Q, QuerySet

Rows = QuerySet[Any]
MOST_LETTERS = 1_000


@dataclass(frozen=True)
class Place:
    value: Any
    key: Any


def in_order(rows: Rows, order: str, key: str, down: bool, *, backwards: bool = False) -> Rows:
    by, tie = F(order), F(key)
    if down == backwards:  # upwards
        first = by.asc(nulls_first=True) if backwards else by.asc(nulls_last=True)
        return rows.order_by(first, tie.asc())
    first = by.desc(nulls_first=True) if backwards else by.desc(nulls_last=True)
    return rows.order_by(first, tie.desc())


def after_place(rows: Rows, order: str, key: str, place: Place | None, down: bool) -> Rows:
    if place is None:
        return rows
    beyond, following = ("lt" if down else "gt"), Q(**{f"{key}__{'lt' if down else 'gt'}": place.key})
    if place.value is None:
        return rows.filter(Q(**{f"{order}__isnull": True}) & following)
    same = Q(**{order: place.value}) & following
    return rows.filter(Q(**{f"{order}__{beyond}": place.value}) | same | Q(**{f"{order}__isnull": True}))


def before_place(rows: Rows, order: str, key: str, place: Place, down: bool) -> Rows:
    before, preceding = ("gt" if down else "lt"), Q(**{f"{key}__{'gt' if down else 'lt'}": place.key})
    if place.value is None:
        return rows.filter(Q(**{f"{order}__isnull": False}) | (Q(**{f"{order}__isnull": True}) & preceding))
    same = Q(**{order: place.value}) & preceding
    return rows.filter(Q(**{f"{order}__{before}": place.value}) | same)


def place_of(row: Any, order: str, key: str) -> Place:
    return Place(_read(row, order), _read(row, key))


def _read(row: Any, path: str) -> Any:
    for name in path.split("__"):
        row = getattr(row, name, None)
    return row


def place_write(place: Place) -> str:
    text = json.dumps([_tagged(place.value), _tagged(place.key)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_read(text: str) -> Place | None:
    """None for whatever is no place: an address is the reader's to write."""
    if not text or len(text) > MOST_LETTERS:
        return None
    try:
        value, key = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return Place(_untagged(value), _untagged(key))
    except (ValueError, TypeError, KeyError, binascii.Error, ArithmeticError):
        return None


def _tagged(value: Any) -> Any:
    if isinstance(value, datetime):
        return ["t", value.isoformat()]
    if isinstance(value, date):
        return ["d", value.isoformat()]
    if isinstance(value, Decimal):
        return ["n", str(value)]
    return value if value is None or isinstance(value, bool | int | float) else ["s", str(value)]


_READERS = {"t": datetime.fromisoformat, "d": date.fromisoformat, "n": Decimal, "s": str}


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        tag, text = value
        if "\0" in text:
            raise ValueError("no column holds such a text")
        return _READERS[tag](text)
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("no column holds such a number")
    if isinstance(value, dict | str):
        raise ValueError("a place is written with its tags")
    return value
