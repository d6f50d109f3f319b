"""Calls a real web process over loopback, on kept connections: how long each answer took, and what it cost.

There are as many web processes as `manage.py up` starts.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import psycopg
from django.utils import timezone

from marketplace.embedded import State
from marketplace.processes.product import web_processes
from scheduling.app.clock import pool_advance
from scheduling.jobs.submission import job_submit
from scheduling.models import Interval, Pool, TrainingJob
from tenants.ledger.sheets import days_close
from tenants.models import ApiToken, Tenant, User
from tenants.scoping import scope, scope_disabled
from tenants.selectors import access_of
from tests.api.builders import program
from tests.bench.million import pages
from tests.bench.million.figures import figure
from tests.bench.million.work import Work
from tests.bench.web import web_server
from tests.scheduling.live import SPEC

SUBMITTERS, SUBMISSIONS = 16, 6
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "60"))
HEADERS = {"Accept": "application/json"}


def main(state: State) -> None:
    for line in measure(state):
        print(json.dumps(line), flush=True)


def measure(state: State) -> Iterator[dict[str, Any]]:
    pool, tenant = Pool.objects.get(), Tenant.objects.order_by("pk").first()
    owner, operator = User.objects.get(email="owner@example.org"), User.objects.get(email="operator@example.org")
    assert tenant is not None
    _catch_up(pool, tenant, owner, state)
    with scope_disabled("days that are over are closed as by the clock"):
        while days_close(at=timezone.now()):
            pass
    ApiToken.objects.filter(revoked_at=None).update(revoked_at=timezone.now())  # of measurements before this one
    own, staff = program(owner, tenant).secret, program(operator, None).secret
    opened = pages.addresses(tenant, _month())
    with web_server(web_processes()) as web:
        lines = chain(
            _reads(web.port, tenant, own, staff),
            pages.times(web.port, owner, opened),
            _submissions(web.port, tenant, own),
        )
        yield from Work(web.processes, state.data).added_to(lines)
    yield from pages.queries(owner, opened)


def _month() -> str:
    return (datetime.now(UTC) - timedelta(days=150)).strftime("%Y-%m")


def _catch_up(pool: Pool, tenant: Tenant, owner: User, state: State) -> None:
    """Advance the market to the present, where it decides about one job. Earlier intervals get a copy of its
    contents."""
    with scope(tenant):
        job_submit(pool=pool, name="now", spec=SPEC, lane="batch", by=access_of(owner, tenant), at=timezone.now())
    for _ in range(50):
        if not pool_advance(pool_id=pool.pk, at=timezone.now()).behind:
            break
    real = Interval.objects.filter(pool=pool, base=None).exclude(view=b"").order_by("number").first()
    if real is None or not Interval.objects.filter(view=b"").exists():
        return
    with psycopg.connect(state.superuser_url, dbname="bourse") as book:
        book.execute("SET session_replication_role = replica")
        book.execute(
            "UPDATE scheduling_interval i SET policy = r.policy, view = r.view, plan = r.plan, windows = r.windows"
            "  FROM scheduling_interval r WHERE r.id = %s AND i.view = ''",
            [real.pk],
        )


# ---------------------------------------------------------------- single questions


def _reads(port: int, tenant: Tenant, own: str, staff: str) -> Iterator[dict[str, Any]]:
    here, main = f"tenants/{tenant.slug}/", "pools/main/"
    with scope(tenant):
        jobs = list(TrainingJob.objects.filter(state="finished").order_by("pk").values_list("pk", flat=True)[:2000:40])
    far = Pool.objects.get().slot_at(timezone.now()) // 3
    lists = {
        "jobs": here + "jobs/",
        "jobs, one state": here + "jobs/?state=finished",
        "jobs, a state that none is in": here + "jobs/?state=cancelled",
        "jobs, oldest first": here + "jobs/?ordering=id",
        "jobs, by name": here + "jobs/?name=train-10",
        "awards": here + "awards/",
        "ledger": here + "ledger/entries/",
        "events": here + "events/",
        "intervals": main + "intervals/",
        "awards of everybody": main + "awards/",
        "awards of everybody, long ago": main + f"awards/?from_slot={far}&to_slot={far + 12}",
        "prices": main + "prices/",
        "calendar": main + "calendar/",
    }
    for name, address in lists.items():
        yield _single(f"list: {name}", _figures_of(port, own, [address] * ROUNDS), "< 60")
    yield _single("one job", _figures_of(port, own, [f"{here}jobs/{job}/" for job in jobs]), "< 15")
    statement = here + f"statements/period/?month={_month()}"
    yield _single("statement of a month", _figures_of(port, own, [statement] * 10), "< 300")
    lines = here + f"statements/period/lines/?month={_month()}"
    yield _single("statement of a month, first page of its lines", _figures_of(port, own, [lines] * 5), "-")
    yield _single("metrics, not kept", _figures_of(port, staff, ["/metrics"] * 3, pause=5.1), "< 1000")


def _single(name: str, sample: dict[str, Any], target: str) -> dict[str, Any]:
    return figure(name, sample, target, calls=len(sample["times"]) + 1)


def _figures_of(port: int, secret: str, addresses: list[str], pause: float = 0.0) -> dict[str, Any]:
    """Request each address. Return the milliseconds and statuses of the answers, without the first one."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times: list[float] = []
    statuses: set[int] = set()
    for address in [addresses[0], *addresses]:
        if pause:
            line.close()  # the server would not wait so long for the next question
            time.sleep(pause)
        path = address if address.startswith("/") else f"/api/v1/{address}"
        took, status, _ = _ask(line, "GET", path, secret)
        times.append(took)
        statuses.add(status)
    line.close()
    return {"times": sorted(times[1:]), "statuses": sorted(statuses)}


