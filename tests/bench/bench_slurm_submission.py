"""Jobs submitted through the interface, one by one, in bulk and as arrays, beside plain `sbatch`, in turns on the same
machine; and the parts of the time that the interface takes.

All answer when the job is accepted: ours is in the database by then, on the disk. `sbatch` submits a script of one
line, held, so that neither of them starts anything. Each client is of another tenant, so that no call waits for another
one of the same tenant. No two jobs in bulk request the same, and each has a program with parameters of its own. Where
there is no Slurm, the rest is measured all the same.
"""

from __future__ import annotations

import cProfile
import http.client
import json
import os
import pstats
import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psutil
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from marketplace.processes.product import web_processes
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope_disabled
from tests.api.builders import Program, program_of
from tests.bench.owned import analyze
from tests.bench.web import web_server
from tests.engines.market import PARAMETERS
from tests.engines.slurm.cluster import MISSING, WHY_NOT, Cluster, cluster
from tests.scheduling.live import SPEC, fund
from tests.scheduling.markets import make_market

NEEDS_DATABASE = True

CLIENTS, ROUNDS, SUBMISSIONS = 4, 3, 40
IN_BULK, CALLS = 1_000, 2  # jobs of a call, and calls of a client
TARGET_IN_BULK = 2_000
PROFILED = 150
SCRIPT = "#!/bin/sh\ntrue\n"
# Functions that a submission passes through, by what they are for; the rest is Django's and the framework's own.
PARTS = {
    "who calls, and whether they may": (("api/views.py", "_gate"),),
    "reading what is asked": (("api/views.py", "read"), ("describing.py", "said_of")),
    "keeping the answer": (("answers.py", "answer_reserve"), ("answers.py", "answer_keep")),
    "the service": (("submission.py", "job_submit"), ("jobs/bulk.py", "jobs_submit")),
    "commit": (("base/base.py", "_commit"),),
    "telling open pages": (("notify.py", "_send"),),
    "writing the answer": (("api/views.py", "shown"),),
}


def measure() -> Iterator[dict[str, Any]]:
    if MISSING:
        print(f"slurm: {WHY_NOT}")
    os.environ |= {"API_CALLS_PER_MINUTE": "1000000"}  # of the web processes
    settings.API_CALLS_PER_MINUTE, settings.ALLOWED_HOSTS = 1_000_000, ["*"]
    settings.API_CALLS_PER_MINUTE_OF_PERSON = 1_000_000
    with scope_disabled("the benchmark makes a market"):
        tenants = _market()
        callers = [program_of(SUBMITTER, tenant) for tenant in tenants]
    analyze()
    with ExitStack() as stack:
        web = stack.enter_context(web_server(web_processes()))
        ways = _ways(web.port, tenants, callers)
        if not MISSING:
            slurm = stack.enter_context(cluster(["n1"]))
            ways["sbatch"] = Way(lambda _: _sbatch(slurm), SUBMISSIONS)
        rates: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for clients in (1, CLIENTS):
                for name, way in ways.items():
                    rates.setdefault((name, clients), []).append(_rate(way, clients))
    for (name, clients), figures in rates.items():
        turns = f"median of {ROUNDS} turns, {min(figures):.0f} to {max(figures):.0f}"
        detail = f"{turns}; {ways[name].jobs} jobs by each client; {_load()}"
        target = f"{TARGET_IN_BULK} or more" if (name, clients) == ("in bulk", CLIENTS) else "-"
        title, rate = f"jobs submitted {name}, {clients} at a time", round(statistics.median(figures))
        yield _figure(title, rate, "jobs/s", target, detail)
    yield from _where_it_goes("a submission", tenants[0], callers[0], "jobs/", _body, PROFILED)
    yield from _where_it_goes("1,000 in bulk", tenants[0], callers[0], "jobs/bulk/", _bulk_body, 3)


def _market() -> list[Tenant]:
    names = [f"owner-{number}" for number in range(CLIENTS)]
    _, tenants = make_market(*names, worker=8, ps=8, slot_seconds=60, epoch_at=timezone.now() - timedelta(minutes=1))
    for tenant in tenants:
        fund(tenant)
    return tenants


@dataclass(frozen=True)
class Way:
    """One way to submit jobs. `client` submits `jobs` jobs as the client with the given number."""

    client: Callable[[int], None]
    jobs: int


