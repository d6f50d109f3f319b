"""Open pages on one web process: how soon all of them learn that a slot began, and what each of them costs.

The pages are bare connections that only search for the news in what arrives: in the real world they are the work of
other machines.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
from django.conf import settings

from scheduling.feed.notify import slot_tell
from scheduling.models import Pool
from tests.bench.bench_sockets import market
from tests.bench.web import session_of, web_server

SIZES = (500, 5_000)  # sockets
TICKS, QUIET_SECONDS, AT_ONCE = 5, 20.0, 16
TARGET_SECONDS, TARGET_KB = 2.0, 150
PING, PONG = 0x89, 0x8A  # the first byte of such a frame


def measure(size: int) -> Iterator[dict[str, Any]]:
    pool, users = market()
    with web_server(1) as web:
        process = web.processes[0]
        sessions = {slug: session_of(user) for slug, user in users.items()}
        load = asyncio.run(_listen(pool, web.port, list(sessions.items()), size, process))
        whole = round(process.memory_info().rss / 1e6, 1)
    ticks = [max(moments) for moments in load.ticks]
    detail = {
        "ticks": [round(tick, 2) for tick in ticks],
        "median_page_s": round(statistics.median(moment for tick in load.ticks for moment in tick), 2),
        "web_processor_s_a_tick": round(statistics.median(load.tick_work), 2),
        "load": round(psutil.getloadavg()[0], 1),
    }
    yield _figure("one tick to all open pages", round(statistics.median(ticks), 2), "s", f"<= {TARGET_SECONDS}", detail)
    rest = {"web_process_mb": whole, "connecting_s": round(load.connecting, 1)}
    yield _figure("memory of an open page", round(load.grown / size / 1e3, 1), "kB", f"<= {TARGET_KB}", rest)
    busy = 100 * load.quiet_work / QUIET_SECONDS
    about = {"seconds": QUIET_SECONDS, "what": "signs of life, and whether each may still listen"}
    yield _figure("a core's work while nothing happens", round(busy, 1), "%", "-", about)


@dataclass
class Load:
    """The measurements. `ticks` has for each tick the seconds until each page received it; `tick_work` is the processor
    time of the web process meanwhile."""

    grown: int = 0  # bytes of the web process
    connecting: float = 0.0
    quiet_work: float = 0.0  # seconds of the web process's processor time
    ticks: list[list[float]] = field(default_factory=list)
    tick_work: list[float] = field(default_factory=list)


class Page(asyncio.Protocol):
    """A page: it opens a websocket, and notes the moment at which news of a slot arrive."""

    def __init__(self, request: bytes) -> None:
        self._request, self._text, self._frames, self.left = request, b"", b"", False
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.hears()

    def hears(self) -> asyncio.Future[float]:
        """Return a future with the moment of the next news of a slot."""
        self.heard: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        return self.heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self._text += data
            if b"\r\n\r\n" not in self._text:
                return
            if not self._text.startswith(b"HTTP/1.1 101"):
                self.opened.set_exception(ConnectionRefusedError(self._text[:200]))
            elif b'"cursor"' in self._text:  # the first message: the page is told of what it missed
                self.opened.set_result(None)
            return
        self._frames += data
        while len(self._frames) > 1 and len(self._frames) >= 2 + self._frames[1]:  # none of ours is longer than 125
            kind, end = self._frames[0], 2 + self._frames[1]
            frame, self._frames = self._frames[2:end], self._frames[end:]
            if kind == PING:  # who does not answer is gone; a client masks, here with nothing
                self.transport.write(bytes((PONG, 0x80 | len(frame), 0, 0, 0, 0)) + frame)
            elif b'"slot"' in frame and not self.heard.done():
                self.heard.set_result(time.monotonic())

    def connection_lost(self, error: Exception | None) -> None:
        for waiting in (self.opened, self.heard):
            if not waiting.done() and not self.left:
                waiting.set_exception(error or ConnectionResetError(self._text[:200]))


async def _listen(pool: Pool, port: int, sessions: Sequence[tuple[str, str]], size: int, web: psutil.Process) -> Load:
    load, before, began = Load(), web.memory_info().rss, time.monotonic()
    places = asyncio.Semaphore(AT_ONCE)
    pages = await asyncio.gather(*(_page(port, *sessions[n % len(sessions)], places) for n in range(size)))
    load.connecting, load.grown = time.monotonic() - began, web.memory_info().rss - before
    work = _work(web)
    await asyncio.sleep(QUIET_SECONDS)
    load.quiet_work = _work(web) - work
    for _ in range(TICKS):
        waits = [page.hears() for page in pages]
        work, began = _work(web), time.monotonic()
        await asyncio.to_thread(slot_tell, pool.pk)
        load.ticks.append([moment - began for moment in await asyncio.gather(*waits)])
        load.tick_work.append(_work(web) - work)
    for page in pages:
        page.left = True
        page.transport.abort()
    return load


async def _page(port: int, slug: str, session: str, places: asyncio.Semaphore) -> Page:
    lines = (
        f"GET /ws/t/{slug}/ HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Origin: http://127.0.0.1:{port}",
        f"Cookie: {settings.SESSION_COOKIE_NAME}={session}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {b64encode(secrets.token_bytes(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Extensions: permessage-deflate",  # as browsers do
    )
    request = "\r\n".join((*lines, "", "")).encode()
    async with places:
        _, page = await asyncio.get_running_loop().create_connection(lambda: Page(request), "127.0.0.1", port)
        await page.opened
    return page


def _work(web: psutil.Process) -> float:
    return sum(web.cpu_times()[:2])


def _figure(name: str, value: float, unit: str, target: str, detail: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "detail": detail}
