"""What tests need to open pages: a client for each role, and a market whose jobs are in every state."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.models import Pool, TrainingJob
from tenants.models import Tenant, User
from tests.database import overwrite
from tests.market.test_servers_page import make_person
from tests.scheduling.markets import make_renting, make_waiting

BACKEND = "django.contrib.auth.backends.ModelBackend"
NOW = 10  # slot
WORTH = {"kind": "linear", "slope": -1.0, "base": 9000.0}


def client_as(role: str, tenant: Tenant | None) -> Client:
    return client_of(make_person(role, tenant))


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client


def pieces_sent(client: Client, address: str) -> list[bytes]:
    """Return the pieces in which the asynchronous server sends a file. The test needs transactions of its own, as the
    connection is given back between two pieces."""

    async def ask() -> list[bytes]:
        same_person = AsyncClient()
        same_person.cookies = client.cookies
        answer = await same_person.get(address)
        assert answer.status_code == 200
        assert answer.is_async, "all of it is read before the first byte is sent"
        return [piece async for piece in answer.streaming_content]

    return async_to_sync(ask)()


@dataclass(frozen=True)
class Story:
    """A market. Renter has a job on rented units, one with a place ahead or waiting, and one that just came."""

    pool: Pool
    owner: Tenant
    renter: Tenant
    running: TrainingJob
    ahead: TrainingJob
    waiting: TrainingJob


def story(**fields: object) -> Story:
    """Create a market in which Owner leaves eight workers idle, and Renter rents them from slot 8 on, which is the
    first that can be rented. Two of its slots are over."""
    return told_now(traded(**fields))


def traded(**fields: object) -> Story:
    """Create the same market before its clock is set to now: what nobody has done in it is still to come."""
    pool, owner, renter = make_renting(**({"epoch_at": timezone.now(), "clock_first": 8} | fields))
    running = make_waiting(pool, renter, 0.0, epochs=3, value=WORTH)
    ahead = make_waiting(pool, renter, 0.1, epochs=3, value=WORTH)
    pool_advance(pool_id=pool.pk, at=pool.slot_start(NOW))
    return Story(pool, owner, renter, running, ahead, running)


def told_now(traded: Story) -> Story:
    """Set the clock so that slot `NOW` begins at this moment, and add a job that has just come."""
    pool = traded.pool
    pool.epoch_at = timezone.now() - (pool.slot_start(NOW) - pool.epoch_at)
    overwrite(pool)
    return replace(traded, waiting=make_waiting(pool, traded.renter, float(NOW)))


def text_of(html: str) -> str:
    """Return the text that a reader sees of the page, in one line."""
    bare = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", bare)).strip()
