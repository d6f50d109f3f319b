"""Changes to a drawn market, or to a policy's settings in it, that a figure sweeps or that one line of it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.estimates import speeds
from scheduling.core.policies import build
from scheduling.core.policies.batchsche.ways import ways
from scheduling.core.scenario import Scenario
from scheduling.core.speed import elastic_rate
from scheduling.core.types import Job
from scheduling.core.value import Sigmoid
from scheduling.management.reproduction.training_modes import synchronous

Settings = Mapping[str, Any]
Adjust = Callable[[Scenario, Settings, float], tuple[Scenario, Settings]]

THETA_LEAST = 2.0
ERROR_SEED, VARIATION_SEED = 15, 13
MOST_UNITS = 16  # workers, and parameter servers, that a speed function is fitted for


def theta(scenario: Scenario, settings: Settings, part: float) -> tuple[Scenario, Settings]:
    """Astraea with so much of the largest value of a unit and slot: theta - 1 is that, never below 1."""
    highest: dict[str, float] = dict.fromkeys(scenario.cluster.resources, 0.0)
    for job in scenario.jobs:
        central = [way for way in ways(job, scenario.cluster.slot_seconds) if way.central]
        if not central:
            continue
        way = min(central, key=lambda way: way.slots)
        worth = float(job.value(way.slots)) / way.slots
        taken = job.worker_types[way.types[0]].demand * way.workers + job.ps_types[way.types[1]].demand
        for resource in np.flatnonzero(taken).tolist():
            name = scenario.cluster.resources[resource]
            highest[name] = max(highest[name], worth / float(taken[resource]))
    bases = {name: max(THETA_LEAST, 1.0 + part * value) for name, value in highest.items()}
    return scenario, {**settings, "theta": bases}


def ceiling(scenario: Scenario, settings: Settings, part: float) -> tuple[Scenario, Settings]:
    """OASiS with so much of the ceilings that its own jobs propose, never below the floor."""
    proposed = build(settings, scenario.cluster, scenario.jobs)
    changed = {}
    for name in ("worker_price", "ps_price"):
        price = getattr(proposed, name)
        most = {resource: max(price["floor"], part * amount) for resource, amount in price["ceiling"].items()}
        changed[name] = {"floor": price["floor"], "ceiling": most}
    return scenario, {**settings, **changed}


def gain(scenario: Scenario, settings: Settings, factor: float) -> tuple[Scenario, Settings]:
    """PD-ORS with such a gain before it rounds."""
    return scenario, {**settings, "gain": factor}


def split(scenario: Scenario, settings: Settings, _: float) -> tuple[Scenario, Settings]:
    """Every other server hosts workers only, the rest parameter servers only."""
    even = np.arange(len(scenario.cluster.servers)) % 2 == 0
    return replace(scenario, cluster=replace(scenario.cluster, hosts_workers=even, hosts_ps=~even)), settings


def priority_from(scenario: Scenario, settings: Settings, least: float) -> tuple[Scenario, Settings]:
    """Priorities drawn from 1 to 100 are moved, in proportion, to between `least` and 100."""

    def moved(job: Job) -> Job:
        if not isinstance(job.value, Sigmoid):
            return job
        priority = least + (job.value.priority - 1.0) * (100.0 - least) / 99.0
        return replace(job, value=replace(job.value, priority=priority))

    return replace(scenario, jobs=tuple(moved(job) for job in scenario.jobs)), settings


def sensitive_only(scenario: Scenario, settings: Settings, count: float) -> tuple[Scenario, Settings]:
    """The first jobs that are sensitive to time and the first to which it is critical, `count` of each."""
    kept: list[Job] = []
    for low, high in ((0.0, 2.0), (2.0, np.inf)):
        fits = [job for job in scenario.jobs if isinstance(job.value, Sigmoid) and low < job.value.decay <= high]
        kept += fits[: round(count)]
    numbered = [replace(job, number=k) for k, job in enumerate(sorted(kept, key=lambda job: (job.arrival, job.number)))]
    return replace(scenario, jobs=tuple(numbered)), settings


def arrivals_in_bursts(scenario: Scenario, settings: Settings, every: float) -> tuple[Scenario, Settings]:
    """Arrivals wait for the next multiple of so many slots: many come at once, then nobody."""
    jobs = [replace(job, arrival=float(np.ceil(job.arrival / every) * every)) for job in scenario.jobs]
    return replace(scenario, jobs=tuple(jobs)), settings


def containers(scenario: Scenario, settings: Settings, count: float) -> tuple[Scenario, Settings]:
    """Every server is cut into so many equal containers, each for one worker or one parameter server."""
    cluster, one = scenario.cluster, np.zeros(len(scenario.cluster.resources))
    one[0] = 1.0
    capacity = np.outer(count * one, np.ones(len(cluster.servers)))
    jobs = tuple(
        replace(
            job,
            worker_types=tuple(replace(unit, demand=one) for unit in job.worker_types),
            ps_types=tuple(replace(unit, demand=one) for unit in job.ps_types),
        )
        for job in scenario.jobs
    )
    nobody = np.zeros_like(cluster.quota)
    return replace(scenario, cluster=replace(cluster, capacity=capacity, quota=nobody, cells=None), jobs=jobs), settings


def speed_error(scenario: Scenario, settings: Settings, error: float) -> tuple[Scenario, Settings]:
    """Each job brings a speed function that is off by so much, up or down: every time it foretells is."""
    off = _either(ERROR_SEED, len(scenario.jobs), error)
    jobs = [_with_speed(job, job, slower=1.0 / by) for job, by in zip(scenario.jobs, off, strict=True)]
    return replace(scenario, jobs=tuple(jobs)), settings


def speed_variation(scenario: Scenario, settings: Settings, variation: float) -> tuple[Scenario, Settings]:
    """Each job is so much faster or slower than its type. It brings the speed function of its type."""
    off = _either(VARIATION_SEED, len(scenario.jobs), variation)
    jobs = [_with_speed(_slowed(job, 1.0 / by), job) for job, by in zip(scenario.jobs, off, strict=True)]
    return replace(scenario, jobs=tuple(jobs)), settings


def _either(seed: int, count: int, part: float) -> list[float]:
    """1 + part or 1 - part for each, as likely the one as the other."""
    dice = np.random.default_rng([seed, count])
    return [1.0 + part if dice.random() < 0.5 else 1.0 - part for _ in range(count)]


def _slowed(job: Job, times: float) -> Job:
    """Everything that the job does takes so many times as long."""
    return replace(
        job,
        gradient_mb=job.gradient_mb * times,
        worker_types=tuple(replace(unit, seconds=unit.seconds * times) for unit in job.worker_types),
        ps_types=tuple(replace(unit, seconds=unit.seconds * times) for unit in job.ps_types),
    )


def _with_speed(job: Job, like: Job, slower: float = 1.0) -> Job:
    """The job with the speed function of another as its owner's: fitted as Optimus fits it, then so much slower."""
    pairs = np.array(speeds.probes(MOST_UNITS, MOST_UNITS), np.float64)
    seen = [elastic_rate(like, int(w), int(p), (0, 0), 1.0, centralized=False) for p, w in pairs]
    fitted = speeds.fit(pairs[None, :, 0], pairs[None, :, 1], np.array([seen]), speeds.ASYNC)[0] * slower
    return replace(job, samples=replace(job.samples, mode=speeds.ASYNC, speed=tuple(fitted.tolist())))


ADJUSTMENTS: Mapping[str, Adjust] = {
    "theta": theta,
    "ceiling": ceiling,
    "gain": gain,
    "split": split,
    "priority_from": priority_from,
    "sensitive_only": sensitive_only,
    "arrivals_in_bursts": arrivals_in_bursts,
    "containers": containers,
    "speed_error": speed_error,
    "speed_variation": speed_variation,
    "synchronous": synchronous,
}
