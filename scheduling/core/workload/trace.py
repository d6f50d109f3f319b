"""Make a scenario from the log of a real cluster: the part that all importers share.

A log shows which tenant requested how many GPUs, when and for how long. A GPU becomes a worker; a run with all
requested GPUs takes as long as it did. What a log does not show is drawn with a seed (values) or set (parameter
servers).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.cells import deal_servers
from scheduling.core.scenario import BadScenario
from scheduling.core.types import FloatArray
from scheduling.core.workload.document import (
    MACHINE,
    Document,
    above_zero,
    decimals,
    scenario,
    server_rows,
    short,
    tenant_rows,
    within,
)

DAY = 86_400  # seconds
HOUR = 3600
MOST_DAYS = 10_000
GPUS_PER_SERVER = 8
WORKER_MBPS, PS_MBPS = 1000, 8000  # one parameter server for each eight workers of a gang
CREDITS_PER_GPU_HOUR = (0.1, 1.0)  # drawn evenly; in Astraea's section 5.1 the mean is about 0.3
PATIENCE_BASE, PATIENCE_SLOPE = (100.0, 1000.0), (0.1, 2.0)  # Astraea's ranges of g and -k; their ratio is in hours


@dataclass(frozen=True)
class LogPeriod:
    """The part of a log that is used, and how its seconds become slots."""

    from_day: int
    days: int
    drain_days: int  # the scenario continues for this many days after the days that are used
    slot_seconds: float

    def __post_init__(self) -> None:
        within("from_day", self.from_day, 0, MOST_DAYS)
        within("days", self.days, 1, MOST_DAYS)
        within("drain_days", self.drain_days, 0, MOST_DAYS)
        above_zero("slot_seconds", self.slot_seconds)

    @property
    def slots(self) -> int:
        """The number of slots of the scenario."""
        return math.ceil((self.days + self.drain_days) * DAY / self.slot_seconds)

    def holds(self, seconds: float) -> bool:
        """Return whether a time of the log is within the period."""
        return self.from_day * DAY <= seconds < (self.from_day + self.days) * DAY

    def arrival(self, seconds: float) -> float:
        """Return a time of the log in slots of the scenario."""
        return decimals((seconds - self.from_day * DAY) / self.slot_seconds, 4)


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One job as it is in a log."""

    name: str
    tenant: str
    submitted: float  # seconds of the log
    gpus: int
    seconds: int
    share: float = 1.0  # the part of each GPU that it uses


def job_rows(runs: Sequence[LoggedRun], period: LogPeriod, seed: int) -> list[Document]:
    """Return the jobs of a scenario. One mini-batch is one second of one GPU, which includes the time of exchanges."""
    within("seed", seed, 0, 2**63)
    dice = np.random.default_rng(seed)
    rates = dice.uniform(*CREDITS_PER_GPU_HOUR, len(runs))
    patience = dice.uniform(*PATIENCE_BASE, len(runs)) / dice.uniform(*PATIENCE_SLOPE, len(runs))
    slot_hours = period.slot_seconds / HOUR
    return [
        _job_row(run, period, rate, hours / slot_hours)
        for run, rate, hours in zip(runs, rates.tolist(), patience.tolist(), strict=True)
    ]


def _job_row(run: LoggedRun, period: LogPeriod, rate: float, patience: float) -> Document:
    """Return the row of a job. Its value at its earliest end is `rate` for each GPU-hour it occupies, and 0 `patience`
    slots later."""
    slots = max(1, math.ceil(run.seconds / period.slot_seconds))
    worth = rate * run.gpus * run.share * slots * period.slot_seconds / HOUR
    return {
        "name": run.name,
        "tenant": run.tenant,
        "arrival": period.arrival(run.submitted),
        "epochs": 1,
        "chunks": run.gpus,
        "asked_workers": run.gpus,
        "minibatches": run.seconds,
        "minibatch_seconds": 1,
        "worker_mbps": WORKER_MBPS,
        "ps_mbps": PS_MBPS,
        "worker_demand": {"worker": short(run.share)},
        "ps_demand": {"ps": short(run.share)},
        "value": {
            "kind": "linear",
            "slope": short(-worth / patience),
            "base": short(worth * (1.0 + slots / patience), 6),
        },
    }


def server_capacity(gpus: FloatArray, ps_per_gpu: float) -> FloatArray:
    """Return the capacity (resources, servers): the GPUs of each server as workers, and parameter servers in
    proportion, at least one."""
    above_zero("ps_per_gpu", ps_per_gpu)
    return np.stack([gpus, np.maximum(1.0, np.rint(gpus * ps_per_gpu))])


def scaled_quotas(quotas: Mapping[str, float], scale: float) -> dict[str, int]:
    """Return the quotas times `scale` in whole GPUs, at least one each."""
    above_zero("scale_quota", scale)
    if not quotas:
        raise BadScenario("tenants", "no tenant has a quota")
    return {tenant: max(1, math.floor(quota * scale + 0.5)) for tenant, quota in quotas.items()}


def quota_scenario(
    quotas: Mapping[str, int],
    runs: Sequence[LoggedRun],
    period: LogPeriod,
    *,
    ps_per_gpu: float,
    seed: int,
    policy: Mapping[str, Any] | None,
    generator: Mapping[str, Any],
) -> Document:
    """Return the document of a scenario with servers of 8 GPUs, as many as the quotas fill, and the runs as jobs. Each
    tenant owns a stretch of the servers."""
    bounds = np.cumsum([0.0, *quotas.values()]) / GPUS_PER_SERVER
    capacity = server_capacity(np.full(math.ceil(bounds[-1]), float(GPUS_PER_SERVER)), ps_per_gpu)
    return owned_scenario(
        tuple(quotas),
        capacity,
        deal_servers(capacity, bounds),
        runs,
        period,
        seed=seed,
        policy=policy,
        generator=generator,
    )


def owned_scenario(
    tenants: Sequence[str],
    capacity: FloatArray,
    cells: FloatArray,
    runs: Sequence[LoggedRun],
    period: LogPeriod,
    *,
    seed: int,
    policy: Mapping[str, Any] | None,
    generator: Mapping[str, Any],
) -> Document:
    """Return the document of a scenario with these servers and owners, and the runs as jobs in order of submission."""
    return scenario(
        slot_seconds=period.slot_seconds,
        slots=period.slots,
        servers=server_rows(MACHINE, capacity, tenants, cells),
        tenants=tenant_rows(MACHINE, tenants, cells.sum(axis=2)),
        jobs=job_rows(sorted(runs, key=lambda run: run.submitted), period, seed),
        policy=policy or {"name": "astraea", "mode": "guarantee"},
        generator=generator,
    )


def dropped(jobs: Counter[str], why: str) -> list[str]:
    """Return a list with a note on the jobs that were left out, by tenant; it is empty if there are none."""
    if not jobs:
        return []
    each = ", ".join(f"{tenant} {count}" for tenant, count in sorted(jobs.items()))
    return [f"dropped {jobs.total()} jobs of tenants {why}: {each}"]
