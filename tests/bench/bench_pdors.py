"""PD-ORS admissions: 100 co-located machines, 4 resources, 20 slots, the paper's parameter ranges."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.occupancy import Occupancy
from scheduling.core.offline.pdors import optimum
from scheduling.core.policies import build
from scheduling.core.scenario import Scenario, read
from scheduling.core.types import View
from scheduling.core.workload.synthetic import synthetic
from tests.core import reference_pdors
from tests.core.offline_pdors import online, small_sequence
from tests.core.test_pdors_exact import ODD, ROUND, payoff, random_worlds

MACHINES, SLOTS = 100, 20


def market(jobs: int, seed: int, *, span: float) -> Scenario:
    """Return a scenario of jobs that can end within the slots, and that arrive in the first `span` of them."""
    document = synthetic(
        seed=seed, preset="pdors", tenants=1, servers=MACHINES, jobs=jobs, slots=SLOTS, span=span, longest=SLOTS,
        cells=False,
    )  # fmt: skip
    return read(document)


def admissions(scenario: Scenario, **settings: Any) -> tuple[list[float], int]:
    """Return (milliseconds of each admission, number of jobs admitted), for one job after the other on one calendar."""
    cluster = scenario.cluster
    policy = build({"name": "pdors"} | settings, cluster, scenario.jobs)
    occupancy = Occupancy(cluster)
    times, admitted = [], 0
    for job in sorted(scenario.jobs, key=lambda job: (job.arrival, job.number)):
        view = View(
            slot=job.first_slot,
            horizon=SLOTS,
            cluster=cluster,
            waiting=(job,),
            remaining=np.array([float(job.work)]),
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
    yield from other_searches()
    yield from losses()
    yield from competitive_ratio()


def other_searches() -> Iterator[dict[str, Any]]:
    """Measure the ways to find gangs that an operator may choose, on fewer jobs: they call a solver for every gang."""
    greedy = admissions(market(12, seed=7, span=8.0))[1]
    for external in ("milp", "rounding"):
        times, admitted = admissions(market(12, seed=7, span=8.0), external=external)
        yield {
            "name": f"pdors_admission_median_{external}",
            "value": round(float(np.median(times)), 1),
            "unit": "ms",
            "target": "-",
            "detail": f"{admitted} of {len(times)} admitted (greedy {greedy}), longest {max(times):.0f} ms",
        }


def losses() -> Iterator[dict[str, Any]]:
    """Measure the payoff lost against a program that is exact in samples, over tiny jobs that could gain something."""
    for name, external, sample_slots in (
        ("round_numbers", "greedy", ROUND),
        ("odd_numbers", "greedy", ODD),
        ("odd_numbers_rounding", "rounding", ODD),
    ):
        lost = losses_of(sample_slots, external)
        yield {
            "name": f"pdors_mean_loss_{name}",
            "value": round(100 * float(np.mean(lost)), 4),
            "unit": "%",
            "target": "below 1",
            "detail": f"{len(lost)} jobs, {sum(loss < 1e-6 for loss in lost)} exact, largest {100 * max(lost):.2f} %",
        }
    lost, lost_jobs = literal_losses()
    yield {
        "name": "pdors_mean_loss_literal_four_quanta",
        "value": round(100 * float(lost), 3),
        "unit": "%",
        "target": "-",
        "detail": f"of all payoffs together, without finer quanta for small jobs; {lost_jobs} jobs lost",
    }


def losses_of(sample_slots: tuple[float, ...], external: str) -> list[float]:
    lost = []
    for world, job, occupied in random_worlds(500, 120, sample_slots):
        view = world.view(job, occupied)
        best = reference_pdors.exact_payoff(job, view, dict(world.policy.price))
        if best > 1e-6:
            variant = replace(world, policy=replace(world.policy, external=external))
            lost.append(1.0 - payoff(variant, view) / best)
    return lost


def literal_losses() -> tuple[float, int]:
    """Return (lost share of all payoffs, jobs lost) with four quanta in a worker's slot, whatever the job."""
    best = reached = 0.0
    lost_jobs = 0
    for world, job, occupied in random_worlds(500, 120, ODD):
        view, price = world.view(job, occupied), dict(world.policy.price)
        exact = reference_pdors.exact_payoff(job, view, price)
        literal = reference_pdors.quantum_payoff(job, view, price, 4, world.policy.mode)
        best, reached, lost_jobs = best + exact, reached + literal, lost_jobs + (exact > 1e-6 >= literal)
    return 1.0 - reached / best, lost_jobs


def competitive_ratio() -> Iterator[dict[str, Any]]:
    """Measure the offline optimum over what PD-ORS reaches, with six jobs in five slots on two machines."""
    ratios = []
    for seed in range(16):
        world, jobs = small_sequence(seed)
        ratios.append(optimum(world.cluster, jobs, world.slots, gap=0.0) / online(world, jobs))
    yield {
        "name": "pdors_offline_optimum_over_online_mean",
        "value": round(float(np.mean(ratios)), 3),
        "unit": "ratio",
        "target": "about 1.3",
        "detail": f"largest {max(ratios):.3f} of {len(ratios)} draws of 6 jobs in 5 slots",
    }
