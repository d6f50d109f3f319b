"""PD-ORS admissions: 100 co-located machines, 4 resources, 20 slots, the paper's parameter ranges."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from scheduling.core.occupancy import Occupancy
from scheduling.core.policies import build
from scheduling.core.scenario import Scenario, read
from scheduling.core.types import View
from scheduling.core.workload.synthetic import synthetic

MACHINES, SLOTS = 100, 20


def market(jobs: int, seed: int, *, span: float) -> Scenario:
    """Jobs that can end within the slots, arriving over the first of them."""
    document = synthetic(
        seed=seed, preset="pdors", tenants=1, servers=MACHINES, jobs=jobs, slots=SLOTS, span=span, longest=SLOTS,
        cells=False,
    )  # fmt: skip
    return read(document)


def admissions(scenario: Scenario, **settings: Any) -> tuple[list[float], int]:
    """(milliseconds of each admission, how many were admitted), one job after the other on one calendar."""
    cluster = scenario.cluster
    policy = build({"name": "pdors"} | settings, cluster, scenario.jobs)
    taken = Occupancy(cluster)
    times, admitted = [], 0
    for job in sorted(scenario.jobs, key=lambda job: (job.arrival, job.number)):
        view = View(
            slot=job.first_slot,
            horizon=SLOTS,
            cluster=cluster,
            waiting=(job,),
            remaining=np.array([float(job.work)]),
            occupied=taken.window(job.first_slot),
        )
        begin = time.perf_counter()
        plan = policy.decide(view)
        times.append(1000 * (time.perf_counter() - begin))
        for booking in plan.bookings:
            taken.place(job, booking)
            admitted += 1
    return times, admitted


def measure() -> Iterator[dict[str, Any]]:
    times, admitted = admissions(market(200, seed=7, span=8.0))
    for name, value, target in (
        ("median", np.median(times), "at most 300"),
        ("p90", np.quantile(times, 0.9), "-"),
        ("max", max(times), "-"),
    ):
        yield {
            "name": f"pdors_admission_{name}",
            "value": round(float(value), 1),
            "unit": "ms",
            "target": target,
            "detail": f"{admitted} of {len(times)} admitted; {MACHINES} machines, 4 resources, {SLOTS} slots",
        }
