"""The guarantee's second edition: one boundary with renewed plans, with a searched price, a long queue, and whole runs
with and without pieces."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from scheduling.core import policies
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH, KEEP, RENEW, Plan, Policy, View
from scheduling.core.workload import synthetic
from tests.bench.bench_astraea import REPEATS, SEEDS, scenario_of, view_at

SLOTS = 256
ONE_BOUNDARY = {  # plan, price: ms a job, at most
    (KEEP, "posted"): None,
    (RENEW, "posted"): 0.8,
    (RENEW, "searched"): 4.0,
}
QUEUE = {"jobs": 10_000, "tenants": 100, "servers": 300}


def planned(scenario: Scenario, plan: str) -> Scenario:
    """Return the scenario with every tenant's plan set to `plan`: kept or renewed."""
    tenants = tuple(replace(tenant, plan=plan) for tenant in scenario.cluster.tenants)
    return replace(scenario, cluster=replace(scenario.cluster, tenants=tenants))


def decided(
    scenario: Scenario, slots: int, price: str, dividend: float, view: View | None = None
) -> tuple[float, Plan]:
    """Return (seconds, plan) of a boundary whose window has `slots` slots."""
    clock = {"first": slots, "cap": slots, "restart": False}
    fields = {"name": "astraea", "mode": "guarantee", "clock": clock, "theta": {"worker": 2, "ps": 35}}
    policy = policies.build({**fields, "price": price, "dividend": dividend}, scenario.cluster, scenario.jobs)
    view = view or view_at(scenario, slots)
    begin = time.perf_counter()
    plan = policy.decide(view)
    return time.perf_counter() - begin, plan


def next_boundary(scenario: Scenario, slots: int, plan: Plan) -> View:
    """Return the view of the boundary after a plan. Jobs that got nothing still wait, and jobs that rented continue in
    the world in which their owner is alone."""
    view = view_at(scenario, 2 * slots)
    served = {booking.job: booking for booking in plan.bookings}
    floors = {floor.job: floor for floor in plan.floors}
    waiting = tuple(job for job in view.waiting if job.number not in served)
    rents = tuple(booking for number, booking in served.items() if floors[number].draft)
    return replace(
        view,
        waiting=waiting,
        remaining=np.array([float(job.work) for job in waiting]),
        active=tuple(booking for booking in plan.bookings if booking.end > 2 * slots),
        floors=floors,
        open_rents=rents,
    )


def measure() -> Iterator[dict[str, Any]]:
    for (plan, price), target in ONE_BOUNDARY.items():
        runs = []
        for seed in SEEDS:
            tried = (
                decided(planned(scenario_of(300, 100, SLOTS, seed), plan), SLOTS, price, 0.0) for _ in range(REPEATS)
            )
            runs.append(min(tried, key=lambda run: run[0]))
        rented = [sum(booking.phase == "shared" for booking in answer.bookings) for _, answer in runs]
        yield {
            "name": f"guarantee_{plan}_{price}_300_jobs_{SLOTS}_slots",
            "value": round(1000 * float(np.mean([seconds for seconds, _ in runs])) / 300, 3),
            "unit": "ms a job",
            "target": "for comparison" if target is None else f"at most {target}",
            "detail": f"{len(runs)} draws, each the best of {REPEATS} cold runs; rented {rented}",
        }
    yield from long_queue()
    yield from one_boundary_in_pieces()
    yield from in_pieces()


def long_queue() -> Iterator[dict[str, Any]]:
    """Measure two boundaries of 32 slots in a row. At the second, old drafts compete with a plan from nothing."""
    scenario = planned(read(synthetic(seed=1, span=23.5, slots=320, **QUEUE)), RENEW)
    first, plan = decided(scenario, 32, "posted", 0.0)
    second, later = decided(scenario, 32, "posted", 0.0, next_boundary(scenario, 32, plan))
    yield {
        "name": "guarantee_renew_posted_10000_jobs_100_tenants_32_slots",
        "value": round(max(first, second), 2),
        "unit": "s",
        "target": "at most 20",
        "detail": f"{first:.2f} s with all jobs new, {second:.2f} s after that; "
        f"{len(plan.bookings)} and {len(later.bookings)} awarded",
    }


@dataclass
class Timed:
    """A policy whose decisions are timed."""

    policy: Policy
    name: ClassVar[str] = "astraea"
    seconds: float = 0.0

    def decide(self, view: View) -> Plan:
        begin = time.process_time()
        plan = self.policy.decide(view)
        self.seconds += time.process_time() - begin
        return plan


def one_boundary_in_pieces() -> Iterator[dict[str, Any]]:
    """Measure one boundary with a window of 32 slots, at which 300 jobs wait: with all jobs divisible, and with none.
    Each is the best of some turns."""
    for plan in (KEEP, RENEW):
        best: dict[tuple[int, bool], float] = {}
        for seed in SEEDS * REPEATS:
            for divisible in (False, True):
                scenario = saved_or_not(planned(scenario_of(300, 100, SLOTS, seed), plan), divisible=divisible)
                seconds, _ = decided(scenario, 32, "posted", 0.0)
                best[seed, divisible] = min(seconds, best.get((seed, divisible), seconds))
        without, with_pieces = (float(np.mean([best[seed, each] for seed in SEEDS])) for each in (False, True))
        yield {
            "name": f"guarantee_{plan}_posted_300_jobs_100_servers_one_window_of_32_with_pieces",
            "value": round(with_pieces / without, 2),
            "unit": "times the decision without",
            "target": "at most 1.5",
            "detail": f"{1000 * with_pieces:.0f} ms and {1000 * without:.0f} ms; {len(SEEDS)} draws",
        }


def saved_or_not(scenario: Scenario, *, divisible: bool) -> Scenario:
    """Return the scenario with all jobs divisible, or with none."""
    jobs = tuple(replace(job, divisible=divisible, save_slots=0.25) for job in scenario.jobs)
    return replace(scenario, jobs=jobs)


def in_pieces() -> Iterator[dict[str, Any]]:
    """Measure the processor time of all decisions of a run in windows of 32 slots: in turns with all jobs divisible,
    and with none. At most of its boundaries few jobs wait."""
    clock = {"first": 32, "cap": 32, "restart": False}
    fields = {"name": "astraea", "mode": "guarantee", "clock": clock, "theta": {"worker": 2, "ps": 35}}
    for plan in (KEEP, RENEW):
        seconds: dict[bool, list[float]] = {False: [], True: []}
        pieces = 0
        for seed in SEEDS:
            for divisible in (False, True):
                scenario = saved_or_not(planned(scenario_of(300, 100, SLOTS, seed), plan), divisible=divisible)
                timed = Timed(policies.build(fields, scenario.cluster, scenario.jobs))
                outcome = simulate(scenario, {BATCH: timed})
                seconds[divisible].append(timed.seconds)
                pieces += sum(max(len(track.bookings) - 1, 0) for track in outcome.tracks)
        without, with_pieces = (float(np.mean(seconds[divisible])) for divisible in (False, True))
        yield {
            "name": f"guarantee_{plan}_posted_300_jobs_100_servers_windows_of_32_with_pieces",
            "value": round(with_pieces / without, 2),
            "unit": "times the decisions without",
            "target": "at most 1.5",
            "detail": f"{with_pieces:.2f} s and {without:.2f} s of processor a run of {SLOTS} slots; "
            f"{len(SEEDS)} draws, {pieces} pieces",
        }
