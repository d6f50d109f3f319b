"""Tables that sort, page and export by their address alone: `?sort=-price`, `?after=...`, `?format=csv`.

A page ends at a row, not at a number of rows: rows that are added meanwhile neither repeat nor hide any, and the
thousandth page costs as much as the first. Filters are the caller's GET form; its fields are kept in every link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict, StreamingHttpResponse
from django.utils import timezone

from tenants.common.csv_files import csv_text
from tenants.common.downloads import csv_download
from tenants.views.places import Place, after_place, before_place, in_order, place_of, place_read, place_write

OWN = ("sort", "after", "before", "format", "part")  # parameters that this module reads; all others are filters
ROWS = 50
_CHUNK = 1_000

Rows = QuerySet[Any]


@dataclass(frozen=True)
class Column:
    """One column. `order` is the field or annotation that it sorts by, "" for none. `value` returns the cell of the
    export; without it the cell is the row's attribute with the column's name."""

    name: str
    label: str
    order: str = ""
    numeric: bool = False
    value: Callable[[Any], object] | None = None

    def of(self, row: Any) -> object:
        return self.value(row) if self.value else getattr(row, self.name)


@dataclass(frozen=True)
class Table:
    """One table. `sort` is its first order, with a minus for descending. `key` tells rows apart, and orders
    equal ones."""

    columns: Sequence[Column]
    sort: str = "-id"
    rows: int = ROWS
    key: str = "pk"
    file: str = "table"


@dataclass(frozen=True)
class Header:
    column: Column
    aria_sort: str  # "" if the column does not sort
    link: str  # it sorts by the column, or the other way round

    @property
    def label(self) -> str:
        return self.column.label

    @property
    def numeric(self) -> bool:
        return self.column.numeric


@dataclass(frozen=True)
class Sorting:
    """The choice of orders as a form, since a narrow screen has no heads to click. `parameters` is all else in the
    address."""

    choices: tuple[tuple[str, str], ...]  # (value in the address, words)
    choice: str
    parameters: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TablePage:
    rows: list[Any]
    headers: tuple[Header, ...]
    sorting: Sorting
    sort: str
    previous: str  # links; "" where there is none
    next: str
    export: str
    first: str  # back to the beginning


def table_of(request: HttpRequest, rows: Rows, table: Table) -> TablePage:
    """Return one page of `rows`. They may be filtered and annotated, but not ordered or cut."""
    sort = sort_asked(request.GET, table)
    order, down = _order(table, sort)
    rows_shown, before, after = _page(request, rows, order, down, table)
    keep = kept_of(request.GET)
    ends = (
        [place_write(place_of(row, order, table.key)) for row in (rows_shown[0], rows_shown[-1])]
        if rows_shown
        else ["", ""]
    )
    return TablePage(
        rows=rows_shown,
        headers=tuple(header_of(column, sort, keep) for column in table.columns),
        sorting=sorting_of(table, sort, keep),
        sort=sort,
        previous=link_to(keep, sort=sort, before=ends[0]) if before else "",
        next=link_to(keep, sort=sort, after=ends[1]) if after else "",
        export=link_to(keep, sort=sort, format="csv"),
        first=link_to(keep, sort=sort),
    )


def asks_csv(request: HttpRequest) -> bool:
    return request.GET.get("format") == "csv"


def csv_response(request: HttpRequest, rows: Rows, table: Table) -> StreamingHttpResponse:
    """Return all rows of the filter as CSV, in the order of the page, without ever holding them all in memory."""
    order, down = _order(table, sort_asked(request.GET, table))
    return csv_download(request, table.file, _lines(rows, order, down, table))


def _lines(rows: Rows, order: str, down: bool, table: Table) -> Iterator[str]:
    yield head_text(table)
    place: Place | None = None
    while True:
        chunk = list(after_place(in_order(rows, order, table.key, down), order, table.key, place, down)[:_CHUNK])
        yield rows_text(table, chunk)
        if len(chunk) < _CHUNK:
            return
        place = place_of(chunk[-1], order, table.key)


def head_text(table: Table) -> str:
    return csv_text([[column.label for column in table.columns]])


def rows_text(table: Table, rows: Iterable[Any]) -> str:
    """Return the rows as CSV. Times are in the reader's zone, as on the page."""
    cells = ([column.of(row) for column in table.columns] for row in rows)
    return csv_text(
        [timezone.localtime(value).isoformat() if isinstance(value, datetime) else value for value in row]
        for row in cells
    )


def sort_asked(query: QueryDict, table: Table) -> str:
    """Return the requested order if the table has it, and otherwise the table's first order."""
    column_wanted = query.get("sort", "")
    can = {column.name for column in table.columns if column.order}
    return column_wanted if column_wanted.removeprefix("-") in can else table.sort


def _order(table: Table, sort: str) -> tuple[str, bool]:
    name = sort.removeprefix("-")
    order = next((column.order for column in table.columns if column.name == name and column.order), name)
    return order, sort.startswith("-")


def _page(request: HttpRequest, rows: Rows, order: str, down: bool, table: Table) -> tuple[list[Any], bool, bool]:
    """Return the rows in order, and whether there are some before and after them. A position that fits no row of this
    table is invented, and is ignored."""
    before, after = (place_read(request.GET.get(name, "")) for name in ("before", "after"))
    try:
        return _cut(rows, order, down, table, before, after)
    except (ValueError, TypeError, ValidationError):
        if before is None and after is None:
            raise
        return _cut(rows, order, down, table, None, None)


def _cut(
    rows: Rows, order: str, down: bool, table: Table, before: Place | None, after: Place | None
) -> tuple[list[Any], bool, bool]:
    most = table.rows + 1
    if before is not None:
        backwards = in_order(rows, order, table.key, down, backwards=True)
        rows_shown = list(before_place(backwards, order, table.key, before, down)[:most])
        return rows_shown[: table.rows][::-1], len(rows_shown) == most, True
    rows_shown = list(after_place(in_order(rows, order, table.key, down), order, table.key, after, down)[:most])
    return rows_shown[: table.rows], after is not None, len(rows_shown) == most


def header_of(column: Column, sort: str, keep: Any) -> Header:
    if not column.order:
        return Header(column, "", "")
    stands = sort.removeprefix("-") == column.name
    up = stands and not sort.startswith("-")
    aria = ("ascending" if up else "descending") if stands else "none"
    return Header(column, aria, link_to(keep, sort=f"-{column.name}" if up else column.name))


def sorting_of(table: Table, sort: str, keep: Any) -> Sorting:
    """Return both directions of each column that sorts; and the table's first order, if that is no column's."""
    choices = [
        (f"{minus}{column.name}", f"{column.label}, {way}")
        for column in table.columns
        if column.order
        for minus, way in (("", "rising"), ("-", "falling"))
    ]
    if choices and table.sort not in dict(choices):
        choices.insert(0, ("", "as they stand"))
    pairs = tuple((name, value) for name, values in keep.lists() for value in values)
    return Sorting(tuple(choices), sort if sort in dict(choices) else "", pairs)


def kept_of(query: QueryDict) -> Any:
    parameters = query.copy()
    for name in OWN:
        parameters.pop(name, None)
    return parameters


def link_to(choices: Any, **values: str) -> str:
    query = choices.copy()
    for name, value in values.items():
        query[name] = value
    return f"?{query.urlencode()}"
