"""OASiS admissions: 300 slots, 50 + 50 servers, 5 resources, the paper's parameter ranges."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from scheduling.core.occupancy import Occupancy
from scheduling.core.offline.oasis import optimum
from scheduling.core.policies.oasis import build
from scheduling.core.policies.oasis.work import chunk_slots
from scheduling.core.types import Cluster, Job, Tenant, UnitType, View
from scheduling.core.value import Sigmoid
from tests.core.offline_oasis import online, small_sequence

SLOTS, SERVERS = 300, 50
RESOURCES = ("gpu", "cpu", "memory_gb", "storage_gb", "mbps")


def make_cluster(seed: int) -> Cluster:
    """Return fifty GPU machines of two sizes for workers, fifty without GPUs for parameter servers; 20-50 Gbit/s."""
    dice = np.random.default_rng([seed, 0])
    gpu_machines = np.array([[16, 64, 732, 1000], [4, 64, 488, 1000]], dtype=float)[dice.integers(0, 2, SERVERS)]
    plain_machines = np.tile([0.0, 36, 60, 1000], (SERVERS, 1))
    bandwidth = dice.uniform(20_000, 50_000, 2 * SERVERS).round()
    return Cluster(
        resources=RESOURCES,
        servers=tuple(f"s{index}" for index in range(2 * SERVERS)),
        tenants=(Tenant("t", np.zeros(5)),),
        slot_seconds=3600.0,
        capacity=np.column_stack([np.vstack([gpu_machines, plain_machines]), bandwidth]).T,
        quota=np.zeros((5, 1)),
        hosts_workers=np.arange(2 * SERVERS) < SERVERS,
        hosts_ps=np.arange(2 * SERVERS) >= SERVERS,
    )


def make_jobs(number: int, longest: int, seed: int) -> list[Job]:
    """Return jobs in the paper's ranges that can finish within `longest` slots with all their workers."""
    dice = np.random.default_rng([seed, longest])
    jobs: list[Job] = []
    while len(jobs) < number:
        job = make_job(len(jobs), dice)
        per_chunk = chunk_slots(job, job.worker_types[0], job.ps_types[0], 3600.0)
        if math.ceil(job.epochs * per_chunk) <= longest:
            jobs.append(job)
    return jobs


def make_job(number: int, dice: np.random.Generator) -> Job:
    """Return one job with every parameter drawn uniformly from the paper's range."""
    chunks = int(dice.integers(5, 101))
    mbps, ps_mbps = (round(float(dice.uniform(*limits)), 1) for limits in ((100, 5000), (5000, 20_000)))
    shared = [float(dice.integers(low, high + 1)) for low, high in ((1, 10), (2, 32), (5, 10)) * 2]
    decay = float(dice.choice([0.0, dice.uniform(0.01, 1), dice.uniform(4, 6)], p=[0.1, 0.55, 0.35]))
    return Job(
        number=number,
        name=f"j{number}",
        tenant=0,
        arrival=float(dice.uniform(0, SLOTS * 0.8)),
        epochs=int(dice.integers(50, 201)),
        chunks=chunks,
        minibatches=int(dice.integers(10, 101)),
        worker_types=(
            UnitType(
                np.array([float(dice.integers(0, 5)), *shared[:3], mbps]),
                round(dice.uniform(0.001, 0.1) * 3600, 2),
                mbps,
            ),
        ),
        ps_types=(UnitType(np.array([0.0, *shared[3:], ps_mbps]), 0.0, ps_mbps),),
        value=Sigmoid(float(dice.uniform(1, 100)), decay, float(dice.integers(1, 16))),
        gradient_mb=round(float(dice.uniform(30, 575)), 1),
        max_workers=chunks,
    )


def admissions(longest: int, number: int, seed: int) -> tuple[list[float], int]:
    """Return (milliseconds of each admission, number of jobs admitted), for one job after the other on one calendar."""
    cluster, jobs = make_cluster(seed), make_jobs(number, longest, seed)
    policy = build({}, cluster, jobs)
    occupancy = Occupancy(cluster)
    times, admitted = [], 0
    for job in sorted(jobs, key=lambda job: job.arrival):
        view = View(
            slot=job.first_slot,
            horizon=SLOTS,
            cluster=cluster,
            waiting=(job,),
            remaining=np.array([job.work]),
            occupied=occupancy.window(job.first_slot),
        )
        begin = time.perf_counter()
        plan = policy.decide(view)
        times.append(1000 * (time.perf_counter() - begin))
        for booking in plan.bookings:
            occupancy.place(job, booking)
            admitted += 1
    return times, admitted


def measure() -> Iterator[dict[str, Any]]:
    for longest, median, late in ((15, 4, 60), (100, 5, 250)):
        times, admitted = admissions(longest, 400, seed=7)
        detail = f"{admitted} of {len(times)} admitted, longest {max(times):.1f} ms"
        for name, value, target in (
            ("median", np.median(times), median),
            ("p99", np.quantile(times, 0.99), late),
        ):
            yield {
                "name": f"oasis_admission_{name}_jobs_up_to_{longest}_slots",
                "value": round(float(value), 2),
                "unit": "ms",
                "target": f"at most {target}",
                "detail": detail,
            }
    yield from competitive_ratio()


def competitive_ratio() -> Iterator[dict[str, Any]]:
    """Measure the offline optimum over what OASiS reaches, with ten jobs in ten slots, in ten draws."""
    ratios = []
    for seed in range(10):
        world, jobs = small_sequence(seed)
        ratios.append(optimum(world.cluster, jobs, world.slots, gap=1e-4) / online(world, jobs))
    yield {
        "name": "oasis_offline_optimum_over_online_mean",
        "value": round(float(np.mean(ratios)), 3),
        "unit": "ratio",
        "target": "about 1.1",
        "detail": f"largest {max(ratios):.3f} of {len(ratios)} draws of 10 jobs in 10 slots",
    }
