"""Open pages: how soon 500 sockets on one web process learn that a slot began, and what the market page costs."""

from __future__ import annotations

import asyncio
import gzip
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
from django.conf import settings
from django.utils import timezone
from websockets.asyncio.client import connect

from scheduling.feed.notify import slot_tell
from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity
from tenants.access import access_of_system
from tenants.models import Tenant, User
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tenants.services import member_add, person_create, tenant_create
from tests.bench.web import session_of, web_server

NEEDS_DATABASE = True

SOCKETS, TENANTS, TICKS, SERVERS = 500, 20, 20, 12


def measure() -> Iterator[dict[str, Any]]:
    pool, users = market()
    with web_server(1) as web:
        sessions = {slug: session_of(user) for slug, user in users.items()}
        yield from _sockets(pool, web.port, sessions, web.processes[0])
        yield from _page(web.port, *next(iter(sessions.items())))


def _sockets(pool: Pool, port: int, sessions: dict[str, str], web: psutil.Process) -> Iterator[dict[str, Any]]:
    delays, grown = asyncio.run(_listen(pool, port, list(sessions.items()), web))
    worst = sorted(max(tick) for tick in delays)
    middle = sorted(delay for tick in delays for delay in tick)
    detail = {"sockets": SOCKETS, "ticks": TICKS, "median_ms": round(1000 * middle[len(middle) // 2], 1)}
    yield {
        "name": "sockets.slowest_of_a_tick",
        "value": round(1000 * worst[len(worst) // 2], 1),
        "unit": "ms",
        "target": "<= 500",
        "detail": detail | {"worst_tick_ms": round(1000 * worst[-1], 1)},
    }
    yield {
        "name": "sockets.memory_each",
        "value": round(grown / SOCKETS / 1024, 1),
        "unit": "kB",
        "target": None,
        "detail": {"sockets": SOCKETS, "web_process_mb": round(web.memory_info().rss / 1e6, 1)},
    }


async def _listen(
    pool: Pool, port: int, sessions: list[tuple[str, str]], web: psutil.Process
) -> tuple[list[list[float]], int]:
    """Return the seconds from each tick to each socket's message, and by how many bytes the web process grew."""
    before = web.memory_info().rss
    sockets = []
    for number in range(SOCKETS):
        slug, session = sessions[number % len(sessions)]
        cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"}
        address = f"ws://127.0.0.1:{port}/ws/t/{slug}/"
        sockets.append(await connect(address, additional_headers=cookie, origin=f"http://127.0.0.1:{port}"))
    grown = web.memory_info().rss - before
    delays = []
    try:
        for _ in range(TICKS):
            waits = [asyncio.create_task(_hears_slot(one)) for one in sockets]
            await asyncio.sleep(0.3)
            began = time.monotonic()
            await asyncio.to_thread(slot_tell, pool.pk)
            delays.append([moment - began for moment in await asyncio.gather(*waits)])
    finally:
        await asyncio.gather(*(one.close() for one in sockets))
    return delays, grown


async def _hears_slot(one: Any) -> float:
    while '"slot"' not in await asyncio.wait_for(one.recv(), 30):
        pass
    return time.monotonic()


def _page(port: int, slug: str, session: str) -> Iterator[dict[str, Any]]:
    """Measure the first view of the market page, with the files that it names, compressed as they are sent."""
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}", "Accept-Encoding": "gzip"}
    address = f"http://127.0.0.1:{port}"
    times = []
    for _ in range(20):
        began = time.monotonic()
        body = _get(f"{address}/t/{slug}/market/", cookie)
        times.append(time.monotonic() - began)
    html = gzip.decompress(body).decode()
    files = {part.split('"')[0] for part in html.split('="/static/')[1:]}
    sizes = {name: len(_get(f"{address}/static/{name}", cookie)) for name in sorted(files)}
    total = len(body) + sum(sizes.values())
    yield {
        "name": "market_page.transferred",
        "value": round(total / 1000, 1),
        "unit": "kB",
        "target": "< 100",
        "detail": {"page": len(body), **sizes},
    }
    yield {
        "name": "market_page.answer",
        "value": round(1000 * sorted(times)[len(times) // 2], 1),
        "unit": "ms",
        "target": "< 300",
        "detail": {"slowest_ms": round(1000 * max(times), 1), "times": len(times)},
    }


def _get(address: str, headers: dict[str, str]) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30) as reply:
        return bytes(reply.read())


def market() -> tuple[Pool, dict[str, User]]:
    by, at = access_of_system("the bench"), timezone.now()
    pool = Pool.objects.create(
        slug="main",
        name="Main",
        slot_seconds=60,
        clock_first=1,
        clock_cap=8,
        clock_restart=True,
        batch_policy={"name": "astraea", "mode": "guarantee"},
        epoch_at=at,
    )
    kinds = [ResourceKind.objects.create(pool=pool, name=name, label=name) for name in ("worker", "ps")]
    users, tenants = {}, []
    for number in range(TENANTS):
        tenant = tenant_create(slug=f"tenant-{number}", name=f"Tenant {number}", by=by, reason="bench", at=at)
        user = person_create(
            email=f"p{number}@example.org", name="P", password="correct horse battery 7", by=by, reason="bench", at=at
        )
        assert isinstance(tenant, Tenant)
        assert isinstance(user, User)
        member_add(tenant=tenant, user=user, role=OWNER, by=by, reason="bench", at=at)
        users[tenant.slug] = user
        tenants.append(tenant)
    _cells(pool, kinds, tenants)
    return pool, users


def _cells(pool: Pool, kinds: list[ResourceKind], tenants: list[Tenant]) -> None:
    with scope_disabled("the bench makes a cluster"):
        for number in range(SERVERS):
            server = Server.objects.create(pool=pool, name=f"s{number:02}")
            for kind, units in zip(kinds, (8, 2), strict=True):
                ServerCapacity.objects.create(pool=pool, server=server, resource=kind, units=units)
                Cell.objects.create(server=server, resource=kind, tenant=tenants[number % len(tenants)], units=units)