def _ask(line: http.client.HTTPConnection, method: str, path: str, secret: str, body: Any = None) -> Any:
    headers = HEADERS | {"Authorization": f"Bearer {secret}"} | ({"Content-Type": "application/json"} if body else {})
    began = time.perf_counter()
    line.request(method, path, json.dumps(body) if body else None, headers)
    reply = line.getresponse()
    content = reply.read()
    return (time.perf_counter() - began) * 1000, reply.status, content


# ---------------------------------------------------------------- many at once


def _submissions(port: int, tenant: Tenant, secret: str) -> Iterator[dict[str, Any]]:
    """Measure sixteen clients: each submits again as soon as it has its answer, and later each once a second."""
    for name, lane, pause in (
        ("batch lane, one after the other", "batch", 0.0),
        ("batch lane, each once a second", "batch", 1.0),
        ("instant lane, each once a second", "instant", 1.0),
    ):
        sample: dict[str, Any] = {"times": [], "statuses": set()}
        body = {"pool": "main", "name": "bench", "lane": lane, "spec": SPEC}
        path = f"/api/v1/tenants/{tenant.slug}/jobs/"
        threads = [
            threading.Thread(target=_submit, args=(port, path, secret, body, pause, number, sample))
            for number in range(SUBMITTERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers = {"times": sorted(sample["times"]), "statuses": sorted(sample["statuses"])}
        yield figure(f"submit, {SUBMITTERS} clients, {name}", answers, "< 60", calls=len(answers["times"]))


def _submit(
    port: int, path: str, secret: str, body: Mapping[str, Any], pause: float, number: int, sample: dict[str, Any]
) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.connect()
    time.sleep(pause * number / SUBMITTERS)
    for _ in range(SUBMISSIONS):
        took, status, _ = _ask(line, "POST", path, secret, body)
        sample["times"].append(took)
        sample["statuses"].add(status)
        time.sleep(max(pause - took / 1000, 0.0))
    line.close()