def _ways(port: int, tenants: list[Tenant], callers: list[Program]) -> dict[str, Way]:
    def by(path: str, body: Callable[[], dict[str, Any]], calls: int) -> Callable[[int], None]:
        text = json.dumps(body())
        return lambda who: _send(port, tenants[who], callers[who].secret, path, text, calls)

    return {
        "through the interface": Way(by("jobs/", _body, SUBMISSIONS), SUBMISSIONS),
        "in bulk": Way(by("jobs/bulk/", _bulk_body, CALLS), CALLS * IN_BULK),
        "as arrays": Way(by("jobs/arrays/", _array_body, CALLS), CALLS * IN_BULK),
    }


def _spec(number: int = 0) -> dict[str, Any]:
    values = PARAMETERS | {"minibatch_ms": 20.0, "seed": number}
    value = {"kind": "linear", "slope": -1.0, "base": 100.0 + number}
    return SPEC | {"chunks": 2, "max_workers": 2, "value": value, "program": {"name": "trainer", "parameters": values}}


def _body() -> dict[str, Any]:
    return {"pool": "main", "name": "bench", "lane": "batch", "spec": _spec()}


def _bulk_body() -> dict[str, Any]:
    jobs = [{"name": f"bench {number}", "spec": _spec(number)} for number in range(IN_BULK)]
    return {"pool": "main", "jobs": jobs}


def _array_body() -> dict[str, Any]:
    return {"pool": "main", "name": "bench", "count": IN_BULK, "spec": _spec()}


def _rate(way: Way, clients: int) -> float:
    """Return the jobs per second of `clients` clients, each of which waits for an answer before its next call."""
    threads = [threading.Thread(target=way.client, args=(number,)) for number in range(clients)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * way.jobs / (time.monotonic() - begin)


def _send(port: int, tenant: Tenant, secret: str, path: str, body: str, calls: int) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json", "Accept": "application/json"}
    for _ in range(calls):
        key = {"Idempotency-Key": secrets.token_hex(8)}
        line.request("POST", f"/api/v1/tenants/{tenant.slug}/{path}", body, headers | key)
        answer = line.getresponse()
        content = answer.read()
        assert answer.status == 201, content
    line.close()


def _sbatch(slurm: Cluster) -> None:
    for _ in range(SUBMISSIONS):
        answer = slurm.call("sbatch", "--parsable", "-H", "-p", "main", "-o", "/dev/null", input=SCRIPT)
        assert answer.returncode == 0, answer.stderr


def _where_it_goes(
    what: str, tenant: Tenant, caller: Program, path: str, body: Callable[[], dict[str, Any]], times: int
) -> Iterator[dict[str, Any]]:
    """Measure the parts of a submission in one process, without the network. The profiler slows all parts alike."""
    document = body()

    def submit() -> None:
        answer = caller.post(f"tenants/{tenant.slug}/{path}", document, key=secrets.token_hex(8))
        assert answer.status_code == 201, answer.content

    submit()
    with CaptureQueriesContext(connection) as captured:
        submit()
    queries = len(captured)
    begin = time.perf_counter()
    for _ in range(times):
        submit()
    plain = 1e3 * (time.perf_counter() - begin) / times
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(times):
        submit()
    profile.disable()
    stats = pstats.Stats(profile)
    whole = stats.total_tt  # type: ignore[attr-defined]
    if folder := os.environ.get("BENCH_PROFILES"):
        stats.dump_stats(f"{folder}/{path.strip('/').replace('/', '-')}.prof")
    detail = {"queries": queries, "submissions": times, "load": _load()}
    yield _figure(f"{what} in one process", round(plain, 1), "ms", "-", detail)
    for name, functions in PARTS.items():
        spent = sum(
            row[3]
            for (file, _, function), row in stats.stats.items()  # type: ignore[attr-defined]
            if any(file.endswith(f"/{place}") and function == wanted for place, wanted in functions)
        )
        yield _figure(f"of {what}, {name}", round(100 * spent / whole), "%", "-", f"{times} submissions")
    database = sum(
        row[3]
        for (file, _, function), row in stats.stats.items()  # type: ignore[attr-defined]
        if function == "wait" and "psycopg" in file
    )
    yield _figure(f"of {what}, waiting for the database", round(100 * database / whole), "%", "-", "in all of these")


def _load() -> str:
    return f"load {psutil.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _figure(name: str, value: float, unit: str, target: str, detail: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "detail": detail}
