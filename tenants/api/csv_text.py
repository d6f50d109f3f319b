"""Lists as CSV: the whole of one, made as it is sent, with the columns of its JSON lines, flat."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from tenants.api.cursors import Cursor, page_of
from tenants.api.listing import Listing, Show, rows_chosen
from tenants.common.csv_files import csv_text
from tenants.common.patience import give_way

ROWS_AT_ONCE = 500


def csv_of_values(values: Sequence[Any], listing: Listing) -> Iterator[bytes]:
    return csv_of_chunks((values[at : at + ROWS_AT_ONCE] for at in range(0, len(values), ROWS_AT_ONCE)), listing)


def csv_of_chunks(chunks: Iterator[Sequence[Any]], listing: Listing) -> Iterator[bytes]:
    """Yield a header, and then the lines chunk by chunk."""
    columns = columns_of(listing.row())
    yield csv_text([[name for name, _ in columns]]).encode()
    for chunk in chunks:
        yield _lines(listing, chunk, columns)


def csv_lines(rows: QuerySet[Any], listing: Listing, parameters: Mapping[str, Any], show: Show) -> Iterator[bytes]:
    """Return the whole filtered list of rows as CSV, in pieces."""
    rows, ordering = rows_chosen(rows, listing, parameters)
    return csv_of_chunks((show(page) for page in _pages(rows, ordering)), listing)


def _pages(rows: QuerySet[Any], ordering: str) -> Iterator[Sequence[Any]]:
    """Yield the rows in pages by cursor, as a caller reads them. Each page is one short query, and nothing is held open
    between two of them, however slowly somebody takes the file."""
    cursor: Cursor | None = None
    while (page := page_of(rows, ordering=ordering, limit=ROWS_AT_ONCE, cursor=cursor)).rows:
        yield page.rows
        if (cursor := page.next) is None:
            return


def columns_of(row: serializers.BaseSerializer[Any], above: tuple[str, ...] = ()) -> list[tuple[str, tuple[str, ...]]]:
    """Return (name, path) of each column. The name of a field inside a field is such as "reason.code"."""
    columns = []
    for name, inner in row.fields.items():  # type: ignore[attr-defined]
        path = (*above, name)
        if isinstance(inner, serializers.Serializer):
            columns += columns_of(inner, path)
        else:
            columns.append((".".join(path), path))
    return columns


def _lines(listing: Listing, values: Sequence[Any], columns: Sequence[tuple[str, tuple[str, ...]]]) -> bytes:
    row = listing.row()

    def cells(value: Any) -> list[object]:
        give_way()
        document = row.to_representation(value)
        return [_cell(document, path) for _, path in columns]

    return csv_text(cells(value) for value in values).encode()


def _cell(row: Mapping[str, Any] | None, path: Sequence[str]) -> object:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | dict | list) else value
