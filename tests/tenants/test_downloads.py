"""Files that are sent piece by piece: who asks for their headers alone gets these, and nothing of the file is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import AsyncRequestFactory, RequestFactory

from tenants.common.downloads import csv_download, file_download, part_download
from tests.patience import PATIENCE


class PieceCounter:
    """Two pieces, and how many of them were made."""

    size, version = 6, "one"

    def __init__(self) -> None:
        self.count, self.closed = 0, False

    def pieces(self, start: int = 0, end: int = 6) -> Iterator[bytes]:
        for piece in (b"abc", b"def"):
            self.count += 1
            yield piece

    def close(self) -> None:
        self.closed = True


DOWNLOADS: dict[str, Callable[[HttpRequest, PieceCounter], Any]] = {
    "file": lambda request, source: file_download(request, "a.txt", "text/plain", source.pieces()),
    "csv": lambda request, source: csv_download(request, "a", source.pieces()),
    "part": lambda request, source: part_download(request, "a", source),
}


async def _read(answer: Any) -> bytes:
    return b"".join([piece async for piece in answer])


@pytest.mark.django_db  # an answer that is closed looks at the connection of its thread, where there is one
@pytest.mark.parametrize("what", DOWNLOADS)
@pytest.mark.parametrize("factory", [RequestFactory(), AsyncRequestFactory()], ids=["thread", "loop"])
def test_whoever_asks_for_the_headers_of_a_file_alone_has_nothing_of_it_made(factory: Any, what: str) -> None:
    headers, bodies, counts = [], [], []
    for ask in (factory.get, factory.head):
        source = PieceCounter()
        answer = DOWNLOADS[what](ask("/file"), source)
        whole = _read(answer) if answer.is_async else None
        bodies.append(asyncio.run(asyncio.wait_for(whole, PATIENCE)) if whole else b"".join(answer))
        answer.close()
        headers.append(dict(answer.headers))
        counts.append(source.count)
    assert headers[0] == headers[1]
    assert (bodies, counts) == ([b"abcdef", b""], [2, 0])
