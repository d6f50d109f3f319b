"""Lists as CSV: the whole of one, made as it is sent, with the columns of its JSON lines, flat."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from tenants.api.cursors import ordered
from tenants.api.listing import Listing, Show, rows_chosen

ROWS_AT_ONCE = 500


def csv_of_values(values: Sequence[Any], listing: Listing) -> Iterator[bytes]:
    return csv_of_chunks((values[at : at + ROWS_AT_ONCE] for at in range(0, len(values), ROWS_AT_ONCE)), listing)


def csv_of_chunks(chunks: Iterator[Sequence[Any]], listing: Listing) -> Iterator[bytes]:
    """A header, and then the lines chunk by chunk."""
    columns = columns_of(listing.row())
    yield _line([name for name, _ in columns])
    for chunk in chunks:
        yield _lines(listing, chunk, columns)


def csv_lines(rows: QuerySet[Any], listing: Listing, parameters: Mapping[str, Any], show: Show) -> Iterator[bytes]:
    """The whole filtered list of rows."""
    rows, ordering = rows_chosen(rows, listing, parameters)
    found = iter(ordered(rows, ordering).iterator(chunk_size=ROWS_AT_ONCE))
    return csv_of_chunks((show(chunk) for chunk in iter(lambda: list(islice(found, ROWS_AT_ONCE)), [])), listing)


def columns_of(row: serializers.BaseSerializer[Any], above: tuple[str, ...] = ()) -> list[tuple[str, tuple[str, ...]]]:
    """(name, path) of each column: "reason.code" for a field inside a field."""
    found = []
    for name, inner in row.fields.items():  # type: ignore[attr-defined]
        path = (*above, name)
        if isinstance(inner, serializers.Serializer):
            found += columns_of(inner, path)
        else:
            found.append((".".join(path), path))
    return found


def _lines(listing: Listing, values: Sequence[Any], columns: Sequence[tuple[str, tuple[str, ...]]]) -> bytes:
    shown = listing.row(values, many=True).data
    return b"".join(_line([_cell(row, path) for _, path in columns]) for row in shown)


def _cell(row: Mapping[str, Any] | None, path: Sequence[str]) -> str:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    if value is None:
        return ""
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False)
    return _harmless(str(value))


def _harmless(text: str) -> str:
    """A spreadsheet takes a text that begins like a formula for one; a quote before it says that it is a text."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _line(cells: Sequence[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode()
