"""Whole runs over a real log: FIFO, fair shares and Astraea's guarantee, with plans kept and with plans renewed, on 80
days of the Philly cluster.

The log is expected in the folder that PHILLY_TRACE names, or else in ../shared/traces/philly beside the repository.
Without it there is nothing to measure, and one line says so.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import time
from collections.abc import Iterator
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from scheduling.core import metrics, policies
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.types import KEEP, RENEW
from scheduling.core.workload import philly

TRACE = Path(os.environ.get("PHILLY_TRACE") or Path(__file__).resolve().parents[3] / "shared" / "traces" / "philly")
ALL_GPUS = {"name": "fifo", "workers": 128}  # every job asks for what it asked for in the log
FAIR = {"name": "dominant_resource_fairness"}
GUARANTEE = {"name": "astraea", "mode": "guarantee"}
Figure = dict[str, Any]


def measure() -> Iterator[Figure]:
    """Measure each policy in a fresh process, so that its peak of memory is its own."""
    if not (TRACE / "jobs.csv.gz").exists():
        yield figure("philly", None, "", None, "skipped: no Philly log here; PHILLY_TRACE may name its folder")
        return
    for measured in (reading, fifo, fair, guarantee, renewed):
        with get_context("spawn").Pool(1) as process:
            yield from process.apply(measured)


def figure(name: str, value: float | None, unit: str, target: str | None, detail: str) -> Figure:
    return {"name": name, "value": value, "unit": unit, "target": target, "detail": detail}


def philly_document() -> dict[str, Any]:
    """Return days 20 to 99 with quotas scaled by 0.25: contended, as the real cluster was."""
    with gzip.open(TRACE / "jobs.csv.gz", "rt") as jobs, (TRACE / "tenants.csv").open() as tenants:
        return philly(jobs, tenants, from_day=20, days=80, scale_quota=0.25, seed=1)


def reading() -> list[Figure]:
    """Measure the way from the log to a scenario, and from the scenario's text to values."""
    begin = time.perf_counter()
    document = philly_document()
    read_at = time.perf_counter()
    text = json.dumps(document)
    reading_start = time.perf_counter()
    scenario = read(text)
    detail = f"{len(scenario.jobs)} jobs, {len(text) / 1e6:.1f} MB"
    return [
        figure("philly_import", round(read_at - begin, 2), "s", None, detail),
        figure("philly_read_text", round(time.perf_counter() - reading_start, 2), "s", None, detail),
    ]


def run(settings: dict[str, Any], plan: str = KEEP) -> tuple[Scenario, Any, float, list[tuple[int, float]]]:
    """Return (scenario, outcome, seconds, [(jobs settled, seconds until then)]). `plan` is that of every tenant."""
    document = philly_document()
    scenario = read(document | {"tenants": [tenant | {"plan": plan} for tenant in document["tenants"]]})
    policy = policies.build(settings, scenario.cluster, scenario.jobs)
    begin = time.perf_counter()
    settled: list[tuple[int, float]] = [(0, 0.0)]
    outcome = simulate(scenario, {"batch": policy}, lambda done, _: settled.append((done, time.perf_counter() - begin)))
    return scenario, outcome, time.perf_counter() - begin, settled


def fifo() -> list[Figure]:
    """Measure the best of three runs, because a run takes seconds, and whatever else the machine does shows in it."""
    runs = [run(ALL_GPUS) for _ in range(3)]
    scenario, outcome, seconds, _ = min(runs, key=lambda each: each[2])
    begin = time.perf_counter()
    summary = metrics.summary(scenario, outcome)
    summed = time.perf_counter() - begin
    return [
        figure(
            "philly_fifo",
            round(len(scenario.jobs) / seconds),
            "jobs a second",
            "at least 20,000",
            f"{described(scenario, summary, seconds)}; best of {len(runs)}",
        ),
        figure("philly_metrics", round(summed, 2), "s", "about 1", f"{len(scenario.jobs)} jobs"),
    ]


def fair() -> list[Figure]:
    scenario, outcome, seconds, _ = run(FAIR)
    detail = described(scenario, metrics.summary(scenario, outcome), seconds)
    return [figure("philly_dominant_resource_fairness", round(seconds, 1), "s", "at most 60", detail)]


def guarantee() -> list[Figure]:
    return guaranteed("philly_astraea_guarantee", KEEP)


def renewed() -> list[Figure]:
    return guaranteed("philly_astraea_guarantee_renewed", RENEW)


def guaranteed(name: str, plan: str) -> list[Figure]:
    scenario, outcome, seconds, settled = run(GUARANTEE, plan)
    summary = metrics.summary(scenario, outcome)
    detail = f"{described(scenario, summary, seconds)}, {summary['jobs_below_floor']} jobs below their floor"
    costs = thirds(settled, len(scenario.jobs))
    each = ", ".join(f"{cost:.2f}" for cost in costs)
    return [
        figure(name, round(seconds / 60, 2), "minutes", "at most 4", detail),
        figure(f"{name}_memory", round(peak_gib(), 2), "GiB", "under 2", "peak of the process"),
        figure(
            f"{name}_growth",
            round(costs[-1] / costs[0], 2),
            "last third / first",
            "flat",
            f"ms a job in each third of the jobs: {each}",
        ),
    ]


def thirds(settled: list[tuple[int, float]], jobs: int) -> list[float]:
    """Return the milliseconds that a job took in each third of the jobs, in the order in which they were settled."""
    marks = [next(mark for mark in settled if mark[0] >= part * jobs / 3) for part in (0, 1, 2)]
    marks.append(settled[-1])
    return [1000 * (late - early) / max(1, more - less) for (less, early), (more, late) in pairwise(marks)]


def described(scenario: Scenario, summary: dict[str, Any], seconds: float) -> str:
    used = summary["utilisation"]["worker"]
    return f"{len(scenario.jobs)} jobs in {seconds:.1f} s, {summary['awarded']} awarded, {used:.0%} of the GPUs used"


def peak_gib() -> float:
    """Return the most memory that this process ever had. The system counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
