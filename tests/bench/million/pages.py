"""Measures the pages that a tenant opens most, beside a million jobs: time, work and number of queries."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduling.models import TrainingJob
from scheduling.models.jobs import LIVE_STATES
from tenants.models import Tenant, User
from tenants.scoping import scope
from tests.bench.million.figures import figure, plain
from tests.bench.web import session_of

OPENED = 12


def addresses(tenant: Tenant, month: str) -> dict[str, str]:
    with scope(tenant):
        finished = TrainingJob.objects.filter(state="finished").order_by("pk").values_list("pk", flat=True)[100]
        alive = TrainingJob.objects.filter(state__in=LIVE_STATES).order_by("-pk").values_list("pk", flat=True).first()
    paths = {
        "market": "market/",
        "servers": "servers/",
        "jobs": "jobs/",
        "jobs of one state": "jobs/?state=finished",
        "job that is finished": f"jobs/{finished}/",
        "share": "share/",
        "ledger": "ledger/",
        "statements": "statements/",
        "statement of a month": f"statements/period/?from={month}-01&to={month}-28",
        "intervals": "intervals/",
    } | ({"job that is alive": f"jobs/{alive}/"} if alive else {})
    return {name: f"/t/{tenant.slug}/{path}" for name, path in paths.items()}


def times(port: int, owner: User, pages: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Measure the pages of the web process, requested as by a browser."""
    headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session_of(owner)}", "Accept": "text/html"}
    for name, address in pages.items():
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        answers = [_ask(line, address, headers) for _ in range(OPENED + 1)][1:]
        line.close()
        sample = {"times": sorted(took for took, _ in answers), "statuses": sorted({status for _, status in answers})}
        yield figure(f"page: {name}", sample, "< 300", calls=OPENED + 1)


def queries(owner: User, pages: dict[str, str]) -> Iterator[dict[str, Any]]:
    client = Client(headers={"host": "localhost"})
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    settings.ALLOWED_HOSTS = ["*"]
    for name, address in pages.items():
        ask = partial(client.get, address)
        ask()
        cache.clear()
        with CaptureQueriesContext(connection) as captured:
            status = ask().status_code
            count = len(captured)  # later requests forget them
        yield plain(f"page: {name}, queries", count, "queries", "< 25", {"status": status})


def _ask(line: http.client.HTTPConnection, address: str, headers: dict[str, str]) -> tuple[float, int]:
    began = time.perf_counter()
    line.request("GET", address, headers=headers)
    reply = line.getresponse()
    reply.read()
    return (time.perf_counter() - began) * 1000, reply.status
