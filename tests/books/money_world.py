"""A market that has traded, moved so that "now" lies inside it, and people who look at its pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import Client
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.models import Award, Interval, Pool, TrainingJob
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.database import as_superuser
from tests.market.test_servers_page import make_person
from tests.scheduling.clocks import noon
from tests.scheduling.markets import make_market, make_waiting

SECRET = "castor-secret-project"  # the name of a job that no other tenant may read


@dataclass
class World:
    """Lumen rents from Castor. The clock stands in the middle of slot `slot`."""

    pool: Pool
    lumen: Tenant
    castor: Tenant
    slot: int


def traded(slots: int = 8) -> World:
    """Five jobs of Lumen and two of Castor on eight workers; every slot before `slots` is settled."""
    now = timezone.now()
    epoch = now - (slots + 0.5) * timedelta(seconds=10)
    pool, (lumen, castor) = make_market("lumen", "castor", epoch_at=epoch)
    for arrival in (0.1, 0.2, 1.2, 1.3, 4.5):
        make_waiting(pool, lumen, arrival)
    for arrival in (0.3, 5.0):
        job = make_waiting(pool, castor, arrival, epochs=2)
        rename(job, SECRET)
    pool_advance(pool_id=pool.pk, at=pool.slot_start(slots))
    return World(pool, lumen, castor, slots)


@contextmanager
def standing(slots: int = 8) -> Iterator[World]:
    """A world for all tests of a module: each test's own transaction is nested in this one and undone before it. It
    stands at noon, since pages show the money of today: soon after midnight some of its slots would be yesterday's."""
    with noon(), transaction.atomic():
        yield traded(slots)
        transaction.set_rollback(True)


def rename(job: TrainingJob, name: str) -> None:
    with scope_disabled("the test names a job"), as_superuser():
        TrainingJob.objects.filter(pk=job.pk).update(name=name)


def client(tenant: Tenant, role: str) -> Client:
    browser = Client()
    browser.force_login(make_person(role, tenant), backend="django.contrib.auth.backends.ModelBackend")
    return browser


def read(browser: Client, tenant: Tenant, page: str, **query: str) -> Any:
    return browser.get(f"/t/{tenant.slug}/{page}", query, secure=True)


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer.status_code
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return body.decode()


def awards_of(tenant: Tenant) -> list[Award]:
    with scope_disabled("the test looks at awards"):
        return list(Award.objects.filter(tenant=tenant).order_by("pk"))


def busiest(pool: Pool) -> Interval:
    """The interval that was paid most."""
    return Interval.objects.filter(pool=pool).order_by("-paid", "number")[0]
