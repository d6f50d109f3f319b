"""FIFO over the Philly log on 5,280 servers: sixty times the 88 of `bench_simulation`, with sixty copies of each job.

The copies of a job come some seconds after each other, so the cluster is as contended as that of the log. A tenth has
six copies of each job, in the same slots. Beside the seconds by the clock stand our processor time and a figure of the
88 servers themselves, measured in the same minute: both show what else the machine does.
"""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

from scheduling.core import policies
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.workload import philly
from tests.bench.bench_simulation import ALL_GPUS, TRACE

SIZES = (528, 5_280)  # servers
SERVERS_OF_LOG = 88  # at a quarter of the log's quotas
FROM_DAY, DAYS, DRAIN_DAYS = 20, 4, 10
APART = 37  # seconds between the copies of a job
JOBS_A_SECOND = 24_000


def measure(size: int) -> Iterator[dict[str, Any]]:
    if not (TRACE / "jobs.csv.gz").exists():
        return
    before = _speed(SERVERS_OF_LOG)
    scenario, outcome, seconds, processor = _run(size)
    speed = len(scenario.jobs) / processor
    detail = {
        "jobs": len(scenario.jobs),
        "slots": scenario.slots,
        "decisions": outcome.decisions,
        "own_processor_time": round(processor, 2),
        "awarded": sum(1 for track in outcome.tracks if track.bookings),
        "digest": digest(outcome),
    }
    yield {"name": "simulate FIFO", "value": round(seconds, 2), "unit": "s", "target": None, "detail": detail}
    about = {"jobs": len(scenario.jobs), f"on_{SERVERS_OF_LOG}_servers": before, "by": "processor time"}
    target = f">= {JOBS_A_SECOND}, or as on {SERVERS_OF_LOG} servers"
    yield {"name": "FIFO", "value": round(speed), "unit": "jobs a second", "target": target, "detail": about}


def _speed(servers: int) -> int:
    """Return the jobs per second of processor time on the log's own cluster, the best of three runs."""
    runs = [_run(servers) for _ in range(3)]
    return round(max(len(scenario.jobs) / processor for scenario, _, _, processor in runs))


def _run(servers: int) -> tuple[Scenario, Outcome, float, float]:
    """Run the scenario. Return (scenario, outcome, seconds, processor time)."""
    copies = servers // SERVERS_OF_LOG
    with gzip.open(TRACE / "jobs.csv.gz", "rt") as jobs, (TRACE / "tenants.csv").open() as tenants:
        document = philly(
            _repeated(jobs, copies),
            tenants,
            from_day=FROM_DAY,
            days=DAYS,
            drain_days=DRAIN_DAYS,
            scale_quota=0.25 * copies,
            seed=1,
        )
    assert len(document["servers"]) == servers, len(document["servers"])
    scenario = read(document)
    policy = policies.build(ALL_GPUS, scenario.cluster, scenario.jobs)
    began, own_began = time.perf_counter(), time.process_time()
    outcome = simulate(scenario, {"batch": policy})
    return scenario, outcome, time.perf_counter() - began, time.process_time() - own_began


def _repeated(lines: Iterable[str], copies: int) -> Iterator[str]:
    """Yield the log with `copies` copies of each job. Copies of the last minutes' jobs may fall out of the period."""
    head, *rows = lines
    yield head
    columns = head.strip().split(",")
    name, submitted = columns.index("job_id"), columns.index("submit_s")
    for row in rows:
        fields = row.rstrip("\n").split(",")
        day = float(fields[submitted]) / 86_400
        if FROM_DAY <= day < FROM_DAY + DAYS:
            for copy in range(copies):
                again = [*fields]
                again[name] += f"-{copy}"
                again[submitted] = str(float(fields[submitted]) + APART * copy)
                yield ",".join(again) + "\n"


def digest(outcome: Outcome) -> str:
    """Return a digest of the decisions. A change that changes no decision leaves it the same."""
    text = hashlib.sha256()
    for track in outcome.tracks:
        text.update(repr((track.job.number, track.state, track.reason, track.bookings)).encode())
    return text.hexdigest()[:16]
