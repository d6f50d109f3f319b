"""Tables like those of `tables`, over rows that are computed as a whole: `?sort=`, `?after=`, `?format=csv`.

A position is a row's number, since such a list does not change while somebody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, QueryDict, StreamingHttpResponse

from tenants.common.downloads import csv_download
from tenants.views.tables import (
    Table,
    TablePage,
    head_text,
    header_of,
    kept_of,
    link_to,
    rows_text,
    sort_asked,
    sorting_of,
)


def list_page(query: QueryDict, rows: Sequence[Any], table: Table) -> TablePage:
    """Return one page of the rows, in the requested order. A column's `order` names the attribute that it sorts by."""
    sort, keep = sort_asked(query, table), kept_of(query)
    rows_sorted, start = _sorted(rows, table, sort), _place(query, len(rows))
    following, before = start + table.rows, max(start - table.rows, 0)
    return TablePage(
        rows=rows_sorted[start:following],
        headers=tuple(header_of(column, sort, keep) for column in table.columns),
        sorting=sorting_of(table, sort, keep),
        sort=sort,
        previous=link_to(keep, sort=sort, after=str(before)) if start else "",
        next=link_to(keep, sort=sort, after=str(following)) if following < len(rows_sorted) else "",
        export=link_to(keep, sort=sort, format="csv"),
        first=link_to(keep, sort=sort),
    )


def list_csv(request: HttpRequest, rows: Sequence[Any], table: Table) -> StreamingHttpResponse:
    ordered = _sorted(rows, table, sort_asked(request.GET, table))
    return csv_download(request, table.file, iter([head_text(table), rows_text(table, ordered)]))


def _sorted(rows: Sequence[Any], table: Table, sort: str) -> list[Any]:
    """Sort the rows. Rows without a value come last in both directions, and equal rows keep their order."""
    name, down = sort.removeprefix("-"), sort.startswith("-")
    column = next((column for column in table.columns if column.name == name and column.order), None)
    if column is None:
        return list(rows)
    values = [(getattr(row, column.order), row) for row in rows]
    there = [pair for pair in values if pair[0] is not None]
    there.sort(key=lambda pair: pair[0], reverse=down)
    return [row for _, row in there] + [row for value, row in values if value is None]


def _place(query: QueryDict, rows: int) -> int:
    place_wanted = query.get("after", "")
    start = int(place_wanted) if place_wanted.isascii() and place_wanted.isdigit() and len(place_wanted) < 10 else 0
    return start if start < rows else 0
