"""Asks a real web process over loopback, on connections that are kept, and says how long each answer took."""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from marketplace import children
from marketplace.embedded import State
from scheduling.models import Interval, Pool, TrainingJob
from scheduling.services.clock import pool_advance
from scheduling.services.jobs import job_submit
from tenants.models import Tenant, User
from tenants.scoping import scope
from tenants.selectors import access_of
from tests.api.builders import program
from tests.bench.bench_sockets import _answers, _command, _environment, _free_port
from tests.scheduling.live import SPEC

SUBMITTERS, SUBMISSIONS = 16, 6
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "60"))
HEADERS = {"Accept": "application/json"}


def main(state: State) -> None:
    for figure in measure(state):
        print(json.dumps(figure), flush=True)


def measure(state: State) -> Iterator[dict[str, Any]]:
    pool, tenant = Pool.objects.get(), Tenant.objects.order_by("pk").first()
    owner, operator = User.objects.get(email="owner@example.org"), User.objects.get(email="operator@example.org")
    assert tenant is not None
    _catch_up(pool, tenant, owner, state)
    own, staff = program(owner, tenant).secret, program(operator, None).secret
    with tempfile.TemporaryDirectory(prefix="bourse-bench-web-") as folder:
        port = _free_port()
        child = children.start("web", _command(port), log=Path(folder) / "web.log", environment=_environment())
        try:
            children.wait_until(lambda: _answers(port), child, patience=60.0)
            yield from _with_work(_reads(port, tenant, own, staff), psutil.Process(child.pid))
            yield from _submissions(port, tenant, own)
        finally:
            children.stop(child)
    yield from _pages(tenant, owner)


def _catch_up(pool: Pool, tenant: Tenant, owner: User, state: State) -> None:
    """The market goes on to the present, decides about one job, and the intervals before get that one's contents."""
    with scope(tenant):
        job_submit(pool=pool, name="now", spec=SPEC, lane="batch", by=access_of(owner, tenant), at=timezone.now())
    for _ in range(50):
        if not pool_advance(pool_id=pool.pk, at=timezone.now()).behind:
            break
    real = Interval.objects.filter(pool=pool).exclude(view=b"").order_by("number").first()
    if real is None or not Interval.objects.filter(view=b"").exists():
        return
    with psycopg.connect(state.superuser_url, dbname="bourse") as book:
        book.execute("SET session_replication_role = replica")
        book.execute(
            "UPDATE scheduling_interval i SET policy = r.policy, view = r.view, plan = r.plan, windows = r.windows"
            "  FROM scheduling_interval r WHERE r.id = %s AND i.view = ''",
            [real.pk],
        )


def _with_work(figures: Iterator[dict[str, Any]], web: psutil.Process) -> Iterator[dict[str, Any]]:
    """And how long the web process itself worked for each answer: that does not grow with what else runs here."""
    before = sum(web.cpu_times()[:2])
    for figure in figures:
        now = sum(web.cpu_times()[:2])
        figure["detail"]["web_work_ms"] = round((now - before) * 1000 / (figure["detail"]["answers"] + 1), 1)
        before = now
        yield figure


# ---------------------------------------------------------------- single questions


def _reads(port: int, tenant: Tenant, own: str, staff: str) -> Iterator[dict[str, Any]]:
    here, main = f"tenants/{tenant.slug}/", "pools/main/"
    middle = datetime.now(UTC) - timedelta(days=150)
    month = middle.strftime("%Y-%m")
    with scope(tenant):
        jobs = list(TrainingJob.objects.filter(state="finished").order_by("pk").values_list("pk", flat=True)[:2000:40])
    far = Pool.objects.get().slot_at(timezone.now()) // 3
    lists = {
        "jobs": here + "jobs/",
        "jobs, one state": here + "jobs/?state=cancelled",
        "jobs, oldest first": here + "jobs/?ordering=id",
        "jobs, by name": here + "jobs/?name=train-7",
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
        yield _figure(f"list: {name}", _asked(port, own, [address] * ROUNDS), "< 60")
    yield _figure("one job", _asked(port, own, [f"{here}jobs/{job}/" for job in jobs]), "< 15")
    yield _figure("statement of a month", _asked(port, own, [f"{here}statements/period/?month={month}"] * 10), "< 300")
    yield _figure("metrics, not kept", _asked(port, staff, ["/metrics"] * 2, pause=5.1), "-")


def _asked(port: int, secret: str, addresses: list[str], pause: float = 0.0) -> dict[str, Any]:
    """Milliseconds of each, and the last status; the first one is not counted."""
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
    """Sixteen clients: each submits again as soon as it is answered, and then each once a second."""
    for name, lane, pause in (
        ("batch lane, one after the other", "batch", 0.0),
        ("batch lane, each once a second", "batch", 1.0),
        ("instant lane, each once a second", "instant", 1.0),
    ):
        found: dict[str, Any] = {"times": [], "statuses": set()}
        body = {"pool": "main", "name": "bench", "lane": lane, "spec": SPEC}
        path = f"/api/v1/tenants/{tenant.slug}/jobs/"
        threads = [
            threading.Thread(target=_submit, args=(port, path, secret, body, pause, number, found))
            for number in range(SUBMITTERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers = {"times": sorted(found["times"]), "statuses": sorted(found["statuses"])}
        yield _figure(f"submit, {SUBMITTERS} clients, {name}", answers, "< 60")


def _submit(
    port: int, path: str, secret: str, body: Mapping[str, Any], pause: float, number: int, found: dict[str, Any]
) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    _ask(line, "GET", "/api/v1/me/", secret)
    time.sleep(pause * number / SUBMITTERS)
    for _ in range(SUBMISSIONS):
        took, status, _ = _ask(line, "POST", path, secret, body)
        found["times"].append(took)
        found["statuses"].add(status)
        time.sleep(max(pause - took / 1000, 0.0))
    line.close()


# ---------------------------------------------------------------- pages


def _pages(tenant: Tenant, owner: User) -> Iterator[dict[str, Any]]:
    client = Client(headers={"host": "localhost"})
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    settings.ALLOWED_HOSTS = ["*"]
    for name, address in (("market", f"/t/{tenant.slug}/market/"), ("jobs", f"/t/{tenant.slug}/jobs/")):
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            status = client.get(address).status_code
            asked = len(queries)  # later requests forget them
        times = sorted(_milliseconds(partial(client.get, address)) for _ in range(10))
        yield _figure(f"{name} page", {"times": times, "statuses": [status]}, "< 300")
        yield _plain(f"{name} page, queries", asked, "queries", "< 25", {})


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _figure(name: str, found: Mapping[str, Any], target: str) -> dict[str, Any]:
    times = found["times"]
    detail = {
        "fastest_ms": round(times[0], 1),  # what is left of a machine that others use too
        "median_ms": round(times[len(times) // 2], 1),
        "slowest_ms": round(times[-1], 1),
        "answers": len(times),
        "statuses": list(found["statuses"]),
        "load": round(os.getloadavg()[0], 1),
    }
    return _plain(f"{name}, p95", round(times[min(int(0.95 * len(times)), len(times) - 1)], 1), "ms", target, detail)


def _plain(name: str, value: float, unit: str, target: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "detail": dict(detail)}
