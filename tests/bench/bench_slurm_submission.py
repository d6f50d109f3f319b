"""Jobs submitted through the interface beside plain `sbatch`, in turns on the same machine; and where our time goes.

Both answer when the job is taken: ours is in the database by then, on the disk. `sbatch` hands over a script of one
line, held, so that neither of them starts anything.
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
from datetime import timedelta
from typing import Any

import psutil
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from marketplace.product import web_processes
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
PROFILED = 150
SCRIPT = "#!/bin/sh\ntrue\n"
# Functions that a submission passes through, by what they are for; the rest is Django's and the framework's own.
PARTS = {
    "who calls, and whether they may": (("api/views.py", "_gate"),),
    "reading what is asked": (("api/views.py", "read"), ("describing.py", "said_of")),
    "keeping the answer": (("answers.py", "answer_reserve"), ("answers.py", "answer_keep")),
    "the service": (("submission.py", "job_submit"),),
    "commit": (("base/base.py", "_commit"),),
    "telling open pages": (("notify.py", "_send"),),
    "writing the answer": (("api/views.py", "shown"),),
}


def measure() -> Iterator[dict[str, Any]]:
    if MISSING:
        print(f"slurm: {WHY_NOT}")
        return
    os.environ |= {"API_CALLS_PER_MINUTE": "1000000"}  # of the web processes
    settings.API_CALLS_PER_MINUTE, settings.ALLOWED_HOSTS = 1_000_000, ["*"]
    settings.API_CALLS_PER_MINUTE_OF_PERSON = 1_000_000
    with scope_disabled("the benchmark makes a market"):
        tenant = _market()
        caller = program_of(SUBMITTER, tenant)
    analyze()
    with cluster(["n1"]) as slurm, web_server(web_processes()) as web:
        ways: dict[str, Callable[[], None]] = {
            "through the interface": lambda: _through_the_interface(web.port, tenant, caller.secret),
            "sbatch": lambda: _sbatch(slurm),
        }
        rates: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for clients in (1, CLIENTS):
                for way, client in ways.items():
                    rates.setdefault((way, clients), []).append(_rate(client, clients))
    for (way, clients), found in rates.items():
        turns = f"median of {ROUNDS} turns, {min(found):.0f} to {max(found):.0f}"
        detail = f"{turns}; {SUBMISSIONS} jobs by each client; {_load()}"
        name = f"jobs submitted {way}, {clients} at a time"
        yield _figure(name, round(statistics.median(found)), "jobs/s", "-", detail)
    yield from _where_it_goes(tenant, caller)


def _market() -> Tenant:
    _, (tenant,) = make_market("owner", worker=8, ps=8, slot_seconds=60, epoch_at=timezone.now() - timedelta(minutes=1))
    fund(tenant)
    return tenant


def _body(pool: str = "main") -> dict[str, Any]:
    given = PARAMETERS | {"minibatch_ms": 20.0}
    spec = SPEC | {"chunks": 2, "max_workers": 2, "program": {"name": "trainer", "parameters": given}}
    return {"pool": pool, "name": "bench", "lane": "batch", "spec": spec}


def _rate(client: Callable[[], None], clients: int) -> float:
    """Jobs in a second, of so many clients who each wait for an answer before they go on."""
    threads = [threading.Thread(target=client) for _ in range(clients)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * SUBMISSIONS / (time.monotonic() - begin)


def _through_the_interface(port: int, tenant: Tenant, secret: str) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps(_body())
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json", "Accept": "application/json"}
    for _ in range(SUBMISSIONS):
        key = {"Idempotency-Key": secrets.token_hex(8)}
        line.request("POST", f"/api/v1/tenants/{tenant.slug}/jobs/", body, headers | key)
        answer = line.getresponse()
        said = answer.read()
        assert answer.status == 201, said
    line.close()


def _sbatch(slurm: Cluster) -> None:
    for _ in range(SUBMISSIONS):
        said = slurm.call("sbatch", "--parsable", "-H", "-p", "main", "-o", "/dev/null", input=SCRIPT)
        assert said.returncode == 0, said.stderr


def _where_it_goes(tenant: Tenant, caller: Program) -> Iterator[dict[str, Any]]:
    """Of a submission in one process, without the network: by the profiler, which makes all of it slower alike."""
    address = f"tenants/{tenant.slug}/jobs/"

    def submit() -> None:
        answer = caller.post(address, _body(), key=secrets.token_hex(8))
        assert answer.status_code == 201, answer.content

    submit()
    with CaptureQueriesContext(connection) as captured:
        submit()
    queries = len(captured)
    begin = time.perf_counter()
    for _ in range(PROFILED):
        submit()
    plain = 1e3 * (time.perf_counter() - begin) / PROFILED
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(PROFILED):
        submit()
    profile.disable()
    stats = pstats.Stats(profile)
    whole = stats.total_tt  # type: ignore[attr-defined]
    detail = {"queries": queries, "submissions": PROFILED, "load": _load()}
    yield _figure("one submission in one process", round(plain, 1), "ms", "-", detail)
    for name, functions in PARTS.items():
        spent = sum(
            row[3]
            for (file, _, function), row in stats.stats.items()  # type: ignore[attr-defined]
            if any(file.endswith(f"/{place}") and function == wanted for place, wanted in functions)
        )
        yield _figure(f"of a submission, {name}", round(100 * spent / whole), "%", "-", f"{PROFILED} submissions")
    database = sum(
        row[3]
        for (file, _, function), row in stats.stats.items()  # type: ignore[attr-defined]
        if function == "wait" and "psycopg" in file
    )
    yield _figure(
        "of a submission, waiting for the database", round(100 * database / whole), "%", "-", "in all of these"
    )


def _load() -> str:
    return f"load {psutil.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _figure(name: str, value: float, unit: str, target: str, detail: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "detail": detail}
