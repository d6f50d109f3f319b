"""Changes to a drawn market, or to a policy's settings in it, which a figure sweeps or which belong to one of its
lines."""

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
from scheduling.core.types import RENEW, Job
from scheduling.core.value import Linear, Sigmoid
from scheduling.lab.reproduction.measured import as_measured, uncapped
from scheduling.lab.reproduction.training_modes import synchronous

Settings = Mapping[str, Any]
Adjust = Callable[[Scenario, Settings, float], tuple[Scenario, Settings]]

THETA_LEAST = 2.0
ERROR_SEED, VARIATION_SEED, POISSON_SEED, PATIENCE_SEED = 15, 13, 17, 14
PRACTICAL_MIX = (0.30, 0.69, 0.01)
MOST_UNITS = 16  # a speed function is fitted for so many workers and parameter servers


def theta(scenario: Scenario, settings: Settings, part: float) -> tuple[Scenario, Settings]:
    """Set Astraea's theta to 1 + `part` times the largest value of a unit and slot, but never below 2."""
    highest: dict[str, float] = dict.fromkeys(scenario.cluster.resources, 0.0)
    for job in scenario.jobs:
        central = [way for way in ways(job, scenario.cluster.slot_seconds) if way.central]
        if not central:
            continue
        way = min(central, key=lambda way: way.slots)
        worth = float(job.value(way.slots)) / way.slots
        demand = job.worker_types[way.types[0]].demand * way.workers + job.ps_types[way.types[1]].demand
        for resource in np.flatnonzero(demand).tolist():
            name = scenario.cluster.resources[resource]
            highest[name] = max(highest[name], worth / float(demand[resource]))
    bases = {name: max(THETA_LEAST, 1.0 + part * value) for name, value in highest.items()}
    return scenario, {**settings, "theta": bases}


def ceiling(scenario: Scenario, settings: Settings, part: float) -> tuple[Scenario, Settings]:
    """Set OASiS' ceilings to `part` times those that its own jobs propose, never below the floor."""
    proposed = build(settings, scenario.cluster, scenario.jobs)
    changed = {}
    for name in ("worker_price", "ps_price"):
        price = getattr(proposed, name)
        most = {resource: max(price["floor"], part * amount) for resource, amount in price["ceiling"].items()}
        changed[name] = {"floor": price["floor"], "ceiling": most}
    return scenario, {**settings, **changed}


def gain(scenario: Scenario, settings: Settings, factor: float) -> tuple[Scenario, Settings]:
    """Set the gain of PD-ORS before it rounds."""
    return scenario, {**settings, "gain": factor}


def split(scenario: Scenario, settings: Settings, _: float) -> tuple[Scenario, Settings]:
    """Let every other server host only workers, and the rest only parameter servers."""
    even = np.arange(len(scenario.cluster.servers)) % 2 == 0
    return replace(scenario, cluster=replace(scenario.cluster, hosts_workers=even, hosts_ps=~even)), settings


def renewed(scenario: Scenario, settings: Settings, _: float) -> tuple[Scenario, Settings]:
    """Have every tenant's plan for its own cells made anew at each boundary (K1)."""
    tenants = tuple(replace(tenant, plan=RENEW) for tenant in scenario.cluster.tenants)
    return replace(scenario, cluster=replace(scenario.cluster, tenants=tenants)), settings


def divisible(scenario: Scenario, settings: Settings, save_slots: float) -> tuple[Scenario, Settings]:
    """Let every job be saved and resumed later, which loses `save_slots` slots (D1)."""
    jobs = tuple(replace(job, divisible=True, save_slots=save_slots) for job in scenario.jobs)
    return replace(scenario, jobs=jobs), settings


