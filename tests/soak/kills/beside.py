"""What goes on while processes die: a program that submits, and somebody who looks whether the clock goes on."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg

PATIENCE_SECONDS = 40.0  # with one answer; a web process may be stopped
SPEC: dict[str, Any] = {
    "epochs": 3,
    "chunks": 4,
    "minibatches": 10,
    "minibatch_seconds": 1.0,
    "worker_demand": {"worker": 1},
    "ps_demand": {"ps": 1},
    "worker_mbps": 100,
    "ps_mbps": 600,
    "min_workers": 1,
    "value": {"kind": "linear", "slope": -0.5, "base": 6.0},
}
LAG = """
SELECT max(floor(extract(epoch FROM now() - pool.epoch_at) / pool.slot_seconds) - clock.decided_slot)
  FROM scheduling_pool pool JOIN scheduling_laneclock clock ON clock.pool_id = pool.id AND clock.lane = 'batch'
"""


class Beside(threading.Thread):
    """Does its work again and again until it is asked to stop; what went wrong is raised by `finish`."""

    pause = 0.5

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.end = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.end.wait(self.pause):
                self.once()
        except BaseException as error:
            self.error = error

    def once(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self.end.set()
        self.join(2 * PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error


class Submitter(Beside):
    """One job after the other, in both lanes. Each call has a key, and is repeated until somebody answers it."""

    pause = 1.0

    def __init__(self, address: str, tenant: str, secret: str) -> None:
        super().__init__()
        self.url, self.secret = f"{address}/api/v1/tenants/{tenant}/jobs/", secret
        self.accepted: dict[str, int] = {}  # job by key
        self.answers: Counter[str] = Counter()
        self.number = 0

    def once(self) -> None:
        self.number += 1
        key, lane = f"soak-{self.number}", ("batch", "batch", "instant")[self.number % 3]
        body = {"pool": "main", "name": key, "lane": lane, "spec": SPEC}
        while not self.end.is_set():
            status, answer = self._ask(key, body)
            self.answers[str(status) if status else "no answer"] += 1
            if status and status < 500 and status != 429:
                if status < 300:
                    self.accepted[key] = int(json.loads(answer)["id"])
                return
            time.sleep(0.5)

    def _ask(self, key: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """0: nobody answered."""
        headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json", "Idempotency-Key": key}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
                return int(reply.status), reply.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()
        except OSError:
            return 0, b""


@dataclass(frozen=True)
class Sample:
    """`lag`: boundaries that have passed and are not done; None: the database did not answer."""

    at: float
    lag: int | None


@dataclass
class Lags:
    samples: list[Sample] = field(default_factory=list)

    def behind_after(self, moment: float, until: float, most: int) -> float:
        """How long after the moment the clock was last behind by more than so many boundaries, or nobody knew."""
        return max(
            (
                sample.at - moment
                for sample in self.samples
                if moment <= sample.at < until and (sample.lag is None or sample.lag > most)
            ),
            default=0.0,
        )

    def behind(self, most: int) -> list[tuple[float, float]]:
        """From when to when the clock was behind by more than so many boundaries, or nobody knew."""
        spans: list[tuple[float, float]] = []
        since = None
        for sample in self.samples:
            late = sample.lag is None or sample.lag > most
            if late and since is None:
                since = sample.at
            elif not late and since is not None:
                spans.append((since, sample.at))
                since = None
        return spans


class Watcher(Beside):
    """Whether the market's clock goes on, while `product_runs`: from its start until it is killed as a whole."""

    def __init__(self, database_url: str) -> None:
        super().__init__()
        self.url, self.seen, self.product_runs = database_url, Lags(), threading.Event()
        self.product_runs.set()

    def once(self) -> None:
        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                row = connection.execute(LAG).fetchone()
        except psycopg.Error:
            row = None
        lag = int(row[0]) if row and row[0] is not None else None
        self.seen.samples.append(Sample(time.monotonic(), lag if self.product_runs.is_set() else 0))
