"""Write all CSV: a spreadsheet must take each text as a text and each number as a number. And send files piece by piece
while they are made or read."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Protocol, TypeVar

from channels.db import database_sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

from tenants.names import can_be_seen

ROWS_AT_ONCE = 500

Piece = TypeVar("Piece", str, bytes)

# How a formula begins in a spreadsheet; some spreadsheets also accept the wide forms of these signs.
_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_SEPARATORS = frozenset("\t\r\n")
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def csv_text(rows: Iterable[Sequence[object]], *, ends: str = "\r\n") -> str:
    """Return lines of cells. None becomes an empty cell, a number stays a number, and no text can be a formula."""
    out = io.StringIO()
    csv.writer(out, lineterminator=ends).writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def csv_pieces(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the heads, and then the rows, many at a time."""
    yield csv_text([heads])
    following = iter(rows)
    while chunk := list(islice(following, ROWS_AT_ONCE)):
        yield csv_text(chunk)


def csv_download(request: HttpRequest, name: str, pieces: Iterator[Piece]) -> StreamingHttpResponse:
    answer = file_download(request, f"{name}.csv", "text/csv; charset=utf-8", pieces)
    answer["Cache-Control"] = "no-store"
    return answer


def file_download(request: HttpRequest, name: str, kind: str, pieces: Iterator[Piece]) -> StreamingHttpResponse:
    """Return a response that sends a file while it is made, so that it is never in memory as a whole. `kind` is its
    media type."""
    content = _later(pieces) if isinstance(request, ASGIRequest) else pieces
    answer = StreamingHttpResponse(content, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


class Bytes(Protocol):
    """Bytes that can be read once, between any two positions. `version` stays the same while the bytes do."""

    @property
    def size(self) -> int: ...

    @property
    def version(self) -> str: ...

    def pieces(self, start: int, end: int) -> Iterator[bytes]: ...

    def close(self) -> None: ...


def part_download(request: HttpRequest, name: str, content: Bytes) -> StreamingHttpResponse:
    """Return a response with bytes of unknown kind, which are to be saved and never shown. A client that has a part
    asks for the rest by `Range`, and by `If-Range` for the rest of the same version."""
    tag, size, range_header = f'"{content.version}"', content.size, request.headers.get("Range", "")
    same = request.headers.get("If-Range", tag) == tag
    wanted = _part_of(range_header, size) if same and request.method == "GET" else None
    start, end = wanted or (0, size)
    stop = end if request.method == "GET" else start  # a HEAD request reads nothing
    answer = file_download(request, name, "application/octet-stream", content.pieces(start, stop))
    answer._resource_closers.append(content.close)  # type: ignore[attr-defined]  # closed also if nobody reads it
    answer["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    answer["Content-Length"] = str(end - start)
    answer["Accept-Ranges"] = "bytes"
    answer["ETag"] = tag
    answer["X-Content-Type-Options"] = "nosniff"
    if wanted:
        answer.status_code = 206
        answer["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return answer


def _part_of(header: str, size: int) -> tuple[int, int] | None:
    """Return the requested start and end, or None for all of it, also if the request is unreadable or out of range."""
    match = _RANGE.fullmatch(header.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    return (start, end) if start < end else None


def _cell(value: object) -> object:
    """Return the cell for a value. A text that a spreadsheet would take for a formula gets an apostrophe, which marks
    it as a text. Spreadsheets ignore blanks before a formula, so they are ignored here too."""
    if not isinstance(value, str):
        return "" if value is None else value
    blanks = "".join(takewhile(lambda sign: not can_be_seen(sign), value))
    is_formula = value[len(blanks) : len(blanks) + 1] in _FORMULA or not _SEPARATORS.isdisjoint(blanks)
    return f"'{value}" if is_formula and not _NUMBER.fullmatch(value) else value


async def _later(pieces: Iterator[Piece]) -> AsyncIterator[Piece]:
    """Yield the pieces, each made in a thread, while the one before is sent. Between two pieces other requests may use
    the database connection."""
    take = database_sync_to_async(lambda: next(pieces, None))
    while (piece := await take()) is not None:
        yield piece