def guests(scenario: Scenario, settings: Settings, slots: float) -> tuple[Scenario, Settings]:
    """Give every third job to a tenant without cells. Every other one of these is made so long that even its shortest
    run takes `slots` slots, and worth as many times more."""
    cluster = scenario.cluster
    tenant = replace(cluster.tenants[0], name="guests", plan=RENEW)
    nothing = np.zeros((len(cluster.resources), 1))
    cells = None if cluster.cells is None else np.concatenate([cluster.cells, np.zeros_like(cluster.cells[:, :1])], 1)
    cluster = replace(
        cluster, tenants=(*cluster.tenants, tenant), quota=np.column_stack([cluster.quota, nothing]), cells=cells
    )
    jobs = list(scenario.jobs)
    for place in range(0, len(jobs), 3):
        job = replace(jobs[place], tenant=len(cluster.tenants) - 1)
        jobs[place] = _longer(job, cluster.slot_seconds, slots) if place % 2 == 0 else job
    return replace(scenario, cluster=cluster, jobs=tuple(jobs)), settings


def _longer(job: Job, slot_seconds: float, slots: float) -> Job:
    """Return the job with as many times the epochs and the value as that takes."""
    shortest = min(way.slots for way in ways(job, slot_seconds))
    times = int(np.ceil(slots / shortest))
    value = replace(job.value, base=job.value.base * times) if isinstance(job.value, Linear) else job.value
    return replace(job, epochs=job.epochs * times, value=value)


def priority_from(scenario: Scenario, settings: Settings, least: float) -> tuple[Scenario, Settings]:
    """Move priorities drawn from 1 to 100, in proportion, to between `least` and 100."""

    def moved(job: Job) -> Job:
        if not isinstance(job.value, Sigmoid):
            return job
        priority = least + (job.value.priority - 1.0) * (100.0 - least) / 99.0
        return replace(job, value=replace(job.value, priority=priority))

    return replace(scenario, jobs=tuple(moved(job) for job in scenario.jobs)), settings


def patience_mix(scenario: Scenario, settings: Settings, _: float) -> tuple[Scenario, Settings]:
    """Draw anew for each job whether time means nothing, something or everything to it, in parts of 30, 69 and 1 %
    (PD-ORS)."""
    dice = np.random.default_rng([PATIENCE_SEED, len(scenario.jobs)])
    jobs = []
    for job in scenario.jobs:
        decay = (0.0, dice.uniform(0.01, 1.0), dice.uniform(4.0, 6.0))[dice.choice(3, p=PRACTICAL_MIX)]
        jobs.append(replace(job, value=replace(job.value, decay=decay)) if isinstance(job.value, Sigmoid) else job)
    return replace(scenario, jobs=tuple(jobs)), settings


def parameter_servers(scenario: Scenario, settings: Settings, count: float) -> tuple[Scenario, Settings]:
    """Give every machine room for `count` parameter servers; nobody's quota grows by that."""
    capacity = scenario.cluster.capacity.copy()
    capacity[scenario.cluster.resources.index("ps")] = count
    return replace(scenario, cluster=replace(scenario.cluster, capacity=capacity)), settings


def sensitive_only(scenario: Scenario, settings: Settings, count: float) -> tuple[Scenario, Settings]:
    """Keep the first jobs that are sensitive to time and the first to which it is critical, `count` of each."""
    sensitive: list[Job] = []
    for low, high in ((0.0, 2.0), (2.0, np.inf)):
        fits = [job for job in scenario.jobs if isinstance(job.value, Sigmoid) and low < job.value.decay <= high]
        sensitive += fits[: round(count)]
    numbered = [
        replace(job, number=k) for k, job in enumerate(sorted(sensitive, key=lambda job: (job.arrival, job.number)))
    ]
    return replace(scenario, jobs=tuple(numbered)), settings


def arrivals_in_bursts(scenario: Scenario, settings: Settings, every: float) -> tuple[Scenario, Settings]:
    """Let arrivals wait for the next multiple of `every` slots: many come at once, then none."""
    jobs = [replace(job, arrival=float(np.ceil(job.arrival / every) * every)) for job in scenario.jobs]
    return replace(scenario, jobs=tuple(jobs)), settings


