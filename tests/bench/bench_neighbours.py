"""How long a tenant's list of jobs takes while another tenant sends the worst that it may, beside the time in quiet.

Both are measured in turns, so that what else the machine does touches both alike. ATTACK=csv,pages measures these two
attacks alone.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import chain
from typing import Any
from urllib.parse import urlencode

import numpy as np
from django.conf import settings
from django.utils import timezone

from marketplace.processes.product import web_processes
from scheduling.models import Pool, TrainingJob
from tenants.api.bodies import MOST_BYTES, MOST_VALUES
from tenants.models import Tenant, User
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tests.api.builders import program
from tests.bench import bench_interval
from tests.bench.bench_quote import BOUNDS
from tests.bench.owned import overwrite
from tests.bench.web import session_of, web_server
from tests.scheduling.markets import SPEC
from tests.tenants.builders import make_member

NEEDS_DATABASE = True

LINES, PEOPLE = 32, 8  # connections of the attack, and persons with a token and a session each
ROUNDS, CALLS = 4, 40  # in each round so many lists are asked for in quiet, and so many under attack
WAITING, JOBS = 300, 1_000
SETTLE_SECONDS = 1.0  # until an attack has filled what it can fill


def measure() -> Iterator[dict[str, Any]]:
    pool, quiet, loud = _market()
    attackers = _people(loud, PEOPLE)
    with web_server(web_processes()) as web:
        for name, requests in _attacks(pool, loud, attackers).items():
            if name in os.environ.get("ATTACK", name).split(","):
                # One reader for all of them would reach its own limit of calls in a minute.
                (reader,) = _people(quiet, 1)
                client = Reader(web.port, quiet, program(reader, quiet).secret)
                client.times(CALLS)  # what the first calls load
                yield _measured(name, client, web.port, requests)


def _measured(name: str, client: Reader, port: int, requests: Sequence[bytes]) -> dict[str, Any]:
    still: list[float] = []
    beside: list[float] = []
    statuses: Counter[str] = Counter()
    for _ in range(ROUNDS):
        still += client.times(CALLS)
        with flood(port, requests, statuses):
            time.sleep(SETTLE_SECONDS)
            beside += client.times(CALLS)
    calm, loud = (float(np.quantile(times, 0.95)) for times in (still, beside))
    detail = {
        "quiet_p95_ms": round(calm, 1),
        "beside_p95_ms": round(loud, 1),
        "quiet_p50_ms": round(float(np.median(still)), 1),
        "beside_p50_ms": round(float(np.median(beside)), 1),
        "lists": len(beside),
        "answers_to_the_attack": dict(statuses),
        "load": round(os.getloadavg()[0], 1),
    }
    value = {"value": round(loud / calm, 2), "unit": "times the quiet p95", "target": "<= 2"}
    return {"name": f"another's list of jobs, beside {name}", **value, "detail": detail}


class Reader:
    """Reads the list of jobs as a program does."""

    def __init__(self, port: int, tenant: Tenant, secret: str) -> None:
        self.port = port
        self.path = f"/api/v1/tenants/{tenant.slug}/jobs/"
        self.headers = {"Authorization": f"Bearer {secret}", "Accept": "application/json"}

    def times(self, calls: int) -> list[float]:
        """Return the milliseconds of each call. Each has a connection of its own, so that every web process is used."""
        return [self._time() for _ in range(calls)]

    def _time(self) -> float:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as line:
            line.connect()
            began = time.perf_counter()
            line.request("GET", self.path, headers=self.headers)
            reply = line.getresponse()
            reply.read()
            assert reply.status == 200, reply.status
            return 1e3 * (time.perf_counter() - began)


@contextmanager
def flood(port: int, requests: Sequence[bytes], statuses: Counter[str]) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.bench.flood", str(port), str(LINES)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=settings.BASE_DIR)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write("\n".join(request.hex() for request in requests))
        process.stdin.close()
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            statuses.update(json.loads(process.stdout.read()))


def _market() -> tuple[Pool, Tenant, Tenant]:
    """Create a pool of a hundred tenants on 550 servers, with waiting jobs and both lanes open. Two of the tenants,
    which are returned with it, have many past jobs."""
    with scope_disabled("the benchmark fills a whole market"):
        pool = bench_interval.market()
        pool.instant_policy = {"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS}
        pool.epoch_at = timezone.now() - timedelta(seconds=10 * pool.slot_seconds)
        overwrite(pool)
        bench_interval.jobs_submit(pool, WAITING, arrivals=(0.0, 9.0))
        quiet, loud = Tenant.objects.order_by("pk")[90:92]
        TrainingJob.objects.bulk_create(
            TrainingJob(
                tenant=tenant,
                pool=pool,
                name=f"old {number}",
                lane="batch",
                state="cancelled",
                reason_code="cancelled_by",
                spec=SPEC,
                submitted_at=pool.epoch_at,
                arrival=0.0,
                request_digest="0" * 64,
            )
            for tenant in (quiet, loud)
            for number in range(JOBS)
        )
    return pool, quiet, loud


def _people(tenant: Tenant, number: int) -> list[User]:
    return [make_member(tenant, OWNER).user for _ in range(number)]


def _attacks(pool: Pool, tenant: Tenant, people: Sequence[User]) -> dict[str, list[bytes]]:
    """Return the attacks, name -> requests, with one request of each person."""
    secrets = [program(person, tenant).secret for person in people]
    sessions = [session_of(person) for person in people]
    here = f"/api/v1/tenants/{tenant.slug}/"
    draw = np.random.default_rng(3)
    # As in `bench_quote`: a gang that fits nowhere, at next to no value, so that everything is tried.
    hard = bench_interval._spec(draw) | {"epochs": 2, "chunks": 64, "min_workers": 50, "max_workers": 64}
    hard |= {"ps_mbps": 64_000.0, "value": {"kind": "linear", "slope": -1e-4, "base": 0.2}}
    quote = {"pool": pool.slug, "name": "q", "spec": hard}
    form = {"key": "k", "source": "text", "wanted": "either", "pool": pool.slug}
    long_text = "a: [" + "1," * 32_000 + "1]"

    def called(method: str, path: str, body: bytes = b"") -> list[bytes]:
        return [_request(method, path, {"Authorization": f"Bearer {secret}"}, body) for secret in secrets]

    attacks = {
        "a mebibyte of doubled names": called("POST", here + "quotes/", _doubled(120_000)),
        "as many doubled names as are read": called("POST", here + "quotes/", _doubled(MOST_VALUES - 100)),
        "batch quotes": called("POST", here + "quotes/", json.dumps(quote | {"lane": "batch"}).encode()),
        "instant quotes": called("POST", here + "quotes/", json.dumps(quote | {"lane": "instant"}).encode()),
        "lists of 200": called("GET", here + "jobs/?limit=200"),
        "csv": called("GET", here + "jobs/?format=csv"),
        "long YAML": [_page(f"/t/{tenant.slug}/submit/quote/", one, form | {"text": long_text}) for one in sessions],
        "pages": [_page(f"/t/{tenant.slug}/market/", one) for one in sessions],
    }
    return attacks | {"all of it": list(chain.from_iterable(zip(*attacks.values(), strict=True)))}


def _doubled(number: int) -> bytes:
    """Return a JSON object of many names, the last of which stands twice."""
    names = ",".join(f'"{name:x}":1' for name in range(number))[: MOST_BYTES - 100]
    names = names[: names.rindex(",")]
    last = names.rpartition(",")[2]
    return f"{{{names},{last}}}".encode()


def _page(path: str, session: str, fields: Mapping[str, str] | None = None) -> bytes:
    token = "x" * 32
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}; {settings.CSRF_COOKIE_NAME}={token}"}
    if fields is None:
        return _request("GET", path, cookie)
    body = urlencode({**fields, "csrfmiddlewaretoken": token}).encode()
    return _request("POST", path, cookie | {"Content-Type": "application/x-www-form-urlencoded"}, body)


def _request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    all_headers = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
