"""Astraea: one boundary with the paper's section 5.1 ranges, one with a long queue, and a whole trace."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scheduling.core import policies
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, Plan, View
from scheduling.core.workload import philly, synthetic

SEEDS = (1, 2, 3)
ROUND_OF_300 = {64: 0.5, 256: 2.0}  # slots: ms a job, at most
REPEATS = 3  # what else the machine does only ever makes a run longer
MODES = ("paper", "guarantee")
TRACE = Path(__file__).parents[3] / "shared" / "traces" / "philly"


def scenario_of(jobs: int, servers: int, slots: int, seed: int) -> Scenario:
    """Return a scenario in section 5.1's ranges. They all arrive in the first day, so that one boundary collects
    them."""
    return read(synthetic(seed=seed, servers=servers, jobs=jobs, span=23.5, slots=10 * slots))


def view_at(scenario: Scenario, slot: int) -> View:
    """Return the view of a boundary at which all jobs wait and nothing is taken."""
    cluster = scenario.cluster
    return View(
        slot=slot,
        horizon=scenario.slots,
        cluster=cluster,
        waiting=tuple(sorted(scenario.jobs, key=lambda job: (job.arrival, job.number))),
        remaining=np.array([float(job.work) for job in scenario.jobs]),
        occupied=np.zeros((*cluster.capacity.shape[:1], 0, *cluster.capacity.shape[1:])),
        jobs={job.number: job for job in scenario.jobs},
    )


def one_round(jobs: int, servers: int, slots: int, mode: str, seed: int) -> tuple[float, Plan]:
    """Return (seconds, plan) of a boundary whose window has `slots` slots."""
    scenario = scenario_of(jobs, servers, slots, seed)
    clock = {"first": slots, "cap": slots, "restart": False}
    fields = {"name": "astraea", "mode": mode, "clock": clock}
    view = view_at(scenario, slots)
    policy = policies.build({**fields, "theta": {"worker": 2, "ps": 35}}, scenario.cluster, scenario.jobs)
    begin = time.perf_counter()
    plan = policy.decide(view)
    return time.perf_counter() - begin, plan


def measure() -> Iterator[dict[str, Any]]:
    for slots, target in ROUND_OF_300.items():
        for mode in MODES:
            runs = [
                min((one_round(300, 100, slots, mode, seed) for _ in range(REPEATS)), key=lambda run: run[0])
                for seed in SEEDS
            ]
            awarded = [len(plan.bookings) for _, plan in runs]
            yield {
                "name": f"astraea_{mode}_one_round_300_jobs_{slots}_slots",
                "value": round(1000 * float(np.mean([seconds for seconds, _ in runs])) / 300, 3),
                "unit": "ms a job",
                "target": f"at most {target}",
                "detail": f"{len(runs)} draws, each the best of {REPEATS} cold runs; awarded {awarded}",
            }
    for mode in MODES:
        seconds, plan = one_round(10_000, 550, 128, mode, 1)
        yield {
            "name": f"astraea_{mode}_one_round_10000_jobs_550_servers_128_slots",
            "value": round(seconds, 2),
            "unit": "s",
            "target": "at most 15",
            "detail": f"{len(plan.bookings)} awarded, {len(plan.refusals)} refused",
        }
    if TRACE.exists():
        yield from whole_trace()


def whole_trace() -> Iterator[dict[str, Any]]:
    """Measure days 20 to 99 of the Philly trace, and their first 20: a job must not take longer in a longer trace."""
    for days in (20, 80):
        with gzip.open(TRACE / "jobs.csv.gz", "rt") as jobs, (TRACE / "tenants.csv").open() as tenants:
            scenario = read(philly(jobs, tenants, from_day=20, days=days, scale_quota=0.25, seed=1))
        begin = time.perf_counter()
        fields = {"name": "astraea", "mode": "guarantee"}
        policy = policies.build(fields, scenario.cluster, scenario.jobs)
        tracks = simulate(scenario, {"batch": policy}).tracks
        seconds = time.perf_counter() - begin
        awarded = sum(track.state == AWARDED for track in tracks)
        yield {
            "name": f"astraea_guarantee_philly_{days}_days",
            "value": round(seconds, 1),
            "unit": "s",
            "target": "at most 240 for 80 days",
            "detail": f"{len(tracks)} jobs, {awarded} awarded, {1000 * seconds / len(tracks):.2f} ms a job",
        }