def poisson(scenario: Scenario, settings: Settings, rate: float) -> tuple[Scenario, Settings]:
    """Let jobs arrive in a Poisson process, `rate` in a slot on average."""
    gaps = np.random.default_rng([POISSON_SEED, len(scenario.jobs)]).exponential(1.0 / rate, len(scenario.jobs))
    ordered = sorted(scenario.jobs, key=lambda job: (job.arrival, job.number))
    jobs = [replace(job, arrival=float(at)) for job, at in zip(ordered, np.cumsum(gaps), strict=True)]
    return replace(scenario, jobs=tuple(jobs)), settings


def containers(scenario: Scenario, settings: Settings, count: float) -> tuple[Scenario, Settings]:
    """Cut every server into `count` equal containers, each for one worker or one parameter server."""
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
    """Make each job's speed function, its own or one fitted to it, wrong by `error`, up or down: every time that it
    predicts is."""
    off = _either(ERROR_SEED, len(scenario.jobs), error)
    own = [job if job.samples.speed else _with_speed(job, job) for job in scenario.jobs]
    jobs = [_misjudged(job, 1.0 / by) for job, by in zip(own, off, strict=True)]
    return replace(scenario, jobs=tuple(jobs)), settings


def speed_variation(scenario: Scenario, settings: Settings, variation: float) -> tuple[Scenario, Settings]:
    """Make each job faster or slower than its type by `variation`. It brings the speed function of its type."""
    off = _either(VARIATION_SEED, len(scenario.jobs), variation)
    jobs = [_with_speed(_slowed(job, 1.0 / by), job) for job, by in zip(scenario.jobs, off, strict=True)]
    return replace(scenario, jobs=tuple(jobs)), settings


def _either(seed: int, count: int, part: float) -> list[float]:
    """Return 1 + part or 1 - part for each, both equally likely."""
    dice = np.random.default_rng([seed, count])
    return [1.0 + part if dice.random() < 0.5 else 1.0 - part for _ in range(count)]


def _slowed(job: Job, times: float) -> Job:
    """Return the job with everything that it does taking `times` times as long."""
    return replace(
        job,
        gradient_mb=job.gradient_mb * times,
        worker_types=tuple(replace(unit, seconds=unit.seconds * times) for unit in job.worker_types),
        ps_types=tuple(replace(unit, seconds=unit.seconds * times) for unit in job.ps_types),
    )


def _misjudged(job: Job, slower: float) -> Job:
    speed = tuple(part * slower for part in job.samples.speed)
    return replace(job, samples=replace(job.samples, speed=speed))


def _with_speed(job: Job, like: Job) -> Job:
    """Return the job with the speed function of another as its owner's, fitted as Optimus fits it."""
    pairs = np.array(speeds.probes(MOST_UNITS, MOST_UNITS), np.float64)
    rates = [elastic_rate(like, int(w), int(p), (0, 0), 1.0, centralized=False) for p, w in pairs]
    fitted = speeds.fit(pairs[None, :, 0], pairs[None, :, 1], np.array([rates]), speeds.ASYNC)[0]
    return replace(job, samples=replace(job.samples, mode=speeds.ASYNC, speed=tuple(fitted.tolist())))


ADJUSTMENTS: Mapping[str, Adjust] = {
    "theta": theta,
    "ceiling": ceiling,
    "gain": gain,
    "split": split,
    "renewed": renewed,
    "divisible": divisible,
    "guests": guests,
    "priority_from": priority_from,
    "sensitive_only": sensitive_only,
    "arrivals_in_bursts": arrivals_in_bursts,
    "poisson": poisson,
    "patience_mix": patience_mix,
    "parameter_servers": parameter_servers,
    "containers": containers,
    "speed_error": speed_error,
    "speed_variation": speed_variation,
    "synchronous": synchronous,
    "measured": as_measured,
    "uncapped": uncapped,
}
