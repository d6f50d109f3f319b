"""Money as CSV: streamed, so that the length of a ledger is nobody's memory."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from tenants.ledger.postings import MICRO


class _Line:
    """What csv.writer writes to: it hands the line back."""

    def write(self, line: str) -> str:
        return line


def csv_stream(
    request: HttpRequest, name: str, headings: Sequence[str], rows: Iterable[Sequence[object]]
) -> StreamingHttpResponse:
    lines = _lines(headings, rows)
    content = _later(lines) if isinstance(request, ASGIRequest) else lines
    answer = StreamingHttpResponse(content, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    answer["Cache-Control"] = "no-store"
    return answer


def credits_text(micro_credits: int) -> str:
    """All six digits, with a point and nothing between thousands: for programs."""
    whole, rest = divmod(abs(micro_credits), MICRO)
    return f"{'-' if micro_credits < 0 else ''}{whole}.{rest:06}"


def _lines(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(headings)
    for row in rows:
        yield writer.writerow([_safe(cell) for cell in row])


async def _later(lines: Iterator[str]) -> AsyncIterator[str]:
    def following() -> str | None:
        return next(lines, None)

    while (line := await sync_to_async(following)()) is not None:
        yield line


def _safe(cell: object) -> object:
    """A text that a spreadsheet would take for a formula gets an apostrophe; a number stays a number."""
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(cell):
        return f"'{cell}"
    return "" if cell is None else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
