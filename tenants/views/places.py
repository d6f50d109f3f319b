"""The position at which a page of a sorted table ends: the row's sorted value and its key, written for an address.

Rows without a value come last, whichever way the table is sorted.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import F, Q, QuerySet

Rows = QuerySet[Any]
MOST_LETTERS = 1_000
# Its digits are written out. Of 1e99999999, which is as short, a column of whole numbers would make all the digits, and
# nobody else would be answered meanwhile.
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Place:
    value: Any
    key: Any


def in_order(rows: Rows, order: str, key: str, down: bool, *, backwards: bool = False) -> Rows:
    by, tie = F(order), F(key)
    up, last = down == backwards, not backwards
    # For a column that always has a value, this would only keep the database from using its index.
    nulls = ({"nulls_last": True} if last else {"nulls_first": True}) if _may_be_null(rows, order) else {}
    if up:
        return rows.order_by(by.asc(**nulls), tie.asc())
    return rows.order_by(by.desc(**nulls), tie.desc())


def after_place(rows: Rows, order: str, key: str, place: Place | None, down: bool) -> Rows:
    if place is None:
        return rows
    following = Q(**{f"{key}__{'lt' if down else 'gt'}": place.key})
    if place.value is None:
        return rows.filter(Q(**{f"{order}__isnull": True}) & following)
    beyond = _beyond(order, place.value, following, "lt" if down else "gt")
    return rows.filter(beyond | Q(**{f"{order}__isnull": True}) if _may_be_null(rows, order) else beyond)


def before_place(rows: Rows, order: str, key: str, place: Place, down: bool) -> Rows:
    preceding = Q(**{f"{key}__{'gt' if down else 'lt'}": place.key})
    if place.value is None:
        return rows.filter(Q(**{f"{order}__isnull": False}) | (Q(**{f"{order}__isnull": True}) & preceding))
    return rows.filter(_beyond(order, place.value, preceding, "gt" if down else "lt"))


def _beyond(order: str, value: Any, other: Q, side: str) -> Q:
    """Return the condition for rows strictly beyond the position. The first condition is implied by the second; an
    index can start reading there."""
    strictly, same = Q(**{f"{order}__{side}": value}), Q(**{order: value}) & other
    return Q(**{f"{order}__{side}e": value}) & (strictly | same)


def _may_be_null(rows: Rows, order: str) -> bool:
    """Return whether the column may be null; True also where that is unknown: an annotation, or another
    table's column."""
    if order in ("pk", "id"):
        return False
    try:
        return bool(getattr(rows.model._meta.get_field(order), "null", True))
    except FieldDoesNotExist:
        return True


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
    """Read a position from an address, or None where the text is no position: readers can write any address."""
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
        return ["n", f"{value:f}"]
    return value if value is None or isinstance(value, bool | int | float) else ["s", str(value)]


def _decimal(text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise ValueError("no column holds such a number")
    return Decimal(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "t": datetime.fromisoformat,
    "d": date.fromisoformat,
    "n": _decimal,
    "s": str,
}


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        tag, text = value
        if "\0" in text:
            raise ValueError("no column holds such a text")
        return _READERS[tag](text)
    if isinstance(value, int | float) and not abs(value) < 2**63:  # nor is NaN
        raise ValueError("no column holds such a number")
    if isinstance(value, dict | str):
        raise ValueError("a place is written with its tags")
    return value
