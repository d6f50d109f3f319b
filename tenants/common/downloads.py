"""Send files piece by piece, while they are made or read. No other module does: the asynchronous server would read what
is no asynchronous stream as a whole before it sends the first byte."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Protocol, TypeVar

from channels.db import database_sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

Piece = TypeVar("Piece", str, bytes)

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


def csv_download(request: HttpRequest, name: str, pieces: Iterator[Piece]) -> StreamingHttpResponse:
    answer = file_download(request, f"{name}.csv", "text/csv; charset=utf-8", pieces)
    answer["Cache-Control"] = "no-store"
    return answer


def file_download(request: HttpRequest, name: str, kind: str, pieces: Iterator[Piece]) -> StreamingHttpResponse:
    """Return a response that sends a file while it is made, so that it is never in memory as a whole. `kind` is its
    media type. A HEAD request gets the headers, and no piece is made: the server would take them all, and send none."""
    if request.method == "HEAD":
        pieces = iter(())
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
    answer = file_download(request, name, "application/octet-stream", content.pieces(start, end))
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


async def _later(pieces: Iterator[Piece]) -> AsyncIterator[Piece]:
    """Yield the pieces, each made in a thread, while the one before is sent. Between two pieces other requests may use
    the database connection."""
    take = database_sync_to_async(lambda: next(pieces, None))
    while (piece := await take()) is not None:
        yield piece
