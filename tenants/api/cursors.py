"""Pages of a list by cursor: no row twice and none left out, however many are written meanwhile.

A cursor names the last row seen by its place in the order, (value, id); the next page begins behind it. An index on
(value, id) finds that place at once, on the first page and on the thousandth.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

from tenants.api.bodies import text_flaw
from tenants.api.fields import time_text
from tenants.api.problems import FieldError, Problem, ProblemRaised

LONGEST = 2_000


@dataclass(frozen=True)
class Cursor:
    ordering: str  # a field, with "-" before it for falling
    back: bool  # whether the page lies towards the beginning
    value: Any  # of that field, in the row beyond which the page lies
    pk: int

    def text(self) -> str:
        parts = json.dumps([self.ordering, self.back, _plain(self.value), self.pk], separators=(",", ":"))
        return base64.urlsafe_b64encode(parts.encode()).decode().rstrip("=")


@dataclass(frozen=True)
class Page:
    rows: Sequence[Any]
    next: Cursor | None
    previous: Cursor | None


def cursor_read(text: str, ordering: str, rows: QuerySet[Any]) -> Cursor:
    """Return the cursor that the text holds. Only a cursor of this list in this order is accepted."""
    try:
        padded = text + "=" * (-len(text) % 4)
        ordering_read, back, value, pk = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        field = rows.model._meta.get_field(ordering.lstrip("-"))
        good = ordering_read == ordering and type(back) is bool and type(pk) is int and abs(pk) < 2**63
        if not good or len(text) > LONGEST or value is None or text_flaw(str(value)):
            raise ValueError
        cursor = Cursor(ordering_read, back, field.to_python(value), pk)
        if isinstance(cursor.value, int) and abs(cursor.value) >= 2**63:
            raise ValueError
        return cursor
    except (ValueError, TypeError, RecursionError, OverflowError, ValidationError):
        raise bad_cursor() from None


def place_read(text: str) -> int:
    """Return the index at which a page begins, in a list that is computed whole."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise bad_cursor()
    return int(text)


def page_of(rows: QuerySet[Any], *, ordering: str, limit: int, cursor: Cursor | None) -> Page:
    """Return a page of the rows. `ordering` is a field that is never null, with "-" before it for falling. Rows with
    equal values are ordered by id."""
    back = cursor is not None and cursor.back
    rows_beyond = list(_beyond(rows, ordering, back, cursor)[: limit + 1])
    more, rows_beyond = len(rows_beyond) > limit, rows_beyond[:limit]
    if back:
        rows_beyond.reverse()
    if not rows_beyond:
        return Page(rows_beyond, None, None)
    before, after = (more, True) if back else (cursor is not None, more)
    return Page(
        rows_beyond,
        next=_at(rows_beyond[-1], ordering, back=False) if after else None,
        previous=_at(rows_beyond[0], ordering, back=True) if before else None,
    )


def _beyond(rows: QuerySet[Any], ordering: str, back: bool, cursor: Cursor | None) -> QuerySet[Any]:
    falling, field = ordering.startswith("-") != back, ordering.lstrip("-")
    sign = "-" if falling else ""
    if cursor is not None:
        side = "lt" if falling else "gt"
        if field in ("id", "pk"):
            rows = rows.filter(**{f"pk__{side}": cursor.pk})
        else:
            # The database looks up the first condition below, `lte` or `gte`, in its index; `beyond` then leaves out
            # rows with an equal value that do not lie beyond the cursor.
            beyond = Q(**{f"{field}__{side}": cursor.value}) | Q(**{f"pk__{side}": cursor.pk})
            rows = rows.filter(Q(**{f"{field}__{side}e": cursor.value}) & beyond)
    return rows.order_by(f"{sign}pk") if field in ("id", "pk") else rows.order_by(f"{sign}{field}", f"{sign}pk")


def _at(row: Any, ordering: str, *, back: bool) -> Cursor:
    return Cursor(ordering, back, getattr(row, ordering.lstrip("-")), row.pk)


def _plain(value: Any) -> Any:
    return time_text(value) if isinstance(value, datetime) else value


def bad_cursor() -> ProblemRaised:
    sentence = "This is no cursor of this list in this order. Begin anew without it."
    return ProblemRaised(Problem(400, "invalid_cursor", sentence, errors=[FieldError("cursor", "invalid", sentence)]))
